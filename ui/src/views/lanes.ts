// The lanes of the timeline: which there are, in which order, below which other; and how busy each was.
// What not: drawing (lane_drawing.tsx).

import { HUES } from "../colours";
import { glance } from "../data";
import { amount, bytes, digits, rate, seconds } from "../format";
import type { Summary } from "../generated";
import type { Busy, Moments } from "../moments";
import { intervalInTime, type Choice, type Stacks } from "../stacks";
import { isMetric, valueOf, type Figure, type Table } from "../types";

/** Threads that are drawn; the busiest first. */
export const THREADS = 60;
/** CPUs that are drawn without being asked for. */
const CPUS = 16;
/** Regions that are drawn, and threads of one that are drawn without being asked for. */
export const REGIONS = 24;
const PASSED = 4;

export const FIGURE = 74;
export const GROUP = 40;
export const CHILD = 20;

/** An amount from a time to another. */
export interface Span {
  from: number;
  to: number;
  /** Values to be stacked upon each other. */
  values: number[];
  /** The interval of their sum. */
  low?: number;
  high?: number;
  /** What the machine would reach with such a mix. */
  peak?: number;
}

interface Common {
  id: string;
  label: string;
  /** What the pointer tells of its name. */
  says: string;
  height: number;
}

/** A figure of the whole program over time. */
export interface FigureLane extends Common {
  type: "figure";
  kinds: string[];
  names: string[];
  spans: Span[];
  /** Nothing of it is known; the notes of its document say why. */
  none: boolean;
  most: number;
  format: (value: number) => string;
}

/** A CPU, a NUMA node, a process or a thread: how busy, and what happened. A region that the program marks: how many threads are in it, and
 * each one's passes. */
export interface BusyLane extends Common {
  type: "node" | "process" | "cpu" | "thread" | "region" | "passes";
  /** The name that a filter takes, and of what kind that is. */
  name: string;
  filter?: "process" | "thread" | "region";
  /** Number of the region, and its colour. */
  region?: number;
  colour?: string;
  /** Position of the thread. */
  thread?: number;
  cpu?: number;
  /** CPUs or threads that fill the lane. */
  full: number;
  /** Lanes below it that can be folded away. */
  children: BusyLane[];
  start: number;
  end: number;
}

export type Lane = FigureLane | BusyLane;

/** Sums of a figure per bin: in the program and in the kernel. */
function overTime(stacks: Stacks, figure: Figure, choice: Choice, perSecond: boolean): Span[] {
  const found: [number, boolean, number][] = [];
  const width = stacks.overTime(figure, choice, (_thread, bin, kernel, value) => found.push([bin, kernel, value]));
  const bins = Math.max(1, Math.ceil(stacks.doc.elapsed / width));
  const sums = Array.from({ length: bins }, () => [0, 0]);
  for (const [bin, kernel, value] of found) sums[Math.min(bin, bins - 1)]![kernel ? 1 : 0]! += perSecond ? value / width : value;
  return sums.map((values, bin) => withEnds(figure, { from: bin * width, to: Math.min((bin + 1) * width, stacks.doc.elapsed), values }, perSecond ? width : 1));
}

/** With the interval of the sum, which is of so many seconds. */
function withEnds(figure: Figure, span: Span, seconds: number): Span {
  const ends = intervalInTime(figure, span.values.reduce((sum, value) => sum + value, 0) * seconds);
  return { ...span, low: ends && ends[0] / seconds, high: ends && ends[1] / seconds };
}

/** Bins of a closer look as spans. */
function spansOf(busy: Busy, figure: Figure): Span[] {
  return Array.from(busy.user, (user, bin) =>
    withEnds(figure, { from: busy.from + bin * busy.width, to: busy.from + (bin + 1) * busy.width, values: [user, busy.kernel[bin]!] }, busy.width));
}

/** Observations behind each part of a busy lane, and how many parts there are at most: of fewer, the interval hides what is drawn. */
const BEHIND = 8;
const PARTS = 60;

/** How busy a lane was in parts of what is seen, each with the interval of its mean: a bin as wide as a pixel or two has too few samples
 * to tell one. Of the time only in which the lane was there. */
