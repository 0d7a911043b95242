// Call stacks with figures: filters, sums and trees, all of them in the page.
// Assumption: parents come before children, as the server writes them; what does not fit is left out.

import type { Figure, StacksDocument } from "./types";
import { functionMatches, nameMatches } from "./names";
import { hasThread, type Names } from "./selection";
import type { State } from "./state";

/** Which cells count. */
export interface Choice {
  from?: number;
  to?: number;
  only: Names;
  without: Names;
  /** The same text for the same choice. */
  key: string;
}

export const EVERYTHING: Choice = { only: {}, without: {}, key: "" };

/** `cut`: times and threads are cut already. */
export function choiceOf({ from, to, only, without }: Pick<State, "from" | "to" | "only" | "without">, cut = false): Choice {
  const names = ({ thread, process, module, function: fn }: Names): Names => (cut ? { module, function: fn } : { thread, process, module, function: fn });
  const choice = { from: cut ? undefined : from, to: cut ? undefined : to, only: names(only), without: names(without) };
  return { ...choice, key: JSON.stringify(choice) };
}

/** Sums over cells by innermost frame, on their way through a tree: one entry per sum in each list. */
interface Steps {
  /** The frame that the next level looks at. */
  at: Int32Array;
  thread: Int32Array;
  /** Positions of regions; -1: in none. */
  region: Int32Array;
  /** Numbers of the names of memory objects and types; -1: not known. */
  object: Int32Array;
  type: Int32Array;
  /** Of each figure. */
  amounts: Float64Array[];
}

/** Children of nodes as lists through two arrays: hundreds of thousands of small arrays would cost more than the tree. */
interface Children {
  first: Int32Array;
  next: Int32Array;
}

function below({ first, next }: Children, node: number): number[] {
  const found: number[] = [];
  for (let at = first[node]!; at >= 0; at = next[at]!) found.push(at);
  return found;
}

/** A row of a tree; children are made when they are first asked for. */
export interface TreeRow {
  /** Of this row among all that could be shown, also when the server's exact answer takes the place of a first one. */
  id: string;
  kind: Level;
  label: string;
  /** Position of the function, where the row is one. */
  fn: number;
  /** Line of the heaviest stack through it; 0 when not known. */
  line: number;
  inlined: boolean;
  total: number;
  self: number;
  /** Of each figure that stands next to the first, that one included. */
  totals: number[];
  selfs: number[];
  depth: number;
  parent?: TreeRow;
  children: () => TreeRow[];
}

/** Groupings that are offered; others are made of levels. */
export const GROUPINGS = ["function", "module,function", "thread,function", "file,function", "module,file,function", "thread", "function,thread", "process,function", "process,thread,function"];

/** Trees that are kept: a view back and forth, with and without a selection. */
const TREES = 8;

type Level = "function" | "module" | "process" | "thread" | "file" | "line" | "object" | "type" | "region" | "domain";

/** What calls can be grouped by, in any order; below the last come the callers. */
export const LEVELS: [Level, string][] = [["process", "Process"], ["thread", "Thread"], ["module", "Module"], ["file", "Source File"], ["function", "Function"], ["line", "Source Line"], ["object", "Memory Object"], ["type", "Type"], ["region", "Region"], ["domain", "Domain of Region"]];

/** Whether such a grouping needs stacks whose cells are of one region each. */
export const needsRegions = (levels: string[]): boolean => levels.includes("region") || levels.includes("domain");

/** `thread,function` as `Thread / Function / Call Stack`. */
export function groupingName(group: string): string {
  const names = group.split(",").map((level) => LEVELS.find(([key]) => key === level)?.[1] ?? level);
  return [...names, "Call Stack"].join(" / ");
}

/** Source lines of one file are numbered from here on: as many as a file has at most. */
const LINES = 2 ** 24;

/** The same number for the same name, whichever document has it: positions in two documents are not of the same things. */
const numbers = new Map<string, number>();

const named: string[] = [];

export function numberOf(name: string): number {
  const number = numbers.get(name) ?? numbers.size;
  if (number === named.length) named.push(name);
  numbers.set(name, number);
  return number;
}

export class Stacks {
  readonly doc: StacksDocument;
  private readonly count: number;
  /** The first thread of each thread's process. */
  private readonly processes: number[];
  /** The first region of each region's domain; -1: it has none. */
  private readonly domains: number[];
  private readonly ids: number[] = [];
  private trees: { figures: Figure[]; key: string; rows: TreeRow[] }[] = [];

