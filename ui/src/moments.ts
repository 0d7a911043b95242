// Single observations in a span of time: samples, page faults, waits, bursts and passes of regions, or where there are too many, sums of samples per
// thread, CPU and bin (crates/report/src/moments.rs). What not: sums over stacks (stacks.ts).

import { Stacks, type Choice } from "./stacks";
import type { MomentColumns, MomentsDocument, StacksDocument } from "./types";

export type Kind = "samples" | "faults" | "waits" | "bursts";

/** One of them. */
export interface Moment {
  kind: Kind;
  /** Its number among those of its kind. */
  at: number;
  from: number;
  to: number;
  thread: number;
}

/** Passes of a thread through a region that the program marked. */
export interface Pass {
  from: number;
  to: number;
  thread: number;
  region: number;
  /** How many ended; several are so short, or so near, that they are one row. */
  passes: number;
  /** Seconds in them. */
  inside: number;
}

/** How many CPUs were busy, bin by bin. */
export interface Busy {
  from: number;
  width: number;
  user: Float64Array;
  kernel: Float64Array;
}

interface Times {
  from: Float64Array;
  to: Float64Array;
}

/** Times are written as differences, microseconds. */
function decoded(start: number, { time, length }: MomentColumns): Times {
  const [from, to] = [new Float64Array(time.length), new Float64Array(time.length)];
  let now = Math.round(start * 1e6);
  time.forEach((step, at) => {
    now += step;
    from[at] = now / 1e6;
    to[at] = (now + (length?.[at] ?? 0)) / 1e6;
  });
  return { from, to };
}

export class Moments {
  readonly stacks: Stacks;
  private readonly times: Record<Kind, Times>;
  /** By region (`r0`), and by region and thread (`r0 t1`), in the order of time. */
  readonly passes: Map<string, Pass[]>;
  /** What was grouped last: every lane asks for the same. */
  private readonly groups = new Map<Kind, { key: string; found: Map<string, Moment[]> }>();

  constructor(readonly doc: MomentsDocument, all: StacksDocument) {
    const { modules, files, functions, nodes } = doc;
    this.stacks = new Stacks({ ...all, modules, files, functions, nodes, figures: [], notes: [] });
    const of = (kind: Kind) => decoded(doc.from, doc[kind]);
    this.times = { samples: of("samples"), faults: of("faults"), waits: of("waits"), bursts: of("bursts") };
    this.passes = passesOf(doc);
  }

  /** Whether each of this kind is here. */
  has(kind: Kind): boolean {
    return this.doc[kind].count === this.doc[kind].time.length;
  }

  covers(start: number, end: number): boolean {
    return this.doc.from <= start + 1e-9 && this.doc.to >= end - 1e-9;
  }

  /** Calls back for each of a kind that touches this span and is chosen. */
  each(kind: Kind, choice: Choice, [start, end]: [number, number], take: (moment: Moment) => void): void {
    const { from, to } = this.times[kind];
    const { thread: threads, node } = this.doc[kind];
    const chosen = this.stacks.chosenThreads(choice);
    const matching = kind === "bursts" ? undefined : this.stacks.matching(choice);
    for (let at = 0; at < from.length; at++) {
      if (from[at]! > end || to[at]! < start) continue;
      const thread = threads[at]!;
      if ((chosen && !chosen[thread]) || (matching && !matching[node[at]!])) continue;
      take({ kind, at, from: from[at]!, to: to[at]!, thread });
    }
  }

  /** The same by thread (`t1`), and samples also by CPU (`c0`). */
  grouped(kind: Kind, choice: Choice, span: [number, number]): Map<string, Moment[]> {
    const key = `${choice.key} ${span.join()}`;
    const before = this.groups.get(kind);
    if (before?.key === key) return before.found;
    const found = new Map<string, Moment[]>();
    const add = (of: string, moment: Moment) => {
      const list = found.get(of);
      if (list) list.push(moment);
      else found.set(of, [moment]);
    };
    if (this.has(kind)) {
      this.each(kind, choice, span, (moment) => {
        add(`t${moment.thread}`, moment);
        const cpu = this.cpuOf(moment);
        if (cpu !== undefined) add(`c${cpu}`, moment);
      });
    }
    this.groups.set(kind, { key, found });
    return found;
  }

  cpuOf({ kind, at }: Moment): number | undefined {
    const cpu = kind === "samples" ? this.doc.samples.cpu[at]! : -1;
    return cpu < 0 ? undefined : cpu;
  }

  isKernel({ kind, at }: Moment): boolean {
    return kind === "samples" && this.doc.samples.kernel[at] === 1;
  }

  /** Functions on its stack, innermost first; none of bursts, which run through many. */
  framesOf({ kind, at }: Moment): { fn: number; line: number }[] {
    const found: { fn: number; line: number }[] = [];
    if (kind === "bursts") return found;
    const { parent, function: fn, line } = this.doc.nodes;
    for (let node = this.doc[kind].node[at]!; node >= 0 && found.length < 200; node = parent[node]!) found.push({ fn: fn[node]!, line: line[node] ?? 0 });
    return found;
  }