export function busyParts({ start, end, full }: BusyLane, busy: Busy, figure: Figure, seen: [number, number]): Span[] {
  const bin = (time: number) => (time - busy.from) / busy.width;
  const first = Math.max(0, Math.floor(bin(Math.max(start, seen[0])) + 1e-9));
  const last = Math.min(busy.user.length, Math.ceil(bin(Math.min(end, seen[1])) - 1e-9));
  const sum = (from: number, to: number) => busy.user.subarray(from, to).reduce((all, user, at) => all + user + busy.kernel[from + at]!, 0) * busy.width;
  const observed = (sum(first, last) / (figure.whole.value || 1)) * figure.observations;
  const size = Math.ceil((last - first) / Math.min(PARTS, Math.max(1, Math.floor(observed / BEHIND))));
  const found: Span[] = [];
  for (let at = first; at < last; at += size) {
    const to = Math.min(last, at + size);
    const time = (to - at) * busy.width;
    const { low, high, ...span } = withEnds(figure, { from: busy.from + at * busy.width, to: busy.from + to * busy.width, values: [sum(at, to) / time] }, time);
    // Weights are scaled to the counted time: a sum of few may be a little more than there can be.
    const most = (value: number) => Math.min(value, full);
    found.push({ ...span, values: span.values.map(most), low: low && most(low), high: high && most(high) });
  }
  return found;
}

/** Bins of a figure in what is seen: a few observations in each, or the interval of every one hides all. */
export function binsFor(kind: "samples" | "faults", moments: Moments, choice: Choice, span: [number, number]): number {
  let count = 0;
  moments.each(kind, choice, span, () => { count += 1; });
  return Math.min(120, Math.max(24, Math.round(count / 3)));
}

/** Rates of page faults in bins of what is seen. */
function faultsOf(moments: Moments, figure: Figure, choice: Choice, [start, end]: [number, number]): Span[] {
  const bins = binsFor("faults", moments, choice, [start, end]);
  const width = (end - start) / bins;
  const sums = new Float64Array(bins);
  moments.each("faults", choice, [start, end], (fault) => {
    sums[Math.min(bins - 1, Math.max(0, Math.floor((fault.from - start) / width)))]! += moments.doc.faults.weight[fault.at]!;
  });
  return Array.from(sums, (sum, bin) => withEnds(figure, { from: start + bin * width, to: start + (bin + 1) * width, values: [sum / width, 0] }, width));
}

interface Sources {
  stacks: Stacks;
  choice: Choice;
  traffic?: Table;
  /** Entries into the kernel and events of its memory management, by time and cause; only a system overview has any. */
  entries?: Table;
  memory?: Table;
  summary?: Summary;
  /** A closer look at what is seen. */
  moments?: Moments;
  busy?: Map<string, Busy>;
  span: [number, number];
}

/** What rows of the view `kernel` make a lane. The names are those of `/proc/vmstat`'s counters in `collect/src/kernel/counts.rs`. */
interface OfKernel {
  kind: string;
  name: string;
  has: (cause: string, which: string) => boolean;
}

const OF_KERNEL: { label: string; says: string; parts: OfKernel[] }[] = [
  { label: "Interrupts", says: "interrupts per second, and runs of their deferred work; of one program those that came while it ran", parts: [
    { kind: "kernel", name: "interrupts", has: (cause) => cause === "interrupt" },
    { kind: "faults", name: "deferred", has: (cause) => cause === "soft interrupt" },
  ] },
  { label: "Pages moved", says: "pages per second that the kernel moved to another NUMA node or tier of memory, of the whole machine", parts: [
    { kind: "read", name: "to another node", has: (cause, which) => cause === "memory event" && which === "page moved to another node" },
    { kind: "write", name: "to another tier", has: (cause, which) => cause === "memory event" && /^page (promoted|demoted)/.test(which) },
  ] },
  { label: "Reclaim", says: "pages per second that the kernel took back for lack of memory, of the whole machine", parts: [
    { kind: "faults", name: "by programs that need memory", has: (cause, which) => cause === "memory event" && which.startsWith("page reclaimed by a program") },
    { kind: "kernel", name: "in the background", has: (cause, which) => cause === "memory event" && which === "page reclaimed in the background" },
  ] },
];

/** Rates of each step of time in which the kernel did anything; between these it did nothing. */
function ofKernel({ rows }: Table, parts: OfKernel[]): Span[] {
  const steps = new Map<number, number[]>();
  let width = Infinity;
  for (const row of rows) {
    const start = valueOf(row.start) ?? 0;
    const values = steps.get(start) ?? parts.map(() => 0);
    steps.set(start, values);
    const at = parts.findIndex(({ has }) => has(String(row.cause), String(row.name)));
    const [rate, count] = [valueOf(row.per_second) ?? 0, valueOf(row.entries) ?? 0];
    if (at >= 0) values[at]! += rate;
    if (rate > 0) width = Math.min(width, count / rate);
  }
  return [...steps].map(([from, values]) => ({ from, to: from + width, values }));
}

