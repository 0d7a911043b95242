// 2 Flame graph on a canvas: icicle or flame, callers or callees, left-heavy or by name, search, zoom by click or key.
// A canvas holds tens of thousands of frames where elements would not; the top-down tree has the same for screen readers.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { colourOf } from "../colours";
import { amount, percent, shortName, uncertainty } from "../format";
import { Failed, Notes, Waiting, fullWidth, useWidth } from "../parts";
import { save } from "../save";
import type { Stacks, TreeRow } from "../stacks";
import { choose, update, useShown } from "../state";
import { FigureChoice, Taken, amountOf, useChosen } from "./calls";

const FRAME = 19;
/** Frames narrower than this, pixels, are drawn as part of their parent. */
const LEAST = 1;

/** Pixels of a letter, about: measuring each label would cost more than the picture. */
const LETTER = 7.1;

interface Box {
  row: TreeRow;
  x: number;
  width: number;
  level: number;
}

/** Boxes of everything that is wide enough, below `zoom` or all roots. */
function layout(roots: TreeRow[], zoom: TreeRow | undefined, width: number, heavy: boolean): Box[] {
  const boxes: Box[] = [];
  const ancestors: TreeRow[] = [];
  for (let at = zoom?.parent; at; at = at.parent) ancestors.unshift(at);
  ancestors.forEach((row, level) => boxes.push({ row, x: 0, width, level }));
  const place = (rows: TreeRow[], x: number, scale: number, level: number) => {
    const ordered = heavy ? rows : [...rows].sort((a, b) => a.label.localeCompare(b.label));
    for (const row of ordered) {
      const size = row.total * scale;
      if (size >= LEAST) {
        boxes.push({ row, x, width: size, level });
        if (level < 400) place(row.children(), x, scale, level + 1);
      }
      x += size;
    }
  };
  const top = zoom ? [zoom] : roots;
  const whole = top.reduce((sum, row) => sum + row.total, 0) || 1;
  place(top, 0, width / whole, ancestors.length);
  return boxes;
}

export function FlameView({ height }: { height: number }) {
  const shown = useShown();
  const { stacks, figure, choice, error, notes } = useChosen();
  const modes = new Set(shown.flame.split(",").filter(Boolean));
  const inverted = modes.has("callers");
  const roots = useMemo(() => {
    if (!stacks || !figure) return [];
    return inverted ? stacks.bottomUp([figure], choice, "function") : stacks.topDown([figure], choice);
  }, [stacks, figure, inverted, choice.key]);
  if (error) return <Failed error={error} />;
  if (!stacks) return <Waiting />;
  const whole = figure?.whole.value || roots.reduce((sum, row) => sum + row.total, 0) || 1;
  const inWords = (value: number) => {
    const ends = figure && uncertainty(amountOf(figure, value));
    return `${amount(value, figure?.whole.unit ?? "")}${ends ? ` (${ends})` : ""}`;
  };
  return (
    <FlameGraph roots={roots} stacks={stacks} height={height - 180} name="flame-graph" tools={<FigureChoice stacks={stacks} />}
      fill={(row) => colourOf(stacks.moduleOf(row.fn), row.label)}
      says={(row) => `${inWords(row.total)}, ${percent((row.total / whole) * 100)} of the whole run; self ${inWords(row.self)}`}>
      <Notes notes={notes} />
      {figure && <p class="quiet"><Taken figure={figure} taken={roots.reduce((sum, row) => sum + row.total, 0)} choice={choice} /></p>}
    </FlameGraph>
  );
}

interface GraphProps {
  roots: TreeRow[];
  stacks: Stacks;
  height: number;
  /** Of files that are saved. */
  name: string;
  /** What a frame's colour says. */
  fill: (row: TreeRow) => string;
  /** What a frame's figures are. */
  says: (row: TreeRow) => string;
  /** In front of the tools that all have. */
  tools: ComponentChildren;
  /** Below the tools. */
  children: ComponentChildren;
}

