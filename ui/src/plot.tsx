// Drawings in SVG: axes, bars, lines and points. SVG and not canvas, so that each can be saved as it is.

import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { amount, digits, interval, plain } from "./format";
import { SaveDrawing, useWidth } from "./parts";

export interface Bar {
  label: string;
  value: number;
  kind?: string;
  title?: string;
  /** Ends of its interval. */
  low?: number;
  high?: number;
}

/** A histogram, with a whisker where a bar has an interval. */
export function Bars({ bars, label, unit, name, height = 150 }: { bars: Bar[]; label: string; unit: string; name: string; height?: number }) {
  const svg = useRef<SVGSVGElement>(null);
  const [box, width] = useWidth<HTMLDivElement>();
  const most = Math.max(...bars.map((bar) => Math.max(bar.value, bar.high ?? 0)), 1e-30);
  const largest = Math.max(...bars.map((bar) => bar.value));
  const [left, bottom] = [8, 34];
  const step = Math.min(90, (width - left) / Math.max(1, bars.length));
  const y = (value: number) => height - bottom - (value / most) * (height - bottom - 14);
  const shownLabels = labels(bars.map((_, at) => left + (at + 0.5) * step), (at) => bars[at]!.label, width);
  const says = (bar: Bar) => {
    const ends = interval({ value: bar.value, low: bar.low, high: bar.high, unit, samples: 0 });
    return `${bar.label}: ${bar.title ?? amount(bar.value, unit)}${ends ? `, 95 % interval ${ends}` : ""}`;
  };
  return (
    <div class="plot" ref={box}>
      <svg ref={svg} width={width} height={height} role="group" aria-label={label}>
        {bars.map((bar, at) => {
          const x = left + at * step;
          // Above the bar, or next to its whisker on the side that has room.
          const [middle, room] = [x + step / 2, amount(bar.value, unit).length * 7];
          const side = bar.high === undefined ? "middle" : middle + 6 + room > width ? "end" : "start";
          const place = { middle: Math.min(width - room / 2, Math.max(middle, left + 16)), start: middle + 6, end: middle - 6 }[side];
          return (
            <g key={at} class="explained" role="img" tabindex={0} aria-label={says(bar)}>
              <title>{says(bar)}</title>
              <rect class={`bar ${bar.kind ?? ""}`} x={x + 1} y={Math.min(y(bar.value), height - bottom - (bar.value > 0 ? 1 : 0))} width={Math.max(1, step - 2)} height={Math.max(height - bottom - y(bar.value), bar.value > 0 ? 1 : 0)} />
              {bar.value === largest && <text class="tick" x={place} y={y(bar.value) - 3} text-anchor={side}>{amount(bar.value, unit)}</text>}
              {bar.low !== undefined && bar.high !== undefined && bar.low < bar.high && <Whisker x={[x + step / 2, x + step / 2]} y={[y(bar.low), y(bar.high)]} />}
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

/** An interval: a line between its ends, with caps. */
export function Whisker({ x: [left, right], y: [top, end] }: { x: [number, number]; y: [number, number] }) {
  const upright = left === right;
  const cap = (x: number, y: number) => (upright ? <line x1={x - 3} x2={x + 3} y1={y} y2={y} /> : <line x1={x} x2={x} y1={y - 3} y2={y + 3} />);
  return <g class="error"><line x1={left} x2={right} y1={top} y2={end} />{cap(left, top)}{cap(right, end)}</g>;
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
    const left = last ? Math.min(x, end) - wide : Math.max(0, x - wide / 2);
    if (left < free) return [];
    free = left + wide + 4;
    return [{ place, x: last ? Math.min(x, end) : left + wide / 2, anchor: last ? "end" : "middle" }];
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
      {apart(x, plain(format), width).map(({ tick, anchor }) => (
        <g key={`x${tick}`}>
          <line class="gridline" x1={x.at(tick)} x2={x.at(tick)} y1={8} y2={height - bottom} />
          <text class="tick" x={x.at(tick)} y={height - bottom + 14} text-anchor={anchor}>{plain(format)(tick)}</text>
        </g>
      ))}
      {y.ticks.map((tick) => (
        <g key={`y${tick}`}>
          <line class="gridline" x1={left} x2={width - 8} y1={y.at(tick)} y2={y.at(tick)} />
          <text class="tick" x={left - 6} y={y.at(tick) + 4} text-anchor="end">{plain(formatY)(tick)}</text>
        </g>
      ))}
      <text class="tick" x={(left + width - 8) / 2} y={height - 4} text-anchor="middle">{xLabel}</text>
      <text class="tick" x={left + 5} y={17}>{yLabel}</text>
      {children}
    </>
  );
}
