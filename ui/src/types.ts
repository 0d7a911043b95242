// What the server sends besides the summary, whose types are generated (generated.ts).

import type { EvidenceName, ViewName } from "./generated";

/** A figure with its evidence; fields that it does not have are left out. */
export interface Metric {
  value?: number;
  unit: string;
  low?: number;
  high?: number;
  evidence?: EvidenceName;
  samples: number;
  lost?: number;
  note?: string;
}

export interface Column {
  key: string;
  label: string;
  unit: string | null;
  /** Of numbers that are no figures: without interval and evidence. */
  plain?: true;
}

export type Cell = string | number | string[] | Metric | null;
export type Row = Record<string, Cell>;

/** What is known of a run before anything is computed (crates/web/src/glance.rs). */
export interface Glance {
  command: string[];
  target: "launched" | "attached" | "machine";
  analysis: string;
  /** Seconds since 1970. */
  started: number | null;
  /** Seconds. */
  elapsed: number;
  cpu: string;
  cpus: number;
  memory_bytes: number;
  os: string;
  kernel: string;
  /** What was counted. */
  figures: [what: string, metric: Metric][];
  /** How many facts of which kind. */
  sizes: [what: string, count: number][];
}

/** Any view but the summary. */
export interface Table {
  view: ViewName | "diff" | "scale" | "ask";
  result: string;
  columns: Column[];
  rows: Row[];
  total: Row;
  notes: string[];
  /** Why there are no rows; only where there are none. */
  empty?: string;
}

export interface Figure {
  key: string;
  label: string;
  whole: Metric;
  factor: number;
  /** Behind the cells. */
  records: number;
  /** Equally weighted ones behind `whole`, or behind its drawn part, whatever is selected; 0 where all of it was counted. */
  observations: number;
  /** Of `whole`, what was drawn at random; the rest was recorded one by one. Absent: all of it was sampled. */
  drawn?: number;
  left_out: number;
  bin_seconds: number;
  lane_seconds: number;
  lanes: { thread: number[]; bin: number[]; kernel: number[]; amount: number[] };
  /** `region`: position, -1 in none, where that was asked for. `object`, `type`: numbers of names, where the page has divided it so (spread.ts). */
  cells: { node: number[]; thread: number[]; bin: number[]; kernel: number[]; amount: number[]; region?: number[]; object?: number[]; type?: number[] };
}

export interface StacksDocument {
  view: "stacks";
  elapsed: number;
  threads: { label: string; process: string; start: number; end: number }[];
  cpus: { cpu: number; node: number | null }[];
  /** Figures over time that other documents have: what of them is in doubt has a lane that says so. */
  over_time: ("bandwidth" | "resident")[];
  /** What the user or the program named, and pauses. */
  marks?: { from: number; to?: number; name: string }[];
  /** Regions that the program marked: time in them, and which threads passed them. */
  regions?: { name: string; domain?: string; time: number; threads: number[] }[];
  modules: string[];
  files: string[];
  functions: { name: string[]; module: number[]; file: number[] };
  nodes: { parent: number[]; function: number[]; line: number[]; inlined: number[] };
  figures: Figure[];
  notes: string[];
}

/** A list for each field; empty where they are too many. Times are differences in microseconds. */
export interface MomentColumns {
  count: number;
  time: number[];
  length?: number[];
  thread: number[];
  node: number[];
}

/** Single observations of a span of time (crates/report/src/moments.rs). */
export interface MomentsDocument extends Pick<StacksDocument, "modules" | "files" | "functions" | "nodes"> {
  view: "moments";
  from: number;
  to: number;
  factor: number;
  samples: MomentColumns & { cpu: number[]; kernel: number[] };
  faults: MomentColumns & { weight: number[]; major: number[] };
  waits: MomentColumns & { state: number[] };
  states: string[];
  merged_waits: number;
  bursts: MomentColumns & { flavour: string[] };
  /** Through regions that the program marked; times as above. A row may be several passes: `inside` is the time in them, microseconds. */
  passes: { time: number[]; length: number[]; thread: number[]; region: number[]; depth: number[]; passes: number[]; inside: number[] };
  bin_seconds: number;
  cells: { thread: number[]; cpu: number[]; bin: number[]; kernel: number[]; amount: number[] };
}

export interface PointsDocument {
  view: "points";
  bursts: { time: number; thread: string }[];
  objects: Record<string, { burst: number[]; step: number[]; offset: number[]; store: number[] }>;
  /** Length of a slice of time, and how many bursts began in each. */
  slice_seconds: number;
  slices: number[];
  /** All accesses of bursts by part of the object, so many bytes each, and slice. */
  heat: Record<string, { part: number; slice: number[]; at: number[]; loads: number[]; stores: number[] }>;
  notes: string[];
}

/** Where members lie in values of their type (crates/web/src/layout.rs). */
export interface LayoutDocument {
  view: "layout";
  fields: Record<string, [type: string, typeBytes: number, offset: number, bytes: number]>;
}

/** CPUs with something in common, and what that is (crates/report/src/platform.rs). */
export interface PlatformBox {
  cpus: number[];
  package: boolean;
  core: boolean;
  node: number | null;
  memory_bytes: number | null;
  caches: { level: number; kind: "data" | "instruction" | "unified"; bytes: number }[];
  inside: PlatformBox[];
}

/** A level of memory: what it was measured to give, and what the run took. */
export interface PlatformLevel {
  name: string;
  measured_bytes: Metric;
  latency: Metric;
  one_thread: Metric;
  all_threads: Metric;
  /** The kernel that these were measured with. */
  like: string | null;
  loads: Metric;
  rate: Metric;
  read: Metric;
  written: Metric;
  reachable: Metric;
  of_reachable: Metric;
}

export interface PlatformDocument {
  view: "platform";
  cpu: string;
  logical_cpus: number;
  cores: number;
  sockets: number;
  boxes: PlatformBox[];
  distances: { node: number; to: number[] }[];
  /** Measured: from the CPUs of a node to the memory of one. */
  node_pairs: { from: number; to: number; latency: Metric; one_thread: Metric; all_threads: Metric; threads: number }[];
  levels: PlatformLevel[];
  notes: string[];
}

export interface AssemblyRow {
  offset: string;
  text: string;
  function: string | null;
  file: string | null;
  line: number | null;
  /** Seconds. */
  cpu_time: number;
}

export interface AssemblyDocument {
  view: "assembly";
  function: string;
  module: string;
  rows: AssemblyRow[];
  notes: string[];
}

export interface Diff {
  view: "diff";
  base: string[];
  new: string[];
  totals: Table;
  table: Table;
  notes: string[];
}

export interface Sweep {
  view: "scale";
  result: string;
  command: string[];
  runs: { threads: number; seconds?: number[] }[];
  table: Table;
  laws: { law: string; saturation?: Metric | null; error: number }[];
  saturation: Metric;
  bandwidth_saturation: Metric;
  next: { threads: number; elapsed: Metric; gain: Metric } | null;
  notes: string[];
}

export function isMetric(cell: Cell | undefined): cell is Metric {
  return typeof cell === "object" && cell !== null && !Array.isArray(cell) && "unit" in cell;
}

export function valueOf(cell: Cell | undefined): number | undefined {
  if (isMetric(cell)) return cell.value;
  return typeof cell === "number" ? cell : undefined;
}

export function textOf(cell: Cell | undefined): string {
  if (cell === null || cell === undefined) return "";
  if (Array.isArray(cell)) return cell.join(" < ");
  if (isMetric(cell)) return cell.value === undefined ? "" : String(cell.value);
  return String(cell);
}
