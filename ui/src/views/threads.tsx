// Lanes of threads on the timeline: in the program, in the kernel, faults; and where switches were followed
// (`fathom collect threading`), what each thread waited for.

import { seconds } from "../format";
import type { Scale } from "../plot";
import type { Choice, Stacks } from "../stacks";
import { chooseBy } from "../state";
import { textOf, valueOf, type Table } from "../types";

export const THREAD = 20;
/** Threads that are drawn; the busiest first. */
export const THREADS = 60;

/** Columns of the view `timeline -g thread`, with how each is drawn. In the table spinning is a part of running; here it is separate. */
const [RUNNING, SPINNING] = [0, 1];
const STATES: [column: string, kind: string, label: string][] = [
  ["running_time", "user", "running"],
  ["spin_time", "write", "spinning"],
  ["ready_time", "heap", "waiting for a CPU"],
  ["lock_wait", "kernel", "lock"],
  ["barrier_wait", "faults", "barrier or thread"],
  ["io_wait", "read", "data"],
  ["sleep_wait", "resident", "sleep"],
  ["other_wait", "other", "other"],
];

export interface StateSpan {
  from: number;
  to: number;
  /** Seconds in each state. */
  times: number[];
}

/** By thread; empty where switches were not followed. */
export function statesOf(table: Table | undefined): Map<string, StateSpan[]> {
  const found = new Map<string, StateSpan[]>();
  if (!table?.columns.some((column) => column.key === "running_time")) return found;
  for (const row of table.rows) {
    const span = { from: valueOf(row.start) ?? 0, to: valueOf(row.end) ?? 0, times: STATES.map(([column]) => valueOf(row[column]) ?? 0) };
    span.times[RUNNING] = Math.max(0, span.times[RUNNING]! - span.times[SPINNING]!);
    const label = textOf(row.thread);
    const spans = found.get(label);
    if (spans) spans.push(span);
    else found.set(label, [span]);
  }
  return found;
}

/** Kinds of drawing with their names, in the order in which they are listed. */
const LANES: [string, string][] = [["user", "program"], ["kernel", "kernel"], ["read", "read"], ["write", "written"], ["peakline", "peak of the machine"], ["uncertain", "95 % interval"]];
const SAMPLED: [string, string][] = [["life", "alive, not sampled"], ["faults", "page faults"]];

/** `traffic`: there is a lane of it. */
export function Legend({ states, traffic }: { states: boolean; traffic: boolean }) {
  const entries = (all: [string, string][]) => all.map(([kind, label]) => <span key={label}><i class={kind} /> {label}</span>);
  const lanes = traffic ? LANES : [...LANES.slice(0, 2), LANES.at(-1)!];
  const ofThreads = STATES.map(([, kind, label]): [string, string] => [kind, label]);
  if (states) return <><p class="legend">Threads: {entries(ofThreads)}</p><p class="legend">Lanes: {entries(lanes)}</p></>;
  return <p class="legend">{entries([...lanes.slice(0, 2), ...SAMPLED, ...lanes.slice(2)])}</p>;
}

export interface ThreadLane {
  label: string;
  start: number;
  end: number;
  sum: number;
  /** Shares of each bin in the program and in the kernel. */
  bins: [number, number][];
  faults: boolean[];
}

export function threadLanes(stacks: Stacks, choice: Choice): { width: number; lanes: ThreadLane[] } {
  const figure = stacks.doc.figures.find((one) => one.key === "cpu_time");
  if (!figure) return { width: 1, lanes: [] };
  const found: [number, number, boolean, number][] = [];
  const width = stacks.overTime(figure, choice, (thread, bin, kernel, value) => found.push([thread, bin, kernel, value]));
  const bins = Math.max(1, Math.ceil(stacks.doc.elapsed / width));
  const all = stacks.doc.threads.map((thread): ThreadLane => ({
    label: thread.label, start: thread.start, end: thread.end, sum: 0, faults: [],
    bins: Array.from({ length: bins }, () => [0, 0]),
  }));
  for (const [thread, bin, kernel, value] of found) {
    const lane = all[thread];
    const sums = lane?.bins[Math.min(bin, bins - 1)];
    if (!lane || !sums) continue;
    lane.sum += value;
    sums[kernel ? 1 : 0] += value / width;
  }
  const faults = stacks.doc.figures.find((one) => one.key === "page_faults");
  if (faults) {
    const marks: [number, number][] = [];
    const step = stacks.overTime(faults, choice, (thread, bin) => marks.push([thread, bin]));
    for (const [thread, bin] of marks) {
      const lane = all[thread];
      if (lane) lane.faults[Math.floor((bin * step) / width)] = true;
    }
  }
  return { width, lanes: all.sort((a, b) => b.sum - a.sum).slice(0, THREADS) };
}