export function figureLanes({ stacks, choice, traffic, entries, memory, summary, moments, busy, span }: Sources): FigureLane[] {
  const found: FigureLane[] = [];
  // A lane stays also where nothing of it is seen, and has its room before its answer comes: what is below it must not move.
  const add = (lane: Omit<FigureLane, "most" | "type" | "id" | "height" | "none">, stays = false, known = true) => {
    const seen = Math.max(0, ...lane.spans.map((one) => one.values.reduce((sum, value) => sum + value, 0)));
    const peak = Math.max(0, ...lane.spans.map((one) => one.peak ?? 0));
    // An interval that reaches far above everything that was seen would press all else to the ground: it is cut there.
    const highest = Math.max(0, ...lane.spans.map((one) => one.high ?? 0));
    const reach = Math.min(2 * Math.max(seen, peak), highest);
    if (seen > 0 || stays) found.push({ type: "figure", id: `figure ${lane.label}`, height: FIGURE, ...lane, none: known && lane.spans.length === 0, most: Math.max(peak, seen, reach) || highest || 1 });
  };
  const figure = (key: string) => stacks.doc.figures.find((one) => one.key === key);
  const cpu = figure("cpu_time");
  // Where a closer look has no sample, nothing was busy: coarse bins would say otherwise.
  const none = { from: span[0], width: span[1] - span[0], user: new Float64Array(1), kernel: new Float64Array(1) };
  const near = busy && (busy.get("all") ?? none);
  // Not even a sample of few moments shows more CPUs busy than there are.
  const cpus = glance()?.cpus || Infinity;
  const withinCpus = (span: Span): Span => {
    const part = Math.min(1, cpus / Math.max(1e-9, span.values.reduce((sum, value) => sum + value, 0)));
    return { ...span, values: span.values.map((value) => value * part), low: span.low && Math.min(span.low, cpus), high: span.high && Math.min(span.high, cpus) };
  };
  if (cpu) add({ label: "CPUs busy", says: "threads on a CPU at a time, sampled", kinds: ["user", "kernel"], names: ["program", "kernel"], format: digits, spans: (near ? spansOf(near, cpu) : overTime(stacks, cpu, choice, true)).map(withinCpus) }, true);
  const spans = (table: Table | undefined, keys: string[]): Span[] =>
    (table?.rows ?? []).map((row) => {
      const sum = row[keys.length > 1 ? "total" : keys[0]!];
      return { from: valueOf(row.start) ?? 0, to: valueOf(row.end) ?? 0, values: keys.map((key) => valueOf(row[key]) ?? 0), ...(isMetric(sum) ? { low: sum.low, high: sum.high } : {}), ...("reachable" in row ? { peak: valueOf(row.reachable) } : {}) };
    });
  const reach = summary?.dram_bandwidth.reachable.value;
  const moved = spans(traffic, ["read", "write"]).map((one) => ({ ...one, peak: one.peak ?? reach }));
  add({ label: "DRAM bandwidth", says: "traffic with memory, estimated; dashed: what so many threads reach on this machine with that mix of reads and writes", kinds: ["read", "write"], names: ["read", "written"], format: (value) => rate(value, "GB/s"), spans: moved }, stacks.doc.over_time.includes("bandwidth"), traffic !== undefined);
  const faults = figure("page_faults");
  if (faults) add({ label: "Page faults", says: "page faults per second", kinds: ["faults", "faults"], names: ["faults", ""], format: (value) => `${amount(value, "count")}/s`, spans: moments?.has("faults") ? faultsOf(moments, faults, choice, span) : overTime(stacks, faults, choice, true) }, true);
  for (const { label, says, parts } of OF_KERNEL) {
    add({ label, says, kinds: parts.map(({ kind }) => kind), names: parts.map(({ name }) => name), format: (value) => `${amount(value, "count")}/s`, spans: entries ? ofKernel(entries, parts) : [] });
  }
  const heap = figure("bytes_allocated");
  if (heap) add({ label: "Allocation", says: "bytes of heap blocks allocated per second", kinds: ["heap", "heap"], names: ["allocated", ""], format: (value) => `${bytes(value)}/s`, spans: overTime(stacks, heap, choice, true) });
  if (stacks.doc.over_time.includes("resident")) add({ label: "Resident memory", says: "resident memory of all processes", kinds: ["resident"], names: ["resident"], format: bytes, spans: spans(memory, ["resident"]) }, true, memory !== undefined);
  return found;
}

/** Click, and what else can be done with a name. */
const FILTERS = "click to filter, with Ctrl also this one, with Alt all but this one";
const FILTERS_IN = "click to filter, with Ctrl also this one";

