// Any view of the server as a table: sort, search, export; a row leads to its source.

import { useMemo, useState } from "preact/hooks";
import { Grid, type GridColumn } from "./grid";
import { counted, provenance, saving, seconds, shortName } from "./format";
import { CellValue, Empty, FunctionLink, INTERVALS, Notes, Prose } from "./parts";
import { isMetric, textOf, valueOf, type Column, type Metric, type Row, type Table } from "./types";
import { PinChoice, Tools, columnsOfBench, exactly, heatOf, heated, mostOf, plainNumber, useBench, type Bench } from "./workbench";

interface Props {
  table: Table;
  height: number;
  /** Columns to show, in this order; all when absent. */
  keys?: string[];
  selected?: (row: Row) => boolean;
  onSelect?: (row: Row) => void;
  label?: string;
  /** What is chosen is shown elsewhere. */
  withoutDetails?: boolean;
  /** Also columns that no row has anything of. */
  everyColumn?: boolean;
}

const WIDTHS: Record<string, string> = { metric: "minmax(180px,2fr)", function: "minmax(160px,3fr)", object: "minmax(220px,4fr)", stack: "minmax(240px,5fr)", file: "minmax(90px,1fr)", line: "52px", code: "minmax(240px,4fr)", offset: "72px", dram_intensity: "minmax(112px,1fr)", intensity: "minmax(92px,1fr)", l2_intensity: "minmax(92px,1fr)", l3_intensity: "minmax(92px,1fr)", flop_rate: "minmax(104px,1fr)", roof: "minmax(104px,1fr)", bound: "minmax(64px,1fr)", part: "72px", above: "minmax(120px,3fr)", kind: "56px", latency: "minmax(84px,1fr)", title: "minmax(240px,5fr)", advice: "minmax(240px,5fr)", states: "minmax(420px,9fr)" };

/** Headings for narrow columns; hovering tells the whole one. */
const SHORT: Record<string, string> = {
  object_kind: "Kind", object_bytes: "Size", dram_percent: "DRAM", dram_read: "Read", dram_write: "Written", latency: "Latency", latency_p50: "Median",
  latency_p95: "95 %", latency_p99: "99 %", line_use_percent: "Line use", page_faults: "Faults", access_percent: "Accesses", dram_intensity: "FLOP/byte DRAM",
  intensity: "FLOP/byte L1", l2_intensity: "FLOP/byte L2", l3_intensity: "FLOP/byte L3", flop_rate: "Rate", roof: "Roof", load_time_percent: "Load time", object_percent: "Of object", flop_percent: "Of all FLOP",
  dram_bandwidth: "Bandwidth", flops_percent: "Of peak", bandwidth_percent: "Of peak", printed: "Printed", memory_time: "Memory", dram_traffic: "DRAM",
  open: "Open", shortest: "Shortest", median: "Median", p95: "95 %", longest: "Longest", bandwidth: "Bandwidth",
};

/** Units that a figure is scaled in; others stand in the heading, for they would fill the cells. */
const SCALED = new Set(["s", "ns", "bytes", "percent", "count", "count/s", "GB/s", "GFLOP/s", "ratio", ""]);

/** Columns of points in time, seconds. */
const TIMES = new Set(["start", "end"]);

/** Columns of names, besides functions: long ones are shortened as everywhere. */
const NAMES = new Set(["object", "type", "field", "element_type", "stack", "allocation_stack", "free_stack", "caller", "callee", "waker_function"]);

/** Columns that say with the first what a row is: without them, several rows read alike. */
const TOGETHER = new Set(["function", "type", "field", "thread", "callee", "region"]);

/** Columns of changes. */
const SIGNED = new Set(["difference", "change"]);

function heading({ key, label, unit }: Column): string {
  const name = SHORT[key] ?? label;
  return unit === null || SCALED.has(unit) || name.includes(unit) ? name : `${name}, ${unit}`;
}

/** A width in which a heading is not cut: letters of the head are seven pixels wide at most, on average; the arrow of a sorted one is two. */
function roomFor(width: string, { length }: string, isSorted: boolean): string {
  return width.replace(/\d+(?=px)/, (least) => String(Math.max(Number(least), 7 * (length + (isSorted ? 2 : 0)) + 4)));
}