/** Threads of one program differ in what stands at the end: their ids. */
function shortened(label: string): string {
  const id = /\s\(\d+\)$/.exec(label)?.[0] ?? "";
  const most = 19 - id.length;
  return label.length > 19 ? `${label.slice(0, most - 1)}…${id}` : label;
}

export function ThreadDrawing({ lane, bin, top, x, range: [start, end], chosen, states }: { lane: ThreadLane; bin: number; top: number; x: Scale; range: [number, number]; chosen: boolean; states?: StateSpan[] }) {
  const clamp = (time: number) => x.at(Math.min(end, Math.max(start, time)));
  const high = THREAD - 5;
  const choose = (event: MouseEvent | KeyboardEvent) => chooseBy(event, "thread", lane.label);
  return (
    <g>
      <text class={chosen ? "lane link chosen" : "lane link"} x={8} y={top + 13} role="button" tabindex={0} onClick={choose} onKeyDown={(event) => event.key === "Enter" && choose(event)}>
        <title>{`${lane.label}: ${seconds(lane.sum)} of CPU time; click to filter, with Ctrl also this one, with Alt all but this one`}</title>
        {shortened(lane.label)}
      </text>
      <rect class="life" x={clamp(lane.start)} y={top} width={Math.max(1, clamp(lane.end) - clamp(lane.start))} height={high} />
      {states && states.map((span) => <StateDrawing key={span.from} span={span} top={top} high={high} clamp={clamp} shown={span.to > start && span.from < end} />)}
      {!states && <Bins lane={lane} bin={bin} top={top} clamp={clamp} range={[start, end]} />}
    </g>
  );
}

/** One path for each kind: 64 threads of 128 bins would be thousands of elements. What changes at a bin makes a step; no more than that is in a path. */
function Bins({ lane, bin, top, clamp, range: [start, end] }: { lane: ThreadLane; bin: number; top: number; clamp: (time: number) => number; range: [number, number] }) {
  const high = THREAD - 5;
  const base = top + high;
  const first = Math.max(0, Math.floor(start / bin));
  const last = Math.min(lane.bins.length, Math.ceil(end / bin));
  // To half a pixel.
  const steps = (value: (at: number) => number) => {
    let path = "";
    let before = base;
    for (let at = first; at < last; at++) {
      const y = Math.round((base - Math.min(1, value(at)) * high) * 2) / 2;
      if (y === before) continue;
      const x = Math.round(clamp(at * bin));
      path += path ? `H${x}V${y}` : `M${x} ${base}V${y}`;
      before = y;
    }
    return path && `${path}H${Math.round(clamp(last * bin))}V${base}z`;
  };
  // The kernel's is drawn over both together.
  const paths: [string, string][] = [["user", steps((at) => lane.bins[at]![0] + lane.bins[at]![1])], ["kernel", steps((at) => lane.bins[at]![1])]];
  let faults = "";
  lane.faults.forEach((_, at) => {
    if (at < first || at >= last) return;
    const [left, right] = [Math.round(clamp(at * bin)), Math.round(clamp((at + 1) * bin))];
    faults += `M${left} ${base}H${Math.max(left + 1, right)}v2H${left}z`;
  });
  paths.push(["faults", faults]);
  return <>{paths.map(([kind, d]) => d && <path key={kind} class={`area ${kind}`} d={d} />)}</>;
}

function StateDrawing({ span, top, high, clamp, shown }: { span: StateSpan; top: number; high: number; clamp: (time: number) => number; shown: boolean }) {
  const whole = span.to - span.from;
  if (!shown || whole <= 0) return null;
  const [left, width] = [clamp(span.from), Math.max(0.5, clamp(span.to) - clamp(span.from))];
  let below = 0;
  return (
    <g>
      <title>{STATES.map(([, , label], at) => (span.times[at]! > 0 ? `${label} ${seconds(span.times[at]!)}` : "")).filter(Boolean).join(", ")}</title>
      {STATES.map(([column, kind], at) => {
        const size = Math.min(1 - below, span.times[at]! / whole) * high;
        if (size <= 0) return null;
        const y = top + high * (1 - below) - size;
        below += size / high;
        return <rect key={column} class={`area ${kind}`} x={left} y={y} width={width} height={size} />;
      })}
    </g>
  );
}