  /** The innermost function. */
  functionOf({ kind, at }: Moment): number {
    return this.doc.nodes.function[this.doc[kind].node[at]!] ?? -1;
  }

  nodeOf({ kind, at }: Moment): number {
    return this.doc[kind].node[at]!;
  }

  /** How busy the CPUs were: `lanes` has those that a thread's time on a CPU counts for. Where single samples are here, each is spread over the time before it, in bins of the span; else bins are those of the document. */
  busy(choice: Choice, span: [number, number], bins: number, lanes: (thread: number, cpu: number) => string[]): Map<string, Busy> {
    const found = new Map<string, Busy>();
    const single = this.has("samples");
    const from = single ? span[0] : this.doc.from;
    const width = single ? (span[1] - span[0]) / bins : this.doc.bin_seconds;
    const count = single ? bins : Math.max(1, Math.ceil((this.doc.to - this.doc.from) / width - 1e-9));
    const add = (thread: number, cpu: number, bin: number, kernel: boolean, amount: number) => {
      for (const id of lanes(thread, cpu)) {
        let lane = found.get(id);
        if (!lane) found.set(id, (lane = { from, width, user: new Float64Array(count), kernel: new Float64Array(count) }));
        (kernel ? lane.kernel : lane.user)[bin]! += amount / width;
      }
    };
    if (!single) {
      const { thread, cpu, bin, kernel, amount } = this.doc.cells;
      const chosen = this.stacks.chosenThreads(choice);
      amount.forEach((nanos, at) => {
        if (!chosen || chosen[thread[at]!]) add(thread[at]!, cpu[at]!, Math.min(bin[at]!, count - 1), kernel[at] === 1, nanos * this.doc.factor);
      });
      return found;
    }
    // Samples are scaled to the CPU time that was counted.
    const scale = this.doc.factor * 1e9;
    this.each("samples", choice, span, (sample) => {
      const [cpu, kernel] = [this.doc.samples.cpu[sample.at]!, this.isKernel(sample)];
      const end = Math.min(sample.to, span[1]);
      for (let at = Math.max(sample.from, from), bin = Math.floor((at - from) / width); at < end && bin < count; bin++) {
        const next = Math.min(end, from + (bin + 1) * width);
        add(sample.thread, cpu, bin, kernel, Math.max(0, next - at) * scale);
        at = Math.max(at, next);
      }
    });
    return found;
  }
}

function passesOf(doc: MomentsDocument): Map<string, Pass[]> {
  const found = new Map<string, Pass[]>();
  const { thread, region, passes, inside } = doc.passes;
  const { from, to } = decoded(doc.from, { ...doc.passes, count: thread.length, node: [] });
  const all = thread.map((_, at): Pass => ({ from: from[at]!, to: to[at]!, thread: thread[at]!, region: region[at]!, passes: passes[at]!, inside: inside[at]! / 1e6 }));
  for (const pass of all.sort((a, b) => a.from - b.from)) {
    for (const key of [`r${pass.region}`, `r${pass.region} t${pass.thread}`]) {
      const list = found.get(key);
      if (list) list.push(pass);
      else found.set(key, [pass]);
    }
  }
  return found;
}

/** How many threads were in regions, in bins of a span; a region in itself counts twice. */
export function inRegion(passes: Pass[], [start, end]: [number, number], bins: number): Busy {
  const width = (end - start) / bins;
  const user = new Float64Array(bins);
  for (const { from, to, inside } of passes) {
    const part = to > from ? inside / (to - from) : 0;
    const last = Math.min(end, to);
    for (let at = Math.max(from, start), bin = Math.floor((at - start) / width); at < last && bin < bins; bin++) {
      const next = Math.min(last, start + (bin + 1) * width);
      user[bin]! += (Math.max(0, next - at) * part) / width;
      at = Math.max(at, next);
    }
  }
  return { from: start, width, user, kernel: new Float64Array(bins) };
}

const made = new WeakMap<MomentsDocument, Moments>();

export function momentsOf(doc: MomentsDocument, all: StacksDocument): Moments {
  const before = made.get(doc);
  if (before) return before;
  const moments = new Moments(doc, all);
  made.set(doc, moments);
  return moments;
}

/** The part of the run that is asked for so that this span lies in it: the same for spans near each other, so that moving a little asks nothing. */
export function tileOf(start: number, end: number, elapsed: number): [number, number] {
  let size = elapsed;
  while (size / 2 >= 2 * (end - start)) size /= 2;
  if (size >= elapsed) return [0, elapsed];
  const from = Math.max(0, Math.floor(((start + end) / 2 - size / 2) / (size / 4)) * (size / 4));
  return [from, Math.min(elapsed, from + size)];
}
