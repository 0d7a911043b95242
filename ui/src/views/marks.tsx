// Marks and regions that the user sets on the timeline. They are in the address: a link shows them to somebody else.

import { timeSpan } from "../format";
import type { Scale } from "../plot";
import { update } from "../state";

export interface Mark {
  from: number;
  /** Of a region. */
  to?: number;
  name: string;
}

/** Marks that an address can hold. */
const MOST = 50;

/** From the address, which anybody may have written. */
export function marksOf(text: string): Mark[] {
  try {
    const found: unknown = JSON.parse(text || "[]");
    if (!Array.isArray(found)) return [];
    return found.slice(0, MOST).flatMap((one: unknown): Mark[] => {
      if (!Array.isArray(one)) return [];
      const [from, to, name] = one as unknown[];
      if (typeof from !== "number" || !Number.isFinite(from)) return [];
      return [{ from, to: typeof to === "number" && to > from ? to : undefined, name: typeof name === "string" ? name : "" }];
    });
  } catch {
    return [];
  }
}

function written(marks: Mark[]): string {
  return marks.length === 0 ? "" : JSON.stringify(marks.map(({ from, to, name }) => [from, to ?? null, name]));
}

/** With one more, in the order of time. */
export function withMark(marks: Mark[], { from, to }: { from: number; to?: number }): string {
  const exact = (time: number) => Number(time.toPrecision(9));
  const mark = { from: exact(from), to: to === undefined ? undefined : exact(to), name: `${to === undefined ? "mark" : "region"} ${marks.length + 1}` };
  return written([...marks, mark].slice(-MOST).sort((a, b) => a.from - b.from));
}

interface LinesProps {
  marks: Mark[];
  x: Scale;
  range: [number, number];
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** The marks over the lanes. */
export function MarkLines({ marks, x, range: [start, end], left, right, top, bottom }: LinesProps) {
  return (
    <g class="marks">
      {marks.map(({ from, to = from, name }, at) => {
        if (to < start || from > end) return null;
        const [first, last] = [Math.max(left, x.at(Math.max(start, from))), Math.min(right, x.at(Math.min(end, to)))];
        return (
          <g key={at}>
            <title>{name}</title>
            {to > from && <rect class="region" x={first} y={top} width={Math.max(1, last - first)} height={bottom - top} />}
            {from >= start && <line class="mark" x1={first} x2={first} y1={top} y2={bottom} />}
            {to > from && to <= end && <line class="mark" x1={last} x2={last} y1={top} y2={bottom} />}
          </g>
        );
      })}
    </g>
  );
}

/** The same as a list: names, ways to them, and away with them. */
export function MarkList({ marks, show, select, label }: { marks: Mark[]; show: (from: number, to: number) => void; select: (from: number, to: number) => void; label: (time: number) => string }) {
  if (marks.length === 0) return null;
  const change = (at: number, to: Partial<Mark> | undefined) => update({ marks: written(marks.flatMap((mark, number) => (number !== at ? [mark] : to ? [{ ...mark, ...to }] : []))) });
  return (
    <ul class="marklist" aria-label="Marks">
      {marks.map((mark, at) => {
        const { from, to, name } = mark;
        const around = to === undefined ? [from - 0.005, from + 0.005] as const : [from - (to - from) / 4, to + (to - from) / 4] as const;
        return (
          <li key={at}>
            <input aria-label={`Name of mark ${at + 1}`} value={name} maxLength={60} onChange={(event) => change(at, { name: event.currentTarget.value })} />{" "}
            <span class="quiet">{to === undefined ? label(from) : timeSpan(from, to)}</span>{" "}
            <button onClick={() => show(...around)}>Show</button>{" "}
            {to !== undefined && <><button onClick={() => select(from, to)}>Select</button>{" "}</>}
            <button aria-label={`Remove ${name}`} onClick={() => change(at, undefined)}>✕</button>
          </li>
        );
      })}
    </ul>
  );
}
