// Tables as CSV and JSON, drawings as SVG and PNG: made in the page, handed to the browser as a download.

import { textOf, isMetric, type Column, type Row } from "./types";

export function save(name: string, content: Blob | string, kind = "text/plain"): void {
  const blob = typeof content === "string" ? new Blob([content], { type: kind }) : content;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // The download has begun by then; the memory of the blob is the page's until it is let go.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** RFC 4180; a figure has its interval and evidence in columns of their own, as `--format csv` writes them. */
export function csv(columns: Column[], rows: Row[]): string {
  const quoted = (text: string) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const line = (fields: string[]) => fields.map(quoted).join(",") + "\n";
  const heads = columns.flatMap(({ key, unit, plain }) => (unit === null || plain ? [key] : [key, `${key}_low`, `${key}_high`, `${key}_evidence`]));
  const body = rows.map((row) =>
    line(columns.flatMap(({ key, unit, plain }) => {
      const cell = row[key];
      if (unit === null || plain) return [textOf(cell)];
      if (!isMetric(cell)) return [textOf(cell), "", "", ""];
      return [cell.value, cell.low, cell.high, cell.evidence].map((field) => String(field ?? ""));
    })));
  return line(heads) + body.join("");
}

const DRAWN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "fill-opacity", "font-size", "font-family", "font-weight", "text-anchor"];

/** Drawings below each other as one that looks the same without this page's style sheet. */
export function svgText(drawings: SVGSVGElement[]): string {
  if (drawings.length === 1) return new XMLSerializer().serializeToString(standingAlone(drawings[0]!));
  const all = document.createElementNS(SVG, "svg");
  let [width, height] = [0, 0];
  for (const one of drawings) {
    const copy = standingAlone(one);
    const box = one.getBoundingClientRect();
    copy.setAttribute("y", String(height));
    [width, height] = [Math.max(width, box.width), height + box.height];
    all.append(copy);
  }
  all.setAttribute("width", String(width));
  all.setAttribute("height", String(height));
  return new XMLSerializer().serializeToString(all);
}

const SVG = "http://www.w3.org/2000/svg";

function standingAlone(svg: SVGSVGElement): SVGSVGElement {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const originals = [svg, ...svg.querySelectorAll("*")];
  const copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((original, at) => {
    const style = getComputedStyle(original);
    for (const name of DRAWN) copies[at]?.setAttribute(name, style.getPropertyValue(name));
    copies[at]?.removeAttribute("class");
  });
  const { width, height } = svg.getBoundingClientRect();
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  const back = document.createElementNS(SVG, "rect");
  back.setAttribute("width", "100%");
  back.setAttribute("height", "100%");
  back.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  copy.prepend(back);
  return copy;
}

export function savePng(name: string, drawings: SVGSVGElement[]): void {
  const boxes = drawings.map((one) => one.getBoundingClientRect());
  const [width, height] = [Math.max(...boxes.map((box) => box.width)), boxes.reduce((sum, box) => sum + box.height, 0)];
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [width * 2, height * 2];
    const context = canvas.getContext("2d");
    context?.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => blob && save(name, blob));
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svgText(drawings));
}