  constructor(doc: StacksDocument) {
    this.doc = doc;
    this.count = Math.min(doc.nodes.parent.length, doc.nodes.function.length);
    const first = new Map<string, number>();
    this.processes = doc.threads.map(({ process }, at) => {
      if (!first.has(process)) first.set(process, at);
      return first.get(process) ?? at;
    });
    const regions = doc.regions ?? [];
    this.domains = regions.map(({ domain }) => (domain === undefined ? -1 : regions.findIndex((one) => one.domain === domain)));
  }

  figure(key: string): Figure | undefined {
    return this.doc.figures.find((figure) => figure.key === key) ?? this.doc.figures[0];
  }

  functionName(fn: number): string {
    return this.doc.functions.name[fn] ?? "?";
  }

  moduleOf(fn: number): string {
    return this.doc.modules[this.doc.functions.module[fn] ?? -1] ?? "?";
  }

  fileOf(fn: number): string | undefined {
    return this.doc.files[this.doc.functions.file[fn] ?? -1];
  }

  /** A function's own number in all documents. */
  private idOf(fn: number): number {
    return (this.ids[fn] ??= numberOf(`${this.functionName(fn)}\n${this.moduleOf(fn)}\n${this.fileOf(fn) ?? ""}`));
  }

  private parent(node: number): number {
    const parent = this.doc.nodes.parent[node] ?? -1;
    return parent < node ? parent : -1;
  }

  /** For each node, whether it counts: a frame of its stack is taken in, and none is left out. */
  matching(choice: Choice): Uint8Array | undefined {
    const { only, without } = choice;
    const [takes, leaves] = [only.function ?? only.module, without.function ?? without.module];
    if (!takes && !leaves) return undefined;
    const { name, module } = this.doc.functions;
    const moduleName = (fn: number) => this.doc.modules[module[fn] ?? -1] ?? "";
    const has = (names: string[] | undefined, matches: typeof nameMatches, text: string) => names?.some((one) => matches(text, one));
    const wanted = name.map((text, fn) => (has(only.function, functionMatches, text) ?? true) && (has(only.module, nameMatches, moduleName(fn)) ?? true));
    const unwanted = name.map((text, fn) => has(without.function, functionMatches, text) || has(without.module, nameMatches, moduleName(fn)));
    // Bit 1: a frame is taken in; bit 2: a frame is left out.
    const found = new Uint8Array(this.count);
    for (let node = 0; node < this.count; node++) {
      const parent = this.parent(node);
      const fn = this.doc.nodes.function[node]!;
      found[node] = (parent >= 0 ? found[parent]! : 0) | (wanted[fn] ? 1 : 0) | (unwanted[fn] ? 2 : 0);
    }
    return found.map((bits) => ((!takes || bits & 1) && !(bits & 2) ? 1 : 0));
  }

  /** For each node, whether a function on its stack has this text in its name. */
  having(text: string): Uint8Array {
    const wanted = text.toLowerCase();
    const names = this.doc.functions.name.map((name) => name.toLowerCase().includes(wanted));
    const found = new Uint8Array(this.count);
    for (let node = 0; node < this.count; node++) {
      const parent = this.parent(node);
      found[node] = names[this.doc.nodes.function[node]!] || (parent >= 0 && found[parent]) ? 1 : 0;
    }
    return found;
  }

  /** For each thread, whether it is chosen. */
  chosenThreads({ only, without }: Choice): boolean[] | undefined {
    if (!only.thread && !only.process && !without.thread && !without.process) return undefined;
    return this.doc.threads.map((thread) => hasThread({ only, without }, thread));
  }

  /** Calls back for each cell that is chosen, with its amount in the figure's unit. */
  each(figure: Figure, choice: Choice, take: (node: number, thread: number, bin: number, kernel: boolean, amount: number, at: number) => void): void {
    const matching = this.matching(choice);
    const threads = this.chosenThreads(choice);
    const { cells, bin_seconds: width } = figure;
    for (let at = 0; at < cells.amount.length; at++) {
      const node = cells.node[at]!;
      if (node >= this.count || (matching && !matching[node])) continue;
      if (threads && !threads[cells.thread[at]!]) continue;
      const bin = cells.bin[at]!;
      // A bin counts when its middle is chosen: it is the finest that the page has.
      const middle = (bin + 0.5) * width;
      if (choice.from !== undefined && choice.to !== undefined && (middle < choice.from || middle >= choice.to)) continue;
      take(node, cells.thread[at]!, bin, cells.kernel[at] === 1, cells.amount[at]! * figure.factor, at);
    }
  }