/** A picture of a tree. How it is turned is chosen for all of them. */
export function FlameGraph({ roots, stacks, height, name, fill, says, tools, children }: GraphProps) {
  const shown = useShown();
  const [box, width] = useWidth<HTMLDivElement>(fullWidth());
  const canvas = useRef<HTMLCanvasElement>(null);
  const [zoom, setZoom] = useState<TreeRow>();
  const [focus, setFocus] = useState<TreeRow>();
  const modes = new Set(shown.flame.split(",").filter(Boolean));
  const [inverted, byName, upwards] = [modes.has("callers"), modes.has("name"), modes.has("flame")];
  const toggle = (mode: string) => {
    if (!modes.delete(mode)) modes.add(mode);
    setZoom(undefined);
    update({ flame: [...modes].join(",") });
  };
  useEffect(() => setZoom(undefined), [roots]);
  const boxes = useMemo(() => layout(roots, zoom, width, !byName), [roots, zoom, width, byName]);
  const levels = boxes.reduce((most, one) => Math.max(most, one.level + 1), 4);
  const drawn = Math.max(levels * FRAME + 2, 100);
  const marked = focus && boxes.find((one) => one.row === focus);
  const top = (level: number) => (upwards ? drawn - (level + 1) * FRAME : level * FRAME);

  // Before the browser paints: an effect after it would show an empty canvas first.
  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    const ratio = window.devicePixelRatio || 1;
    [element.width, element.height] = [width * ratio, drawn * ratio];
    context.scale(ratio, ratio);
    context.clearRect(0, 0, width, drawn);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const search = shown.search.toLowerCase();
    for (const one of boxes) {
      const y = top(one.level);
      const found = !search || one.row.label.toLowerCase().includes(search);
      context.globalAlpha = found ? 1 : 0.25;
      context.fillStyle = fill(one.row);
      context.fillRect(one.x, y, Math.max(0.5, one.width - 0.5), FRAME - 1);
      if (one.width > 28) {
        context.fillStyle = "#1a1a1a";
        context.fillText(labelIn(one), one.x + 3, y + FRAME / 2);
      }
    }
    context.globalAlpha = 1;
  }, [boxes, shown.search, width, drawn, upwards, roots]);

  const under = (event: MouseEvent): TreeRow | undefined => {
    const rect = canvas.current?.getBoundingClientRect();
    if (!rect) return undefined;
    const [x, y] = [event.clientX - rect.left, event.clientY - rect.top];
    return boxes.find((one) => x >= one.x && x < one.x + one.width && y >= top(one.level) && y < top(one.level) + FRAME)?.row;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const at = boxes.findIndex((one) => one.row === focus);
    const here = boxes[at];
    const sibling = (step: number) => {
      const level = boxes.filter((one) => one.level === here?.level);
      return level[level.findIndex((one) => one.row === focus) + step]?.row;
    };
    const outwards = here?.row.parent;
    const inwards = boxes.find((one) => one.row.parent === here?.row && here)?.row;
    let next: TreeRow | undefined;
    if (!here) next = boxes[0]?.row;
    else if (event.key === "ArrowLeft") next = sibling(-1);
    else if (event.key === "ArrowRight") next = sibling(1);
    else if (event.key === "ArrowDown") next = upwards ? outwards : inwards;
    else if (event.key === "ArrowUp") next = upwards ? inwards : outwards;
    if (event.key === "Enter" && here) setZoom(here.row);
    else if (event.key === "Escape" || event.key === "0") setZoom(undefined);
    else if (event.key === "f" && here) choose("function", here.row.label, event.shiftKey ? "also" : "only");
    else if (event.key === "x" && here) choose("function", here.row.label, "without");
    else if (!event.key.startsWith("Arrow")) return;
    if (next) setFocus(next);
    event.preventDefault();
  };

  const pointed = focus && { name: shortName(focus.label), text: `${stacks.moduleOf(focus.fn)}: ${says(focus)}` };
  return (
    <>
      <div class="bar">
        {tools}
        <label><input type="checkbox" checked={inverted} onChange={() => toggle("callers")} /> Inverted (callers)</label>
        <label><input type="checkbox" checked={!byName} onChange={() => toggle("name")} /> Left heavy</label>
        <label><input type="checkbox" checked={!upwards} onChange={() => toggle("flame")} /> Icicle</label>
        <input type="search" placeholder="Find a function" aria-label="Find a function" value={shown.search} onInput={(event) => update({ search: event.currentTarget.value })} />
        {zoom && <button onClick={() => setZoom(undefined)}>Zoom out</button>}
        <button onClick={() => canvas.current?.toBlob((blob) => blob && save(`${name}.png`, blob))}>PNG</button>
        <button onClick={() => save(`${name}.svg`, flameSvg(boxes, width, drawn, top, fill), "image/svg+xml")}>SVG</button>
      </div>
      <p class="readout" aria-live="polite" title={focus?.label}>{pointed ? `${pointed.name}, ${pointed.text}` : "Point at a frame, or go to it by arrow keys; click or Enter zooms, Escape goes back, f filters by its function, x leaves it out."}</p>
      {children}
      <div class="flame" ref={box} style={{ maxHeight: `${height}px` }}>
        {roots.length === 0 && <p class="empty">Nothing in this selection.</p>}
        {marked && <div class="focus" style={{ left: `${marked.x}px`, top: `${top(marked.level)}px`, width: `${Math.max(3, marked.width)}px`, height: `${FRAME - 1}px` }} />}
        <canvas ref={canvas} tabIndex={0} role="application" aria-label="Flame graph; arrows move, Enter zooms, Escape goes back. The top-down view has the same as a tree."
          style={{ width: `${width}px`, height: `${drawn}px` }} onKeyDown={onKeyDown}
          onMouseMove={(event) => { const row = under(event); if (row !== focus && row) setFocus(row); }}
          onClick={(event) => { const row = under(event); if (row) setZoom(row); }}
          onDblClick={(event) => { const row = under(event); const file = row && stacks.fileOf(row.fn); if (file) update({ view: "source", file, line: row.line || undefined }); }} />
      </div>
    </>
  );
}

/** As much of a name as there is room for. */
function labelIn({ row, width }: Box): string {
  const room = Math.floor((width - 6) / LETTER);
  const name = row.label.length > room ? shortName(row.label) : row.label;
  return name.length > room ? name.slice(0, Math.max(1, room - 1)) + "…" : name;
}

/** The same boxes as a drawing; names are escaped by the serializer. */
function flameSvg(boxes: Box[], width: number, height: number, top: (level: number) => number, fill: (row: TreeRow) => string): string {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const add = (name: string, fields: Record<string, string | number>, text?: string) => {
    const element = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(fields)) element.setAttribute(key, String(value));
    if (text !== undefined) element.textContent = text;
    svg.append(element);
  };
  for (const [key, value] of Object.entries({ width, height, "font-family": "sans-serif", "font-size": 12 })) svg.setAttribute(key, String(value));
  for (const one of boxes) {
    const y = top(one.level);
    add("rect", { x: one.x, y, width: Math.max(0.5, one.width - 0.5), height: FRAME - 1, fill: fill(one.row) });
    if (one.width > 28) add("text", { x: one.x + 3, y: y + 13 }, labelIn(one));
  }
  return new XMLSerializer().serializeToString(svg);
}
