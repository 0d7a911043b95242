// How lanes of the timeline are drawn: areas over time, and from near single samples, faults, waits and bursts.
// One path for each kind of a lane: thousands of elements would make a page slow.

import type { ComponentChildren } from "preact";
import { colourOf } from "../colours";
import { seconds, shortName } from "../format";
import { inRegion, type Busy, type Kind, type Moment, type Moments, type Pass } from "../moments";
import type { Scale } from "../plot";
import { fitted, widthOf } from "../room";
import type { Choice } from "../stacks";
import { chooseBy } from "../state";
import type { BusyLane, FigureLane, Lane, Span } from "./lanes";
import { STATES, type StateSpan } from "./states";

/** Pixels of a sample from which on each is drawn by itself. */
const SINGLE = 5;
/** Pixels of a letter, about. */
const LETTER = 6.6;

/** Pixels of the names in front of lanes. */
export const leftOf = (width: number): number => (width < 600 ? 118 : 176);

export interface Drawn {
  x: Scale;
  width: number;
  range: [number, number];
}

const tenth = (value: number): number => Math.round(value * 10) / 10;

/** A time on the screen, at most at its edges. */
function clamped({ x, range: [start, end] }: Drawn): (time: number) => number {
  return (time) => x.at(Math.min(end, Math.max(start, time)));
}

interface HeadProps {
  lane: Lane;
  top: number;
  depth: number;
  width: number;
  chosen: boolean;
  found: boolean;
  focused: boolean;
  pinned: boolean;
  folded?: boolean;
  onFold?: () => void;
  onPin: () => void;
}

/** The name of a lane, with what can be done with it. */
export function LaneHead({ lane, top, depth, width, chosen, found, focused, pinned, folded, onFold, onPin }: HeadProps) {
  const left = leftOf(width);
  const filters = lane.type !== "figure" && lane.filter !== undefined;
  const choose = (event: MouseEvent | KeyboardEvent) => lane.type !== "figure" && lane.filter && chooseBy(event, lane.filter, lane.name);
  const at = 8 + depth * 10 + (onFold ? 14 : 0);
  const kind = `lane${filters ? " link" : ""}${chosen ? " chosen" : ""}${found ? " found" : ""}`;
  const name = <><title>{lane.says}</title>{cut(lane.label, Math.floor((left - at - 32) / LETTER))}</>;
  return (
    <g>
      {focused && <rect class="here" x={1} y={top - 1} width={left - 4} height={lane.height - 3} />}
      {onFold && <text class="lane twist" x={8 + depth * 10} y={top + 13} role="button" tabindex={0} aria-expanded={!folded} aria-label={`${folded ? "Unfold" : "Fold"} ${lane.label}`} onClick={onFold} onKeyDown={(event) => event.key === "Enter" && onFold()}>{folded ? "▸" : "▾"}</text>}
      {filters
        ? <text class={kind} x={at} y={top + 13} role="button" tabindex={0} onClick={choose} onKeyDown={(event) => event.key === "Enter" && choose(event)}>{name}</text>
        : <text class={kind} x={at} y={top + 13}>{name}</text>}
      <text class={pinned ? "lane pin on" : "lane pin"} x={left - 16} y={top + 13} role="button" tabindex={0} aria-pressed={pinned} aria-label={`${pinned ? "Unpin" : "Pin"} ${lane.label}`} onClick={onPin} onKeyDown={(event) => event.key === "Enter" && onPin()}>
        <title>{pinned ? "unpin" : "pin on top"}</title>
        {pinned ? "★" : "☆"}
      </text>
    </g>
  );
}

/** Threads of one program differ in what stands at the end: their ids. */
function cut(label: string, most: number): string {
  if (label.length <= most) return label;
  const id = /\s\(\d+\)$/.exec(label)?.[0] ?? "";
  return `${label.slice(0, Math.max(1, most - id.length - 1))}…${id}`;
}