  /** Amounts over time: of all stacks in the finest bins, of some in those of cells. Returns the length of a bin, seconds. */
  overTime(figure: Figure, choice: Choice, take: (thread: number, bin: number, kernel: boolean, amount: number) => void): number {
    if (this.matching(choice)) {
      this.each(figure, choice, (_node, thread, bin, kernel, amount) => take(thread, bin, kernel, amount));
      return figure.bin_seconds;
    }
    const { lanes } = figure;
    const threads = this.chosenThreads(choice);
    lanes.amount.forEach((amount, at) => {
      const thread = lanes.thread[at]!;
      if (threads && !threads[thread]) return;
      take(thread, lanes.bin[at]!, lanes.kernel[at] === 1, amount * figure.factor);
    });
    return figure.lane_seconds;
  }

  /** Threads, regions, objects and types are separate only on request: each may need as many sums. */
  private sums(figures: Figure[], choice: Choice, levels: Level[]): Steps {
    const byThread = levels.some((level) => level === "thread" || level === "process");
    const [byRegion, byObject, byType] = [needsRegions(levels), levels.includes("object"), levels.includes("type")];
    const [at, thread, region, object, type]: number[][] = [[], [], [], [], []];
    const amounts = figures.map((): number[] => []);
    const known = new Map<number | string, number>();
    const threads = byThread ? this.doc.threads.length + 1 : 0;
    figures.forEach((figure, number) => {
      this.each(figure, choice, (node, of, _bin, _kernel, more, cell) => {
        const inside = byRegion ? figure.cells.region?.[cell] ?? -1 : -1;
        const place = byObject ? figure.cells.object?.[cell] ?? -1 : -1;
        const kind = byType ? figure.cells.type?.[cell] ?? -1 : -1;
        const plain = byThread ? node * threads + of + 1 : node;
        const key = byRegion || byObject || byType ? `${plain} ${inside} ${place} ${kind}` : plain;
        let step = known.get(key);
        if (step === undefined) {
          known.set(key, (step = at!.length));
          at!.push(node);
          thread!.push(of);
          region!.push(inside);
          object!.push(place);
          type!.push(kind);
          amounts.forEach((list) => list.push(0));
        }
        amounts[number]![step]! += more;
      });
    });
    return { at: Int32Array.from(at!), thread: Int32Array.from(thread!), region: Int32Array.from(region!), object: Int32Array.from(object!), type: Int32Array.from(type!), amounts: amounts.map((list) => Float64Array.from(list)) };
  }

  /** Functions (or other groups) with who called them below. */
  bottomUp(figures: Figure[], choice: Choice, group: string): TreeRow[] {
    const levels = group.split(",").filter((level): level is Level => LEVELS.some(([key]) => key === level));
    return this.kept(figures, ["bottom-up", choice.key, group], () => this.grouped(this.sums(figures, choice, levels), levels, 0, undefined));
  }

  /** Makes both trees of everything, so that whoever asks for them first does not wait. */
  makeAhead(key: string, group: string): void {
    const figure = this.figure(key);
    if (!figure) return;
    this.bottomUp([figure], EVERYTHING, group);
    this.topDown([figure], EVERYTHING);
  }

  /** Views ask for the same trees again and again. */
  private kept(figures: Figure[], of: unknown[], make: () => TreeRow[]): TreeRow[] {
    const key = JSON.stringify(of);
    const before = this.trees.findIndex((one) => one.key === key && one.figures.length === figures.length && one.figures.every((figure, at) => figure === figures[at]));
    const tree = this.trees.splice(before, before < 0 ? 0 : 1)[0] ?? { figures, key, rows: make() };
    this.trees = [tree, ...this.trees.slice(0, TREES - 1)];
    return tree.rows;
  }

  private keyOf(kind: Level, steps: Steps, step: number): number {
    if (kind === "thread") return steps.thread[step]!;
    if (kind === "region") return steps.region[step]!;
    // The first region of the same domain.
    if (kind === "domain") return this.domains[steps.region[step]!] ?? -1;
    if (kind === "object") return steps.object[step]!;
    if (kind === "type") return steps.type[step]!;
    if (kind === "process") return this.processes[steps.thread[step]!] ?? -1;
    const fn = this.doc.nodes.function[steps.at[step]!]!;
    if (kind === "line") return ((this.doc.functions.file[fn] ?? -1) + 1) * LINES + (this.doc.nodes.line[steps.at[step]!] ?? 0);
    return kind === "module" ? this.doc.functions.module[fn] ?? -1 : kind === "file" ? this.doc.functions.file[fn] ?? -1 : fn;
  }