/** By which column rows are sorted: figures falling and names rising, or turned. */
export interface Sort {
  key: string;
  turned: boolean;
}

export function columnsOf(table: Table, keys: string[] | undefined): Column[] {
  const chosen = keys ? keys.map((key) => table.columns.find((column) => column.key === key)) : table.columns;
  return chosen.filter((column): column is Column => column !== undefined);
}

/** Without the columns that no row has anything of; `reasons` says why, where that is known. */
function filled(columns: Column[], rows: Row[]): { columns: Column[]; reasons: string[] } {
  const reasons = new Map<string, string[]>();
  const left = columns.filter(({ key, label }) => {
    if (rows.length === 0 || rows.some((row) => textOf(row[key]) !== "")) return true;
    const cell = rows.map((row) => row[key]).find((one) => isMetric(one) && one.note);
    const note = isMetric(cell) ? cell.note : undefined;
    if (note) reasons.set(note, [...(reasons.get(note) ?? []), label]);
    return false;
  });
  return { columns: left, reasons: [...reasons].map(([note, labels]) => `Not known for any row: ${labels.join(", ")} (${note}).`) };
}

/** Where there is little room, what a row is stays, then its figures; `ranked`: columns stand in the order of their importance. */
export function gridColumns(columns: Column[], ranked: boolean, sort: Sort | undefined, setSort: (sort: Sort | undefined) => void, bench: Bench, most: Map<string, number>): GridColumn<Row>[] {
  return columns.map((column, at) => ({
    key: column.key,
    label: heading(column),
    title: column.unit ? `${column.label}, ${column.unit}` : column.label,
    number: column.unit !== null || column.key === "line",
    width: roomFor(WIDTHS[column.key] ?? (column.unit === null ? "minmax(90px,1.2fr)" : column.unit === "bytes" ? "minmax(78px,1fr)" : "minmax(74px,1fr)"), heading(column), sort?.key === column.key),
    rank: ranked || at === 0 ? at : TOGETHER.has(column.key) ? 0.5 : column.unit !== null || columns.every(({ unit }) => unit === null) ? at : columns.length + at,
    sorted: sort?.key !== column.key ? undefined : (column.unit === null) === sort.turned ? "descending" : "ascending",
    // The usual order of the column, then the other, then that of the table.
    sort: () => setSort(sort?.key !== column.key ? { key: column.key, turned: false } : sort.turned ? undefined : { key: column.key, turned: true }),
    cell: (row) => {
      const cell = <TableCell column={column} row={row} exact={bench.exact} />;
      return bench.heat ? heated(heatOf(column, row, most), cell) : cell;
    },
  }));
}

/** Everything of the chosen row, also what the table has no room for: figures with their intervals and origins. */
export function Details({ columns, row }: { columns: Column[]; row: Row | undefined }) {
  if (!row) return <p class="quiet">Choose a row by click, touch or arrow keys: all of it, with intervals and origins, is shown here. {INTERVALS}</p>;
  const shown = columns.filter(({ key }) => textOf(row[key]) !== "" || isMetric(row[key]));
  return (
    <dl class="details" aria-live="polite">
      {shown.map(({ key, label }) => {
        const cell = row[key];
        return <div key={key}><dt>{label}</dt><dd>{isMetric(cell) ? <Prose text={provenance(cell)} /> : typeof cell !== "number" ? textOf(cell) : TIMES.has(key) ? seconds(cell) : plainNumber(cell)}</dd></div>;
      })}
    </dl>
  );
}

/** The figures of the chosen row of a table that has no room for its details. */
export function RowSays({ name, figures }: { name: string | undefined; figures: [what: string, metric: Metric][] }) {
  const says = name === undefined ? "Choose a row by click, touch or arrow keys: its figures, with intervals and origins, are shown here."
    : `${shortName(name)}: ${figures.map(([what, metric]) => `${what} ${provenance(metric)}`).join("; ") || "no figure"}.`;
  return <p class="quiet" aria-live="polite">{says}</p>;
}