/** Regions with most time, and below them the threads that pass them. */
export function regionLanes(stacks: Stacks): BusyLane[] {
  const regions = (stacks.doc.regions ?? []).map((one, region) => ({ ...one, region })).filter(({ threads }) => threads.length > 0);
  return regions.sort((a, b) => b.time - a.time).slice(0, REGIONS).map(({ name, time, threads, region }, at): BusyLane => {
    const common = { region, colour: HUES[at % HUES.length], children: [], start: 0, end: stacks.doc.elapsed };
    const says = `region ${name}: ${seconds(time)} in it, ${threads.length === 1 ? "1 thread" : `${threads.length} threads`}; ${FILTERS_IN}`;
    const only = { id: `region ${name}`, name, label: name, says, filter: "region" as const };
    if (threads.length === 1) return { ...common, ...only, type: "passes", height: CHILD, thread: threads[0], full: 1 };
    const children = threads.slice(0, THREADS).map((thread): BusyLane => {
      const { label } = stacks.doc.threads[thread]!;
      return { ...common, type: "passes", id: `region ${name} ${label}`, name: label, filter: "thread", label, says: `passes of ${label} through ${name}`, height: CHILD, thread, full: 1 };
    });
    return { ...common, ...only, type: "region", height: CHILD + 4, full: threads.length, children };
  });
}

/** CPUs below their nodes, threads below their processes. `order`: CPU time of each thread. */
export function busyLanes(stacks: Stacks, order: number[]): BusyLane[] {
  const found: BusyLane[] = [];
  const elapsed = stacks.doc.elapsed;
  const { cpus } = stacks.doc;
  const nodes = [...new Set(cpus.map(({ node }) => node))].sort((a, b) => (a ?? -1) - (b ?? -1));
  for (const node of nodes) {
    const children = cpus.filter((one) => one.node === node).map(({ cpu }): BusyLane => ({
      type: "cpu", id: `cpu ${cpu}`, name: String(cpu), label: `CPU ${cpu}`, says: `CPU ${cpu}: this program's samples on it`, height: CHILD, cpu, full: 1, children: [], start: 0, end: elapsed,
    }));
    const label = node === null ? "CPUs" : `NUMA node ${node}`;
    found.push({ type: "node", id: `node ${node ?? ""}`, name: label, label, says: `${label}: ${children.length} CPUs on which the program was seen`, height: GROUP, full: children.length, children, start: 0, end: elapsed });
  }
  const processes = new Map<string, number[]>();
  stacks.doc.threads.forEach(({ process }, thread) => processes.set(process, [...(processes.get(process) ?? []), thread]));
  const chosen = new Set(order.map((_, thread) => thread).sort((a, b) => order[b]! - order[a]!).slice(0, THREADS));
  const sum = (threads: number[]) => threads.reduce((all, thread) => all + order[thread]!, 0);
  for (const [process, threads] of [...processes].sort((a, b) => sum(b[1]) - sum(a[1]))) {
    const children = threads.filter((thread) => chosen.has(thread)).sort((a, b) => order[b]! - order[a]!).map((thread): BusyLane => {
      const { label, start, end } = stacks.doc.threads[thread]!;
      return { type: "thread", id: `thread ${label}`, name: label, label, says: `${label}: ${seconds(order[thread]!)} of CPU time; ${FILTERS}`, filter: "thread", height: CHILD, thread, full: 1, children: [], start, end };
    });
    // A process of one thread is that thread.
    if (threads.length === 1) found.push(...children);
    if (threads.length === 1 || children.length === 0) continue;
    const most = Math.max(1, Math.min(threads.length, cpus.length || threads.length));
    found.push({
      type: "process", id: `process ${process}`, name: process, label: process, says: `${process}: ${threads.length} threads, ${seconds(sum(threads))} of CPU time; ${FILTERS}`,
      filter: "process", height: GROUP, full: most, children, start: Math.min(...children.map((one) => one.start)), end: Math.max(...children.map((one) => one.end)),
    });
  }
  return found;
}

/** Folded until somebody asks: more CPUs than one wants to see. */
export function startsFolded(lane: BusyLane): boolean {
  return lane.children.length > (lane.type === "node" ? CPUS : lane.type === "region" ? PASSED : Infinity);
}

/** What is drawn: pinned lanes, and the others in their order, without those that are folded away. */
export function arranged(figures: FigureLane[], groups: BusyLane[], pins: string[], folded: (lane: BusyLane) => boolean): { pinned: Lane[]; rest: { lane: Lane; depth: number }[] } {
  const all: Lane[] = [...figures, ...groups.flatMap((group) => [group, ...group.children])];
  const pinned = pins.flatMap((pin) => all.filter(({ id }) => id === pin));
  const others = (lane: Lane) => !pins.includes(lane.id);
  const below = (group: BusyLane) => (folded(group) ? [] : group.children.filter(others).map((lane) => ({ lane, depth: 1 })));
  return {
    pinned,
    rest: [...figures.filter(others).map((lane) => ({ lane, depth: 0 })), ...groups.flatMap((group) => [...(others(group) ? [{ lane: group, depth: 0 }] : []), ...below(group)])],
  };
}