export function FigureDrawing({ lane, top, drawn }: { lane: FigureLane; top: number; drawn: Drawn }) {
  const { width, range: [start, end] } = drawn;
  const high = lane.height - 16;
  const base = top + lane.height - 8;
  const y = (value: number) => tenth(base - (Math.min(value, lane.most) / (lane.most * 1.05)) * high);
  const seen = lane.spans.filter((span) => span.to > start && span.from < end);
  const at = clamped(drawn);
  // Steps from the first to the last, back along the values below.
  const area = (kind: number) => {
    const below = (span: FigureLane["spans"][0]) => span.values.slice(0, kind).reduce((sum, value) => sum + value, 0);
    const edge = (value: number, from: number, to: number) => `${tenth(at(from))},${y(value)} ${tenth(at(to))},${y(value)}`;
    const upper = seen.map((span) => edge(below(span) + span.values[kind]!, span.from, span.to));
    const lower = seen.map((span) => edge(below(span), span.to, span.from)).reverse();
    return [...upper, ...lower].join(" ");
  };
  let before: number | undefined;
  const peak = seen.map((span) => {
    if (span.peak === undefined) return (before = undefined, "");
    const [left, right, high] = [tenth(at(span.from)), tenth(at(span.to)), y(span.peak)];
    const step = before === undefined ? `M${left} ${high}H${right}` : before === high ? `H${right}` : `V${high}H${right}`;
    before = high;
    return step;
  }).join("");
  return (
    <g>
      {lane.spans.length > 0 && <text class="tick" x={8} y={top + 30}>to {lane.format(lane.most)}</text>}
      {lane.none && <text class="tick" x={leftOf(width) + 8} y={top + 30}>n/a</text>}
      {lane.kinds.map((kind, number) => <polygon key={number} class={`area ${kind}`} points={area(number)} />)}
      <Band spans={seen} at={at} y={y} />
      {peak && <path class="peak" d={peak}><title>{lane.says}</title></path>}
      <line class="axis" x1={leftOf(width)} x2={width - 10} y1={base} y2={base} />
    </g>
  );
}

/** The intervals of what is drawn. */
function Band({ spans, at, y }: { spans: Span[]; at: (time: number) => number; y: (value: number) => number }) {
  const d = spans.map(({ from, to, low, high }) => (low === undefined || high === undefined || low >= high ? "" : `M${tenth(at(from))} ${y(high)}H${tenth(at(to))}V${y(low)}H${tenth(at(from))}z`)).join("");
  return d ? <path class="uncertain" d={d} /> : null;
}

interface BusyProps {
  lane: BusyLane;
  top: number;
  drawn: Drawn;
  busy?: Busy;
  /** The same with intervals. */
  parts: Span[];
  moments?: Moments;
  choice: Choice;
  states?: StateSpan[];
  /** Why it cannot be said how busy it was. */
  none?: string;
  /** What was clicked. */
  picked?: Moment & { cpu?: number };
  /** For each node of the closer look, whether it is what is looked for. */
  having?: Uint8Array;
}

export function BusyDrawing({ lane, top, drawn, busy, parts, moments, choice, states, none, picked, having }: BusyProps) {
  const at = clamped(drawn);
  const high = lane.height - 5;
  const base = top + high;
  const [start, end] = drawn.range;
  if (none !== undefined) return <text class="tick" x={leftOf(drawn.width) + 8} y={top + 13}>{none}</text>;
  const child = lane.type === "thread" || lane.type === "cpu";
  const key = lane.type === "thread" ? `t${lane.thread}` : `c${lane.cpu}`;
  const all = (kind: Kind) => (moments && child ? moments.grouped(kind, choice, drawn.range).get(key) ?? [] : []);
  const mine = all("samples");
  const perSecond = (drawn.width - leftOf(drawn.width)) / (end - start);
  const single = mine.length > 0 && middle(mine.map((one) => one.to - one.from)) * perSecond >= SINGLE;
  const waits = lane.type === "thread" ? all("waits") : [];
  const ran = waits.length > 0 ? since(waits, mine) : mine;
  const oneByOne = states !== undefined && waits.length > 0 && moments?.doc.merged_waits === 0;
  return (
    <g>
      <rect class="life" x={at(lane.start)} y={top} width={Math.max(1, at(lane.end) - at(lane.start))} height={high} />
      {states && !oneByOne && states.map((span) => <StateDrawing key={span.from} span={span} top={top} high={high} at={at} shown={span.to > start && span.from < end} />)}
      {single ? <Samples moments={moments!} samples={ran} top={top} high={high} drawn={drawn} having={having} />
        : (!states || oneByOne) && (
          <>
            {busy && <Steps busy={busy} full={lane.full} top={top} high={high} drawn={drawn} />}
            <Band spans={parts} at={at} y={(value) => tenth(base - Math.min(1, value / lane.full) * high)} />
          </>
        )}
      {waits.length > 0 && (oneByOne || single) && <Waits moments={moments!} waits={waits} top={top} high={high} at={at} />}
      {lane.type === "thread" && <Marks faults={all("faults")} bursts={all("bursts")} base={base} top={top} at={at} />}
      {picked && child && (lane.type === "thread" ? picked.thread === lane.thread : picked.cpu === lane.cpu) && <rect class="picked" x={at(picked.from) - 1} y={top - 1} width={Math.max(3, at(picked.to) - at(picked.from) + 2)} height={high + 2} />}
    </g>
  );
}