  private grouped(steps: Steps, levels: Level[], level: number, parent: TreeRow | undefined): TreeRow[] {
    // Below the named levels come the callers.
    const kind = levels[level] ?? "function";
    const groups = new Map<number, number[]>();
    for (let step = 0; step < steps.at.length; step++) {
      const key = this.keyOf(kind, steps, step);
      const group = groups.get(key);
      if (group) group.push(step);
      else groups.set(key, [step]);
    }
    const rows = [...groups].map(([key, members]) => {
      const totals = steps.amounts.map(() => 0);
      let heaviest = members[0]!;
      for (const step of members) {
        steps.amounts.forEach((amounts, number) => { totals[number]! += amounts[step]!; });
        if (steps.amounts[0]![step]! > steps.amounts[0]![heaviest]!) heaviest = step;
      }
      const isFunction = kind === "function";
      const row: TreeRow = {
        id: `${parent?.id ?? ""}/${kind.slice(0, 2)}${isFunction ? this.idOf(key) : numberOf(this.label(kind, key))}`,
        kind,
        label: this.label(kind, key),
        fn: isFunction ? key : -1,
        line: isFunction ? this.doc.nodes.line[steps.at[heaviest]!] ?? 0 : 0,
        inlined: isFunction && this.doc.nodes.inlined[steps.at[heaviest]!] === 1,
        total: totals[0]!,
        // A caller is only passed through on the way to who it called.
        self: level < levels.length ? totals[0]! : 0,
        totals,
        selfs: level < levels.length ? totals : totals.map(() => 0),
        depth: level,
        parent,
        children: () => [],
      };
      row.children = once(() => this.grouped(this.further(steps, members, isFunction ? key : undefined), levels, level + 1, row));
      return row;
    });
    return rows.sort((a, b) => b.total - a.total);
  }

  /** The members alone; of a function one frame further out, where direct recursion is one level. */
  private further(steps: Steps, members: number[], fn: number | undefined): Steps {
    const list = () => new Int32Array(members.length);
    const next: Steps = { at: list(), thread: list(), region: list(), object: list(), type: list(), amounts: steps.amounts.map(() => new Float64Array(members.length)) };
    let count = 0;
    for (const step of members) {
      let at = steps.at[step]!;
      if (fn !== undefined) while (at >= 0 && this.doc.nodes.function[at] === fn) at = this.parent(at);
      if (at < 0) continue;
      next.at[count] = at;
      for (const column of ["thread", "region", "object", "type"] as const) next[column][count] = steps[column][step]!;
      steps.amounts.forEach((amounts, number) => { next.amounts[number]![count] = amounts[step]!; });
      count += 1;
    }
    const filled = (column: Int32Array) => column.subarray(0, count);
    return { at: filled(next.at), thread: filled(next.thread), region: filled(next.region), object: filled(next.object), type: filled(next.type), amounts: next.amounts.map((amounts) => amounts.subarray(0, count)) };
  }

  private label(kind: Level, key: number): string {
    switch (kind) {
      case "thread": return this.doc.threads[key]?.label ?? "[all threads]";
      case "process": return this.doc.threads[key]?.process ?? "[all processes]";
      case "module": return this.doc.modules[key] ?? "[unknown module]";
      case "file": return this.doc.files[key] ?? "[no source file known]";
      case "function": return this.functionName(key);
      case "region": return this.doc.regions?.[key]?.name ?? "[in no region]";
      case "domain": return this.doc.regions?.[key]?.domain ?? "[in no domain]";
      case "object": return named[key] ?? "[no memory object known]";
      case "type": return named[key] ?? "[no type known]";
      case "line": {
        const file = this.doc.files[Math.floor(key / LINES) - 1]?.split("/").pop();
        return file === undefined || key % LINES === 0 ? "[no source line known]" : `${file}:${key % LINES}`;
      }
    }
  }

  /** Outermost functions with what they call below. */
  topDown(figures: Figure[], choice: Choice): TreeRow[] {
    return this.kept(figures, ["top-down", choice.key], () => this.roots(figures, choice));
  }

