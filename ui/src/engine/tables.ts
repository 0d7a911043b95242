// The tables that SQL can ask: each view that the page shows as rows, the figures of the summary, and where a server is, the facts
// that the result stores.
//
// What not: SQL (engine.ts, worker.ts). A figure is four columns, as CSV has them: itself, and with `_low`, `_high`, `_evidence`
// its interval and origin. What is not known is NULL. All of it is of the whole run.

import { ask, mode } from "../data";
import { EMBEDDED, VIEWS } from "../generated";
import { isMetric, textOf, type Cell, type Metric, type Table } from "../types";
import type { Given, Plain } from "./messages";

/** A table that can be asked, before anything of it is here. */
export interface Source {
  name: string;
  says: string;
  question: string;
}

/** A table that is here. */
export interface Loaded extends Given {
  /** Units of the columns that are figures. */
  units: Map<string, string>;
  /** What the columns are called. */
  labels: Map<string, string>;
  /** Why it has no rows. */
  empty?: string;
  /** That it has not all rows, in words. */
  cut?: string;
}

/** Documents that are no tables. */
const OTHERS = new Set(["stacks", "points", "moments", "layout", "platform"]);

const fields = (question: string) => new URLSearchParams(question.split("?")[1] ?? "");

/** `objects?group=object,source-line&limit=400` is `objects_by_object_source_line`. */
function nameOf(question: string): string {
  const group = fields(question).get("group");
  return `${question.split("?")[0]}${group ? `_by_${group}` : ""}`.replaceAll(/[^a-z0-9]+/gi, "_");
}

function saysOf(question: string): string {
  const group = fields(question).get("group");
  const view = VIEWS.find(([name]) => name === question.split("?")[0])?.[1].split(":")[0] ?? "";
  return group ? `by ${group.replaceAll(",", ", ")}: ${view}` : view;
}

/** Of the page itself. */
export const SOURCES: Source[] = EMBEDDED.filter((question) => !OTHERS.has(question)).map((question) => ({ name: nameOf(question), says: question === "summary" ? "every figure of the summary" : saysOf(question), question }));

/** What the server says of the tables that the result stores. */
interface Facts {
  most: number;
  tables: { name: string; rows: number }[];
}

/** One of them; bytes that only Fathom reads are left out. */
interface Rows {
  columns: string[];
  rows: Plain[][];
  /** How many there are. */
  all: number;
}

/** Of the result's files. Throws why they cannot be had. */
export async function stored(): Promise<Source[]> {
  if (mode() === "file") return [];
  const { value, error } = await ask("facts");
  if (error !== undefined) throw new Error(error);
  return (value as Facts).tables.filter(({ rows }) => rows > 0).map(({ name }) => ({ name: `stored_${name}`, says: `${name}.parquet`, question: `facts?table=${name}` }));
}

/** Every figure in a document, with the path to it. */
function figuresOf(value: unknown, path: string[] = []): [path: string, metric: Metric][] {
  if (typeof value !== "object" || value === null) return [];
  if ("unit" in value && "samples" in value) return [[path.join("."), value as Metric]];
  return Object.entries(value).flatMap(([key, one]) => figuresOf(one, [...path, key]));
}

const plain = (cell: Cell | undefined): Plain => (typeof cell === "number" ? cell : cell === null || cell === undefined || isMetric(cell) ? null : textOf(cell));

/** A figure and the three columns that follow it. */
function parts(cell: Cell | undefined): Plain[] {
  const { value = null, low = null, high = null, evidence = null } = isMetric(cell) ? cell : { value: plain(cell) };
  return [value, low, high, value === null ? null : evidence];
}

function flat(name: string, table: Table, limit: number): Loaded {
  const columns = table.columns.flatMap(({ key, unit }) => (unit === null ? [key] : [key, `${key}_low`, `${key}_high`, `${key}_evidence`]));
  const rows = table.rows.map((row) => table.columns.flatMap(({ key, unit }) => (unit === null ? [plain(row[key])] : parts(row[key]))));
  const units = new Map(table.columns.flatMap(({ key, unit }) => (unit === null ? [] : [[key, unit], [`${key}_low`, unit], [`${key}_high`, unit]] as [string, string][])));
  const labels = new Map(table.columns.map(({ key, label }) => [key, label]));
  return { name, columns, rows, units, labels, empty: rows.length === 0 ? table.empty : undefined, cut: rows.length === limit ? `the first ${limit} rows of the view` : undefined };
}

const here = new Map<string, Loaded>();

/** Loads a table, once. Throws why it cannot be had. */
export async function load({ name, question }: Source): Promise<Loaded> {
  const before = here.get(name);
  if (before) return before;
  const { value, error } = await ask(question);
  if (error !== undefined) throw new Error(`${name}: ${error}`);
  let loaded: Loaded;
  if (question === "summary") {
    const rows = figuresOf(value).map(([figure, { value: of = null, unit, low = null, high = null, evidence = null, note = null }]) => [figure, of, unit, low, high, of === null ? null : evidence, note]);
    loaded = { name, columns: ["figure", "value", "unit", "low", "high", "evidence", "note"], rows, units: new Map(), labels: new Map() };
  } else if (question.startsWith("facts?")) {
    const { columns, rows, all } = value as Rows;
    loaded = { name, columns, rows, units: new Map(), labels: new Map(), cut: rows.length < all ? `the first ${rows.length.toLocaleString("en")} of ${all.toLocaleString("en")} rows` : undefined };
  } else loaded = flat(name, value as Table, Number(fields(question).get("limit") ?? NaN));
  here.set(name, loaded);
  return loaded;
}

/** Which of them a text of SQL names. */
export function named(sql: string, all: Source[]): Source[] {
  const words = new Set(sql.toLowerCase().match(/\w+/g) ?? []);
  return all.filter(({ name }) => words.has(name));
}