/** How many threads are in a region, or the passes of one thread: of rows that are several, as high as the part of the time in them. */
export function RegionDrawing({ lane, top, drawn, moments }: { lane: BusyLane; top: number; drawn: Drawn; moments?: Moments }) {
  const at = clamped(drawn);
  const high = lane.height - 5;
  const [start, end] = drawn.range;
  const passes = (moments?.passes.get(lane.type === "region" ? `r${lane.region}` : `r${lane.region} t${lane.thread}`) ?? []).filter((one) => one.to >= start && one.from <= end);
  const bins = Math.max(50, Math.ceil((drawn.width - leftOf(drawn.width)) / 2));
  if (lane.type === "region") return <g style={{ "--user": lane.colour }}><Steps busy={inRegion(passes, drawn.range, bins)} full={lane.full} top={top} high={high} drawn={drawn} /></g>;
  const labels: ComponentChildren[] = [];
  let [d, last] = ["", -1];
  for (const one of passes) {
    const [left, right] = [tenth(at(one.from)), tenth(at(one.to))];
    // A gap of a pixel at least lets passes be counted; nearer ones are one bar.
    const from = Math.max(left, last);
    const size = Math.max(0.5, right - from - (right - left > 3 ? 1 : 0));
    if (right <= last) continue;
    last = right;
    const part = one.passes > 1 && one.to > one.from ? Math.min(1, one.inside / (one.to - one.from)) : 1;
    const y = tenth(top + high * (1 - part));
    d += `M${from} ${y}h${tenth(size)}V${top + high}h${tenth(-size)}z`;
    const text = saysPass(one);
    if (size > widthOf(text) + 6) labels.push(<text key={one.from} class="onbox" x={from + 3} y={top + high - 4}>{text}</text>);
  }
  return (
    <g>
      {d && <path d={d} fill={lane.colour} />}
      {labels}
    </g>
  );
}

/** How long a pass took, or how many. */
export function saysPass({ from, to, passes, inside }: Pass): string {
  if (passes > 1) return `${passes.toLocaleString("en")} passes, ${seconds(inside)}`;
  return passes === 0 ? `${seconds(to - from)}, open at the end` : seconds(to - from);
}

/** Samples over the time since the last wait: where that is known, none is drawn over it. Both are in the order of time. */
function since(waits: Moment[], samples: Moment[]): Moment[] {
  let [at, last] = [0, -Infinity];
  const ends = waits.map(({ to }) => to).sort((a, b) => a - b);
  return [...samples].sort((a, b) => a.to - b.to).map((one) => {
    while (at < ends.length && ends[at]! <= one.to) last = ends[at++]!;
    return last > one.from ? { ...one, from: last } : one;
  });
}

function middle(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1] ?? 0;
}

/** Shares of each bin in the program and in the kernel. What changes at a bin makes a step; no more than that is in a path. */
function Steps({ busy, full, top, high, drawn }: { busy: Busy; full: number; top: number; high: number; drawn: Drawn }) {
  const [start, end] = drawn.range;
  const base = top + high;
  const at = clamped(drawn);
  const first = Math.max(0, Math.floor((start - busy.from) / busy.width));
  const last = Math.min(busy.user.length, Math.ceil((end - busy.from) / busy.width));
  // To half a pixel.
  const steps = (value: (bin: number) => number) => {
    let path = "";
    let before = base;
    for (let bin = first; bin < last; bin++) {
      const y = Math.round((base - Math.min(1, value(bin) / full) * high) * 2) / 2;
      if (y === before) continue;
      const x = Math.round(at(busy.from + bin * busy.width));
      path += path ? `H${x}V${y}` : `M${x} ${base}V${y}`;
      before = y;
    }
    return path && `${path}H${Math.round(at(busy.from + last * busy.width))}V${base}z`;
  };
  // The kernel's is drawn over both together.
  const paths: [string, string][] = [["user", steps((bin) => busy.user[bin]! + busy.kernel[bin]!)], ["kernel", steps((bin) => busy.kernel[bin]!)]];
  return <>{paths.map(([kind, d]) => d && <path key={kind} class={`area ${kind}`} d={d} />)}</>;
}

