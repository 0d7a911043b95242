// What every table offers: which columns, exact numbers, heat, copies and files of what is shown.
// What is chosen holds for all tables of the same view until the page is left.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { amount, interval } from "./format";
import { csv, save } from "./save";
import { UnitChoice } from "./units";
import { isMetric, textOf, valueOf, type Cell, type Column, type Row } from "./types";

export interface Bench {
  hidden: Set<string>;
  shown: Set<string>;
  heat: boolean;
  exact: boolean;
}

const benches = new Map<string, Bench>();

/** What was chosen for the tables of this view, and how to change it. */
export function useBench(view: string): [Bench, (change: Partial<Bench>) => void] {
  const [, again] = useState(0);
  const bench = benches.get(view) ?? { hidden: new Set(), shown: new Set(), heat: false, exact: false };
  return [bench, (change) => { benches.set(view, { ...bench, ...change }); again((count) => count + 1); }];
}

/** The usual columns without those that were hidden, then those that were asked for. */
export function columnsOfBench(bench: Bench, usual: Column[], all: Column[]): Column[] {
  const kept = usual.filter(({ key }) => !bench.hidden.has(key));
  return [...kept, ...all.filter((column) => bench.shown.has(column.key) && !kept.includes(column))];
}

/** A number that is no figure: without the digits that binary fractions make. */
export function plainNumber(value: number): string {
  return Number.isInteger(value) ? value.toLocaleString("en", { useGrouping: false }) : String(Number(value.toPrecision(6)));
}

/** A figure with all digits that the report has, in the unit of the report. */
export function exactly(cell: Cell): string {
  return isMetric(cell) ? (cell.value === undefined ? "n/a" : `${plainNumber(cell.value)} ${cell.unit}`.trim()) : textOf(cell);
}

/** How near a figure is to the largest of its column. */
export function heatOf(column: Column, row: Row, most: Map<string, number>): number {
  return Math.abs(column.unit === null ? 0 : (valueOf(row[column.key]) ?? 0)) / (most.get(column.key) ?? Infinity);
}

/** A cell in the colour of that. */
export function heated(part: number, cell: ComponentChildren): ComponentChildren {
  const step = part > 0.6 ? 4 : part > 0.3 ? 3 : part > 0.1 ? 2 : part > 0.01 ? 1 : 0;
  return step > 0 ? <span class={`hot heat${step}`}>{cell}</span> : cell;
}

export function HeatChoice({ bench, change }: Pick<Props, "bench" | "change">) {
  return <label><input type="checkbox" checked={bench.heat} onChange={(event) => change({ heat: event.currentTarget.checked })} /> Heat</label>;
}

/** Puts the chosen row of a table or a tree on top, or back to its place. */
export function PinChoice({ pinned, pin }: { pinned: boolean; pin: () => void }) {
  return <p class="choices"><button aria-pressed={pinned} onClick={pin}>{pinned ? "Unpin this row" : "Pin this row on top (p)"}</button></p>;
}

/** The largest amount of each column. */
export function mostOf(columns: Column[], rows: Row[]): Map<string, number> {
  return new Map(columns.filter(({ unit }) => unit !== null).map(({ key }) => [key, rows.reduce((most, row) => Math.max(most, Math.abs(valueOf(row[key]) ?? 0)), 0) || Infinity]));
}

/** A table for a text: the columns that are shown, intervals in brackets. */
function markdown(columns: Column[], rows: Row[]): string {
  const quoted = (text: string) => text.replaceAll("|", "\\|").replaceAll("\n", " ");
  const line = (fields: string[]) => `| ${fields.map(quoted).join(" | ")} |\n`;
  const field = (cell: Cell | undefined) => {
    if (!isMetric(cell)) return typeof cell === "number" ? plainNumber(cell) : textOf(cell);
    if (cell.value === undefined) return "n/a";
    const ends = interval(cell);
    return amount(cell.value, cell.unit) + (ends ? ` (${ends})` : "");
  };
  const body = rows.map((row) => line(columns.map(({ key }) => field(row[key]))));
  return line(columns.map(({ label }) => label)) + line(columns.map(({ unit }) => (unit === null ? "---" : "---:"))) + body.join("");
}

/** Puts a text where it can be pasted from. */
export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A browser may refuse that to a page from disk.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

interface Saved {
  name: string;
  /** Those that are copied; all where nothing else is said. */
  columns: Column[];
  all?: Column[];
  /** All rows, also those that are not on the page. */
  rows: () => Promise<Row[]>;
  /** What else the JSON has. */
  document: object;
}

interface Props extends Saved {
  all: Column[];
  bench: Bench;
  change: (change: Partial<Bench>) => void;
}

/** Buttons for files and copies of a table. */
export function SaveAs({ name, columns, all = columns, rows, document }: Saved) {
  const [said, say] = useState("");
  const texts: Record<string, (found: Row[]) => string> = {
    Markdown: (found) => markdown(columns, found),
    CSV: (found) => csv(columns, found),
    JSON: (found) => JSON.stringify(found.map((row) => Object.fromEntries(columns.map(({ key }) => [key, row[key] ?? null]))), null, 2),
  };
  const copied = async (kind: string) => {
    const found = await rows();
    await copy(texts[kind]!(found));
    say(`${found.length} rows copied`);
  };
  return (
    <span class="save">
      <span class="quiet">Save as</span>
      <button onClick={async () => save(`${name}.csv`, csv(all, await rows()), "text/csv")}>CSV</button>
      <button onClick={async () => save(`${name}.json`, JSON.stringify({ ...document, rows: await rows() }, null, 2), "application/json")}>JSON</button>
      <span class="quiet">Copy as</span>
      {Object.keys(texts).map((kind) => <button key={kind} aria-label={`Copy as ${kind}`} onClick={() => void copied(kind)}>{kind}</button>)}
      <span class="quiet" role="status">{said}</span>
    </span>
  );
}

export function Tools({ name, bench, change, columns, all, rows, document }: Props) {
  const toggle = ({ key }: Column, on: boolean) => {
    const [hidden, shown] = [new Set(bench.hidden), new Set(bench.shown)];
    hidden[on ? "delete" : "add"](key);
    shown[on ? "add" : "delete"](key);
    change({ hidden, shown });
  };
  return (
    <>
      <details class="menu">
        <summary>Columns</summary>
        <div class="menu-body" role="group" aria-label="Columns">
          {all.map((column) => (
            <label key={column.key}><input type="checkbox" checked={columns.includes(column)} onChange={(event) => toggle(column, event.currentTarget.checked)} /> {column.label}</label>
          ))}
        </div>
      </details>
      <HeatChoice bench={bench} change={change} />
      <label title="All digits, in the unit of the report"><input type="checkbox" checked={bench.exact} onChange={(event) => change({ exact: event.currentTarget.checked })} /> Exact</label>
      <UnitChoice />
      <SaveAs {...{ name, columns, all, rows, document }} />
    </>
  );
}
