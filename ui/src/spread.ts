// Figures that are known by code and not by call stack, spread over the stacks of that code.
// Assumption, stated wherever they are shown: the call stacks of a function have shares of its traffic as of its CPU time.
// Bursts record addresses and not who called, so nothing better is known.

import type { Embedded } from "./generated";
import { numberOf, type Stacks } from "./stacks";
import { textOf, valueOf, type Figure, type Row, type Table } from "./types";

export interface Spread {
  key: string;
  label: string;
  unit: string;
  /** The figure by function, where no object is chosen. */
  question: Embedded;
  amount: (row: Row) => number;
}

const of = (row: Row, key: string) => valueOf(row[key]) ?? 0;

export const SPREADS: Spread[] = [
  { key: "dram_bytes", label: "DRAM bytes", unit: "bytes", question: "bandwidth?group=module,function&limit=250", amount: (row) => of(row, "dram_read") + of(row, "dram_write") },
  { key: "load_latency", label: "Load latency", unit: "s", question: "latency?group=module,function&limit=250", amount: (row) => of(row, "loads") * of(row, "latency") * 1e-9 },
  { key: "loads", label: "Loads", unit: "count", question: "bandwidth?group=module,function&limit=250", amount: (row) => of(row, "loads") },
  { key: "stores", label: "Stores", unit: "count", question: "bandwidth?group=module,function&limit=250", amount: (row) => of(row, "stores") },
];

/** The same with the objects that code uses. */
export const BY_OBJECT: Embedded = "objects?group=object,function&limit=250";

/** And with the types of their elements: it has a row for each object, type and function. */
const BY_TYPE: Embedded = "objects?group=type,function&limit=250";

/** Nothing without samples, or when the table has nothing of it. */
export function spreadOver(stacks: Stacks, spread: Spread, table: Table, objects: string[] | undefined): Figure | undefined {
  const time = stacks.doc.figures.find((figure) => figure.key === "cpu_time");
  const rows = objects === undefined ? table.rows : table.rows.filter((row) => objects.includes(textOf(row.object)));
  const amounts = new Map<string, number>();
  for (const row of rows) {
    const name = `${textOf(row.module)} ${textOf(row.function)}`;
    amounts.set(name, (amounts.get(name) ?? 0) + spread.amount(row));
  }
  const whole = [...amounts.values()].reduce((sum, amount) => sum + amount, 0);
  if (!time || whole <= 0) return undefined;
  const { function: functions } = stacks.doc.nodes;
  const { node: nodes, amount: spent } = time.cells;
  const sums = new Float64Array(stacks.doc.functions.name.length);
  nodes.forEach((node, at) => {
    sums[functions[node] ?? -1]! += spent[at]!;
  });
  let placed = 0;
  const factors = stacks.doc.functions.name.map((name, fn) => {
    const amount = amounts.get(`${stacks.moduleOf(fn)} ${name}`) ?? 0;
    if (amount <= 0 || sums[fn]! <= 0) return 0;
    placed += amount;
    return amount / sums[fn]!;
  });
  const seen = rows.reduce((most, row) => Math.max(most, observations(row)), 0);
  return {
    key: spread.key, label: spread.label, factor: 1, records: seen, observations: seen,
    whole: { value: whole, unit: spread.unit, evidence: "estimated", samples: 0 },
    left_out: Math.max(0, whole - placed), bin_seconds: time.bin_seconds, lane_seconds: time.lane_seconds,
    lanes: { thread: [], bin: [], kernel: [], amount: [] },
    cells: { ...time.cells, amount: spent.map((amount, at) => amount * (factors[functions[nodes[at]!] ?? -1] ?? 0)) },
  };
}

function observations(row: Row): number {
  const loads = row.loads;
  return typeof loads === "object" && loads !== null && "samples" in loads ? loads.samples : 0;
}

/** What the table of objects has of a figure: of other figures no object is known. */
const OF_OBJECTS: Record<string, (row: Row) => number> = {
  cpu_time: (row) => of(row, "stall_time"),
  page_faults: (row) => of(row, "page_faults"),
  ...Object.fromEntries(SPREADS.map(({ key, amount }) => [key, amount])),
};

/** The question whose answer divides figures so, which a page on its own carries; nothing without such a level. */
export function divisionOf(levels: string[]): Embedded | undefined {
  return levels.includes("type") ? BY_TYPE : levels.includes("object") ? BY_OBJECT : undefined;
}

/** The figure with its cells divided among memory objects or types, as the table divides their functions; what it does not know stays undivided. */
export function divided(stacks: Stacks, figure: Figure, table: Table): Figure {
  const amountOf = OF_OBJECTS[figure.key];
  if (!amountOf) return figure;
  const numbered = (name: string) => (name === "" ? -1 : numberOf(name));
  const parts = new Map<string, { object: number; type: number; amount: number }[]>();
  for (const row of table.rows) {
    const amount = amountOf(row);
    if (amount <= 0) continue;
    const name = `${textOf(row.module)} ${textOf(row.function)}`;
    parts.set(name, [...(parts.get(name) ?? []), { object: numbered(textOf(row.object)), type: numbered(textOf(row.type)), amount }]);
  }
  const { cells } = figure;
  const { function: functions } = stacks.doc.nodes;
  const sums = new Float64Array(stacks.doc.functions.name.length);
  cells.node.forEach((node, at) => { sums[functions[node] ?? -1]! += cells.amount[at]! * figure.factor; });
  const of = stacks.doc.functions.name.map((name, fn) => parts.get(`${stacks.moduleOf(fn)} ${name}`) ?? []);
  const out: Figure["cells"] & { object: number[]; type: number[] } = { node: [], thread: [], bin: [], kernel: [], amount: [], object: [], type: [], ...(cells.region ? { region: [] } : {}) };
  const add = (at: number, amount: number, object: number, type: number) => {
    for (const column of ["node", "thread", "bin", "kernel", "region"] as const) out[column]?.push(cells[column]![at]!);
    out.amount.push(amount);
    out.object.push(object);
    out.type.push(type);
  };
  cells.node.forEach((node, at) => {
    const fn = functions[node] ?? -1;
    const known = of[fn] ?? [];
    const whole = Math.max(sums[fn] ?? 0, known.reduce((sum, { amount }) => sum + amount, 0));
    let left = cells.amount[at]!;
    for (const { object, type, amount } of known) {
      const part = (cells.amount[at]! * amount) / whole;
      add(at, part, object, type);
      left -= part;
    }
    if (left > cells.amount[at]! * 1e-9) add(at, left, -1, -1);
  });
  return { ...figure, cells: out };
}
