// Drawings in SVG: axes, bars, lines and points. SVG and not canvas, so that each can be saved as it is.

import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { amount, digits } from "./format";
import { SaveDrawing, useWidth } from "./parts";

export interface Bar {
  label: string;
  value: number;
  kind?: string;
  title?: string;
}

/** A histogram. */
export function Bars({ bars, label, unit, name, height = 150 }: { bars: Bar[]; label: string; unit: string; name: string; height?: number }) {
  const svg = useRef<SVGSVGElement>(null);
  const [box, width] = useWidth<HTMLDivElement>();
  const most = Math.max(...bars.map((bar) => bar.value), 1e-30);
  const [left, bottom] = [8, 34];
  const step = Math.min(90, (width - left) / Math.max(1, bars.length));
  const shownLabels = labels(bars.map((_, at) => left + (at + 0.5) * step), (at) => bars[at]!.label, width);
  return (
    <div class="plot" ref={box}>
      <svg ref={svg} width={width} height={height} role="img" aria-label={`${label}: ${bars.map((bar) => `${bar.label} ${amount(bar.value, unit)}`).join(", ")}`}>
        {bars.map((bar, at) => {
          const size = (bar.value / most) * (height - bottom - 14);
          const x = left + at * step;
          return (
            <g key={at}>
              <title>{`${bar.label}: ${bar.title ?? amount(bar.value, unit)}`}</title>
              <rect class={`bar ${bar.kind ?? ""}`} x={x + 1} y={height - bottom - size} width={Math.max(1, step - 2)} height={Math.max(size, bar.value > 0 ? 1 : 0)} />
              {bar.value === most && <text class="tick" x={x + step / 2} y={height - bottom - size - 3} text-anchor="middle">{amount(bar.value, unit)}</text>}
            </g>
          );
        })}
        {shownLabels.map((one) => <text key={one.place} class="tick" x={one.x} y={height - bottom + 14} text-anchor={one.anchor}>{bars[one.place]!.label}</text>)}
        <line class="axis" x1={left} x2={width} y1={height - bottom} y2={height - bottom} />
        <text class="tick" x={left} y={height - 4}>{label}</text>
      </svg>
      <SaveDrawing svg={svg} name={name} />
    </div>
  );
}

export interface Scale {
  at: (value: number) => number;
  ticks: number[];
}

/** A linear scale with ticks at 1, 2 and 5 times powers of ten; for bytes at powers of two. */
export function linear(from: number, to: number, start: number, end: number, most = 6, binary = false): Scale {
  const span = to - from || 1;
  const rough = span / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = binary ? 2 ** Math.ceil(Math.log2(rough)) : [1, 2, 5, 10].map((factor) => factor * power).find((one) => span / one <= most) ?? power * 10;
  const ticks: number[] = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to + step * 1e-6 && ticks.length < 100; tick += step) ticks.push(Number(tick.toPrecision(12)));
  return { at: (value) => start + ((value - from) / span) * (end - start), ticks };
}

/** A logarithmic scale with ticks at powers of `base`. */
export function logarithmic(from: number, to: number, start: number, end: number, base = 10): Scale {
  const log = (value: number) => Math.log(value) / Math.log(base);
  const [low, high] = [log(from), log(to)];
  const ticks: number[] = [];
  for (let power = Math.ceil(low - 1e-9); power <= high + 1e-9 && ticks.length < 60; power++) ticks.push(base ** power);
  return { at: (value) => start + ((log(Math.max(value, 1e-300)) - low) / (high - low || 1)) * (end - start), ticks };
}

interface Label {
  /** Which of the places. */
  place: number;
  x: number;
  anchor: "middle" | "end";
}

/** Of labels at these places those that do not overlap, from the first on, none of them beyond `end`. */
function labels(places: number[], text: (place: number) => string, end: number): Label[] {
  let free = -Infinity;
  return places.flatMap((x, place): Label[] => {
    // Digits of 11 pixels are at most so wide in the fonts of the page.
    const wide = text(place).length * 7;
    const last = x + wide / 2 > end;
    const left = last ? Math.min(x, end) - wide : x - wide / 2;
    if (left < free) return [];
    free = left + wide + 4;
    return [{ place, x: last ? Math.min(x, end) : x, anchor: last ? "end" : "middle" }];
  });
}

/** The same of the ticks of a scale. */
export function apart(x: Scale, format: (value: number) => string, end: number): (Label & { tick: number })[] {
  return labels(x.ticks.map(x.at), (place) => format(x.ticks[place]!), end).map((label) => ({ ...label, tick: x.ticks[label.place]! }));
}

interface FrameProps {
  width: number;
  height: number;
  x: Scale;
  y: Scale;
  xLabel: string;
  yLabel: string;
  format?: (value: number) => string;
  formatY?: (value: number) => string;
  left: number;
  bottom: number;
  children: ComponentChildren;
}

/** Axes around a drawing. */
export function Axes({ width, height, x, y, xLabel, yLabel, left, bottom, format = digits, formatY = digits, children }: FrameProps) {
  return (
    <>
      {apart(x, format, width).map(({ tick, anchor }) => (
        <g key={`x${tick}`}>
          <line class="gridline" x1={x.at(tick)} x2={x.at(tick)} y1={8} y2={height - bottom} />
          <text class="tick" x={x.at(tick)} y={height - bottom + 14} text-anchor={anchor}>{format(tick)}</text>
        </g>
      ))}
      {y.ticks.map((tick) => (
        <g key={`y${tick}`}>
          <line class="gridline" x1={left} x2={width - 8} y1={y.at(tick)} y2={y.at(tick)} />
          <text class="tick" x={left - 6} y={y.at(tick) + 4} text-anchor="end">{formatY(tick)}</text>
        </g>
      ))}
      <text class="tick" x={(left + width - 8) / 2} y={height - 4} text-anchor="middle">{xLabel}</text>
      <text class="tick" x={left + 5} y={17}>{yLabel}</text>
      {children}
    </>
  );
}