  /** `outermost`: trees begin at these frames, and stacks without one are left out. */
  private roots(figures: Figure[], choice: Choice, outermost?: Int32Array): TreeRow[] {
    const selfs = figures.map((figure) => {
      const self = new Float64Array(this.count);
      this.each(figure, choice, (node, _thread, _bin, _kernel, amount) => {
        if (!outermost || outermost[node]! >= 0) self[node]! += amount;
      });
      return self;
    });
    const totals = selfs.map((self) => self.slice());
    const children: Children = { first: new Int32Array(this.count).fill(-1), next: new Int32Array(this.count).fill(-1) };
    const roots: number[] = [];
    for (let node = this.count - 1; node >= 0; node--) {
      if (totals.every((total) => total[node]! <= 0)) continue;
      const parent = this.parent(node);
      if (outermost ? outermost[node] === node : parent < 0) roots.push(node);
      else {
        for (const total of totals) total[parent]! += total[node]!;
        children.next[node] = children.first[parent]!;
        children.first[parent] = node;
      }
    }
    return this.merged(roots, selfs, totals, children, undefined);
  }

  /** Who calls a function, and what it calls. A stack counts once: at the outermost of its frames of the function. */
  around(figure: Figure, choice: Choice, fn: number): { callers: TreeRow[]; callees: TreeRow[] } {
    const outermost = new Int32Array(this.count).fill(-1);
    for (let node = 0; node < this.count; node++) {
      const parent = this.parent(node);
      outermost[node] = parent >= 0 && outermost[parent]! >= 0 ? outermost[parent]! : this.doc.nodes.function[node] === fn ? node : -1;
    }
    const of = (direction: string, make: () => TreeRow[]) => this.kept([figure], [direction, choice.key, fn], make);
    const callers = () => {
      const sums = new Map<number, number>();
      this.each(figure, choice, (node, _thread, _bin, _kernel, amount) => {
        const at = outermost[node]!;
        if (at >= 0) sums.set(at, (sums.get(at) ?? 0) + amount);
      });
      const none = () => new Int32Array(sums.size);
      return this.grouped({ at: Int32Array.from(sums.keys()), thread: none(), region: none(), object: none(), type: none(), amounts: [Float64Array.from(sums.values())] }, ["function"], 0, undefined);
    };
    return { callers: of("callers", callers), callees: of("callees", () => this.roots([figure], choice, outermost)) };
  }

  private merged(nodes: number[], selfs: Float64Array[], totals: Float64Array[], children: Children, parent: TreeRow | undefined): TreeRow[] {
    const groups = new Map<number, number[]>();
    for (const node of nodes) {
      const fn = this.doc.nodes.function[node]!;
      const group = groups.get(fn);
      if (group) group.push(node);
      else groups.set(fn, [node]);
    }
    const rows = [...groups].map(([fn, members]) => {
      let heaviest = members[0]!;
      for (const node of members) if (totals[0]![node]! > totals[0]![heaviest]!) heaviest = node;
      const sum = (of: Float64Array) => members.reduce((all, node) => all + of[node]!, 0);
      const [all, own] = [totals.map(sum), selfs.map(sum)];
      const row: TreeRow = {
        id: `${parent?.id ?? ""}/${this.idOf(fn)}`,
        kind: "function",
        label: this.functionName(fn),
        fn,
        line: this.doc.nodes.line[heaviest] ?? 0,
        inlined: this.doc.nodes.inlined[heaviest] === 1,
        total: all[0]!,
        self: own[0]!,
        totals: all,
        selfs: own,
        depth: parent ? parent.depth + 1 : 0,
        parent,
        children: () => [],
      };
      row.children = once(() => this.merged(members.flatMap((node) => below(children, node)), selfs, totals, children, row));
      return row;
    });
    return rows.sort((a, b) => b.total - a.total);
  }

