// Marks and regions on the timeline: those that the user sets are in the address, so a link shows them to somebody else; those of the
// program, and pauses, come with the result.

import { counted, timeSpan } from "../format";
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
/** Marks of the program that are listed. */
const LISTED = 100;

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

/** Pixels of a letter on a flag, about. */
const LETTER = 6;

/** What the program or somebody named while it ran, and pauses: hatched, for nothing was observed in them. `flags`: names fly at the top. */
export function ProgramMarks({ marks, x, range: [start, end], left, right, top, bottom, flags }: LinesProps & { flags: boolean }) {
  let free = -Infinity;
  const seen = marks.filter(({ from, to = from }) => to >= start && from <= end);
  const hatch = `hatch-${flags ? "top" : "rest"}`;
  return (
    <g class="marks">
      <defs><pattern id={hatch} width={6} height={6} patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="hatch" x1={0} x2={0} y1={0} y2={6} /></pattern></defs>
      {seen.map(({ from, to, name }, at) => {
        const first = Math.max(left, x.at(Math.max(start, from)));
        if (to !== undefined) {
          const width = Math.max(1, Math.min(right, x.at(Math.min(end, to))) - first);
          return <rect key={at} class="paused" x={first} y={top} width={width} height={bottom - top} fill={`url(#${hatch})`}><title>{name}</title></rect>;
        }
        if (from < start) return null;
        const room = name.length * LETTER + 8;
        // At the right edge a flag flies to the left.
        const turned = first + room > right && first - room > left;
        const shown = flags && first >= free;
        if (shown && !turned) free = first + room;
        return (
          <g key={at} class="flag">
            <title>{name}</title>
            <line x1={first} x2={first} y1={top} y2={bottom} />
            {flags && <path d={`M${first} ${top}l${turned ? -5 : 5} 3l${turned ? 5 : -5} 3z`} />}
            {shown && <text x={turned ? first - 7 : first + 7} y={top + 8} text-anchor={turned ? "end" : "start"}>{name}</text>}
          </g>
        );
      })}
    </g>
  );
}

/** The user's marks over the lanes. */
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

/** The program's marks and pauses as a list: what a drawing has no room for. */
export function ProgramMarkList({ marks, show, select, label }: { marks: Mark[]; show: (from: number, to: number) => void; select: (from: number, to: number) => void; label: (time: number) => string }) {
  if (marks.length === 0) return null;
  return (
    <details class="programmarks">
      <summary>{counted(marks.length, "mark")} and pauses of the run</summary>
      <ul class="marklist">
        {marks.slice(0, LISTED).map(({ from, to, name }, at) => (
          <li key={at}>
            {name} <span class="quiet">{to === undefined ? label(from) : timeSpan(from, to)}</span>{" "}
            <button onClick={() => (to === undefined ? show(from - 0.005, from + 0.005) : show(from - (to - from) / 4, to + (to - from) / 4))}>Show</button>{" "}
            {at > 0 && to === undefined && marks[at - 1]!.to === undefined && <button onClick={() => select(marks[at - 1]!.from, from)}>Select since the mark before</button>}
          </li>
        ))}
        {marks.length > LISTED && <li class="quiet">and {marks.length - LISTED} more</li>}
      </ul>
    </details>
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