export function DocTable({ table, height, keys, selected, onSelect, label, withoutDetails, everyColumn }: Props) {
  const [sort, setSort] = useState<Sort>();
  const [bench, change] = useBench(table.view);
  const [pinned, setPinned] = useState<Set<Row>>(new Set());
  const [search, setSearch] = useState("");
  const [own, setOwn] = useState<Row>();
  const { columns: usual, reasons } = useMemo(() => (everyColumn ? { columns: table.columns, reasons: [] } : filled(columnsOf(table, keys), table.rows)), [table, keys]);
  const columns = useMemo(() => columnsOfBench(bench, usual, table.columns), [bench, usual, table]);
  const most = useMemo(() => mostOf(table.columns, table.rows), [table]);
  const rows = useMemo(() => {
    const wanted = search.toLowerCase();
    const names = table.columns.filter((column) => column.unit === null).map((column) => column.key);
    let found = wanted ? table.rows.filter((row) => names.some((key) => textOf(row[key]).toLowerCase().includes(wanted))) : table.rows;
    if (sort) {
      const unit = table.columns.find((column) => column.key === sort.key)?.unit;
      const way = sort.turned ? -1 : 1;
      found = [...found].sort((a, b) => {
        const [one, other] = [a[sort.key], b[sort.key]];
        if (typeof unit !== "string") return way * textOf(one).localeCompare(textOf(other), "en", { numeric: true });
        const [first, second] = [valueOf(one), valueOf(other)];
        // What is not known comes last, whichever way.
        if (first === undefined || second === undefined) return Number(first === undefined) - Number(second === undefined);
        return way * (second - first);
      });
    }
    return pinned.size === 0 ? found : [...table.rows.filter((row) => pinned.has(row)), ...found.filter((row) => !pinned.has(row))];
  }, [table, search, sort, pinned]);
  const shown = gridColumns(columns, keys !== undefined, sort, setSort, bench, most);
  const pin = (row: Row) => {
    const next = new Set(pinned);
    if (!next.delete(row)) next.add(row);
    setPinned(next);
  };
  const name = `${table.result}-${table.view}`.replaceAll(/[^\w.-]+/g, "_");
  const at = rows.findIndex(selected ?? ((row) => row === own));
  return (
    <div class="table">
      {table.rows.length > 0 && <div class="bar">
        <input type="search" placeholder="Search" aria-label="Search in this table" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        <span class="quiet">{rows.length === table.rows.length ? counted(rows.length, "row") : `${rows.length} of ${counted(table.rows.length, "row")}`}</span>
        <Tools name={name} bench={bench} change={change} columns={columns} all={table.columns} rows={async () => rows} document={table} />
      </div>}
      {table.rows.length === 0 ? <Empty table={table} />
        : <>
          <Grid label={label ?? table.view} columns={shown} rows={rows} height={height} selected={at} onSelect={onSelect ?? setOwn}
            rowProps={(row) => ({ class: `row${rows[at] === row ? " selected" : ""}${pinned.has(row) ? " pinned" : ""}` })}
            onKey={(event, row) => { if (event.key === "p") pin(row); }} />
          {rows[at] && <PinChoice pinned={pinned.has(rows[at])} pin={() => rows[at] && pin(rows[at])} />}
          {!withoutDetails && <Details columns={table.columns} row={rows[at]} />}
        </>}
      <Notes notes={[...reasons, ...table.notes]} />
    </div>
  );
}

function TableCell({ column, row, exact }: { column: Column; row: Row; exact: boolean }) {
  const cell = row[column.key];
  if (isMetric(cell) && exact) return <span title={provenance(cell)}>{exactly(cell)}</span>;
  // As in the terminal: what may be lost as well is at most that.
  if (isMetric(cell) && column.key === "predicted_gain" && saving(cell) && cell.high! > 0) return <span title={provenance(cell)}>≤ {seconds(cell.high!)}</span>;
  if (isMetric(cell)) return <CellValue metric={cell} bare={cell.unit === column.unit && !SCALED.has(cell.unit)} signed={SIGNED.has(column.key)} />;
  const text = typeof cell !== "number" ? textOf(cell) : TIMES.has(column.key) && !exact ? seconds(cell) : plainNumber(cell);
  if (column.key === "function" && text) {
    return <FunctionLink name={text} file={textOf(row.file) || undefined} line={valueOf(row.line)} />;
  }
  if (NAMES.has(column.key)) return <span title={text}>{Array.isArray(cell) ? cell.map(shortName).join(" < ") : shortName(text)}</span>;
  if (column.key === "file") return <span title={text}>{text.split("/").pop()}</span>;
  return <span title={text}>{text}</span>;
}