  /** Self and total amount per line of each file: a line counts once per stack, as functions do. */
  lines(figure: Figure, choice: Choice, file: string): Map<number, { self: number; total: number }> {
    const index = this.doc.files.indexOf(file);
    const found = new Map<number, { self: number; total: number }>();
    if (index < 0) return found;
    const sums = new Float64Array(this.count);
    this.each(figure, choice, (node, _thread, _bin, _kernel, amount) => {
      sums[node]! += amount;
    });
    const { line, function: fn } = this.doc.nodes;
    const mine = this.doc.functions.file.map((one) => one === index);
    const seen: number[] = [];
    for (let node = 0; node < this.count; node++) {
      if (sums[node]! <= 0) continue;
      seen.length = 0;
      for (let at = node; at >= 0; at = this.parent(at)) {
        const number = line[at]!;
        if (number === 0 || !mine[fn[at]!] || seen.includes(number)) continue;
        seen.push(number);
        const sum = found.get(number) ?? { self: 0, total: 0 };
        sum.total += sums[node]!;
        if (at === node) sum.self += sums[node]!;
        found.set(number, sum);
      }
    }
    return found;
  }

  /** Amounts of functions as innermost frames, of one file and line where these are given. */
  byInnermost(figure: Figure, choice: Choice, file: string | undefined, line: number | undefined): Map<number, number> {
    const index = file === undefined ? undefined : this.doc.files.indexOf(file);
    const sums = new Map<number, number>();
    this.each(figure, choice, (node, _thread, _bin, _kernel, amount) => {
      const fn = this.doc.nodes.function[node]!;
      if (index !== undefined && this.doc.functions.file[fn] !== index) return;
      if (line !== undefined && this.doc.nodes.line[node] !== line) return;
      sums.set(fn, (sums.get(fn) ?? 0) + amount);
    });
    return sums;
  }

  /** Files by amount of their innermost frames, heaviest first. */
  files(figure: Figure, choice: Choice): { file: string; self: number }[] {
    const sums = new Map<number, number>();
    this.each(figure, choice, (node, _thread, _bin, _kernel, amount) => {
      const file = this.doc.functions.file[this.doc.nodes.function[node]!] ?? -1;
      if (file >= 0) sums.set(file, (sums.get(file) ?? 0) + amount);
    });
    return [...sums].map(([file, self]) => ({ file: this.doc.files[file]!, self })).sort((a, b) => b.self - a.self);
  }

  sum(figure: Figure, choice: Choice): number {
    let sum = 0;
    this.each(figure, choice, (_node, _thread, _bin, _kernel, amount) => {
      sum += amount;
    });
    return sum;
  }
}

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

/** What of an amount is in doubt at most, and all that is; nothing where each was counted. */
function drawn({ whole: { value: whole }, drawn, observations }: Figure, amount: number): { part: number; all: number } | undefined {
  const all = drawn ?? (observations > 0 ? whole : 0);
  return all ? { part: Math.min(amount, all), all } : undefined;
}

/** The ends of an amount of which a part has these ends. Of more than there is in doubt, any part may be. */
const around = (figure: Figure, amount: number, { part, all }: { part: number; all: number }, low: number, high: number): [number, number] =>
  figure.drawn !== undefined && amount > all ? [amount - all, amount + all] : [Math.max(0, amount - part + low), amount - part + (figure.drawn === undefined ? high : Math.min(all, high))];

/** A 95 % interval of a sampled amount: Wilson's, of its share of the whole, behind which there are so many observations. */
export function interval(figure: Figure, amount: number): [number, number] | undefined {
  const doubt = drawn(figure, amount);
  if (!doubt) return undefined;
  const [share, n, z] = [doubt.part / doubt.all, figure.observations, 1.96];
  const middle = (share * n + (z * z) / 2) / (n + z * z);
  const half = (z / (n + z * z)) * Math.sqrt(n * share * (1 - share) + (z * z) / 4);
  return around(figure, amount, doubt, Math.max(0, middle - half) * doubt.all, Math.min(1, middle + half) * doubt.all);
}

/** The same of an amount in a short time, about which the whole says little: of so many observations another run would have others
 * (the score interval of a Poisson count). */
export function intervalInTime(figure: Figure, amount: number): [number, number] | undefined {
  const doubt = drawn(figure, amount);
  if (!doubt) return undefined;
  const [each, z] = [doubt.all / Math.max(1, figure.observations), 1.96];
  const count = doubt.part / each;
  const [middle, half] = [count + (z * z) / 2, z * Math.sqrt(count + (z * z) / 4)];
  return around(figure, amount, doubt, Math.max(0, middle - half) * each, (middle + half) * each);
}

const made = new WeakMap<StacksDocument, Stacks>();

/** Views share what was computed from a document. */
export function stacksOf(doc: StacksDocument): Stacks {
  const before = made.get(doc);
  if (before) return before;
  const stacks = new Stacks(doc);
  made.set(doc, stacks);
  return stacks;
}