/** Each sample over the time before it, in the colour that its function has in the flame graph. */
function Samples({ moments, samples, top, high, drawn, having }: { moments: Moments; samples: Moment[]; top: number; high: number; drawn: Drawn; having?: Uint8Array }) {
  const at = clamped(drawn);
  const boxes = new Map<string, string>();
  const labels: ComponentChildren[] = [];
  let marks = "";
  for (const one of samples) {
    const fn = moments.functionOf(one);
    const [left, right] = [tenth(at(one.from)), tenth(at(one.to))];
    const colour = moments.isKernel(one) ? "kernel" : colourOf(moments.stacks.moduleOf(fn), moments.stacks.functionName(fn));
    const size = Math.max(0.5, right - left - 0.6);
    boxes.set(colour, `${boxes.get(colour) ?? ""}M${left} ${top}h${tenth(size)}v${high}h${tenth(-size)}z`);
    const name = size > 20 ? fitted(shortName(moments.stacks.functionName(fn)), size - 5) : "";
    if (name) labels.push(<text key={one.at} class={moments.isKernel(one) ? "onbox kernel" : "onbox"} x={left + 3} y={top + high - 4}>{name}</text>);
    if (having?.[moments.nodeOf(one)]) marks += `M${left} ${top - 2}h${tenth(size)}v2.5h${tenth(-size)}z`;
  }
  return (
    <>
      {[...boxes].map(([colour, d]) => (colour === "kernel" ? <path key={colour} class="area kernel" d={d} /> : <path key={colour} fill={colour} d={d} />))}
      {labels}
      {marks && <path class="hit" d={marks} />}
    </>
  );
}

/** Waits over what the thread ran. */
function Waits({ moments, waits, top, high, at }: { moments: Moments; waits: Moment[]; top: number; high: number; at: (time: number) => number }) {
  const paths = new Map<number, string>();
  for (const one of waits) {
    const state = moments.doc.waits.state[one.at]!;
    const [left, right] = [tenth(at(one.from)), tenth(at(one.to))];
    const size = Math.max(0.5, right - left);
    paths.set(state, `${paths.get(state) ?? ""}M${left} ${top}h${tenth(size)}v${high}h${tenth(-size)}z`);
  }
  return <>{[...paths].map(([state, d]) => <path key={state} class={`area ${STATES[state]?.[1] ?? "other"}`} d={d} />)}</>;
}

/** Page faults at the foot of a lane, bursts at its head. */
function Marks({ faults, bursts, base, top, at }: { faults: Moment[]; bursts: Moment[]; base: number; top: number; at: (time: number) => number }) {
  const path = (all: Moment[], y: number) => {
    let [d, last] = ["", -1];
    for (const one of all) {
      const [left, right] = [Math.round(at(one.from)), Math.round(at(one.to))];
      const end = Math.max(left + 1, right);
      if (end <= last) continue;
      d += `M${Math.max(left, last)} ${y}H${end}v2H${Math.max(left, last)}z`;
      last = end;
    }
    return d;
  };
  const paths: [string, string][] = [["faults", path(faults, base)], ["burst", path(bursts, top - 2)]];
  return <>{paths.map(([kind, d]) => d && <path key={kind} class={`area ${kind}`} d={d} />)}</>;
}

function StateDrawing({ span, top, high, at, shown }: { span: StateSpan; top: number; high: number; at: (time: number) => number; shown: boolean }) {
  const whole = span.to - span.from;
  if (!shown || whole <= 0) return null;
  const [left, width] = [at(span.from), Math.max(0.5, at(span.to) - at(span.from))];
  let below = 0;
  return (
    <g>
      {STATES.map(([column, kind], number) => {
        const size = Math.min(1 - below, span.times[number]! / whole) * high;
        if (size <= 0) return null;
        const y = top + high * (1 - below) - size;
        below += size / high;
        return <rect key={column} class={`area ${kind}`} x={left} y={y} width={width} height={size} />;
      })}
    </g>
  );
}
