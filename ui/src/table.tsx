// Any view of the server as a table: sort, search, export; a row leads to its source.

import { useMemo, useState } from "preact/hooks";
import { Grid, type GridColumn } from "./grid";
import { counted } from "./format";
import { Empty, FunctionLink, Notes, Value } from "./parts";
import { csv, save } from "./save";
import { isMetric, textOf, valueOf, type Column, type Row, type Table } from "./types";

interface Props {
  table: Table;
  height: number;
  /** Columns to show, in this order; all when absent. */
  keys?: string[];
  selected?: (row: Row) => boolean;
  onSelect?: (row: Row) => void;
  label?: string;
}

const WIDTHS: Record<string, string> = { metric: "minmax(180px,2fr)", function: "minmax(160px,3fr)", object: "minmax(220px,4fr)", stack: "minmax(240px,5fr)", file: "minmax(90px,1fr)", line: "52px", code: "minmax(240px,4fr)", offset: "72px", dram_intensity: "minmax(112px,1fr)", roof: "minmax(86px,1fr)", bound: "58px", kind: "56px", latency: "minmax(84px,1fr)", title: "minmax(240px,5fr)", advice: "minmax(240px,5fr)", states: "minmax(420px,9fr)" };

/** Headings for narrow columns; hovering tells the whole one. */
const SHORT: Record<string, string> = {
  object_kind: "Kind", object_bytes: "Size", dram_percent: "DRAM", dram_read: "Read", dram_write: "Written", latency: "Latency", latency_p50: "Median",
  latency_p95: "95 %", latency_p99: "99 %", line_use_percent: "Line use", page_faults: "Faults", access_percent: "Accesses", dram_intensity: "FLOP/byte DRAM",
  intensity: "FLOP/byte", flop_rate: "GFLOP/s", roof: "Roof, GFLOP/s", load_time_percent: "Load time", object_percent: "Of object", flop_percent: "Share",
  dram_bandwidth: "Bandwidth", flops_percent: "Of peak", bandwidth_percent: "Of peak", printed: "Printed",
};

/** Units that a figure is scaled in; others stand in the heading, for they would fill the cells. */
const SCALED = new Set(["s", "bytes", "percent", "count", "GB/s", "ratio", ""]);

function heading({ key, label, unit }: Column): string {
  const name = SHORT[key] ?? label;
  return unit === null || SCALED.has(unit) || name.includes(unit) ? name : `${name}, ${unit}`;
}

export function columnsOf(table: Table, keys: string[] | undefined): Column[] {
  const chosen = keys ? keys.map((key) => table.columns.find((column) => column.key === key)) : table.columns;
  return chosen.filter((column): column is Column => column !== undefined);
}

/** Columns that say what a row is stay where there is little room; `ranked`: columns stand in the order of their importance. */
export function gridColumns(columns: Column[], ranked: boolean, sort: string | undefined, setSort: (key: string) => void): GridColumn<Row>[] {
  return columns.map((column, at) => ({
    key: column.key,
    label: heading(column),
    title: column.unit ? `${column.label}, ${column.unit}` : column.label,
    number: column.unit !== null || column.key === "line",
    width: WIDTHS[column.key] ?? (column.unit === null ? "minmax(90px,1.2fr)" : "minmax(66px,1fr)"),
    spare: ranked ? at > 0 : column.unit !== null,
    sorted: sort !== column.key ? undefined : column.unit === null ? "ascending" : "descending",
    sort: () => setSort(column.key),
    cell: (row) => <TableCell column={column} row={row} />,
  }));
}

export function DocTable({ table, height, keys, selected, onSelect, label }: Props) {
  const [sort, setSort] = useState<string>();
  const [search, setSearch] = useState("");
  const columns = useMemo(() => columnsOf(table, keys), [table, keys]);
  const rows = useMemo(() => {
    const wanted = search.toLowerCase();
    const names = table.columns.filter((column) => column.unit === null).map((column) => column.key);
    let found = wanted ? table.rows.filter((row) => names.some((key) => textOf(row[key]).toLowerCase().includes(wanted))) : table.rows;
    if (sort) {
      const unit = table.columns.find((column) => column.key === sort)?.unit;
      found = [...found].sort((a, b) => unit
        ? (valueOf(b[sort]) ?? -Infinity) - (valueOf(a[sort]) ?? -Infinity)
        : textOf(a[sort]).localeCompare(textOf(b[sort]), "en", { numeric: true }));
    }
    return found;
  }, [table, search, sort]);
  const shown = gridColumns(columns, keys !== undefined, sort, setSort);
  const name = `${table.result}-${table.view}`.replaceAll(/[^\w.-]+/g, "_");
  const at = selected ? rows.findIndex(selected) : -1;
  return (
    <div class="table">
      <div class="bar">
        <input type="search" placeholder="Search" aria-label="Search in this table" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        <span class="quiet">{rows.length === table.rows.length ? counted(rows.length, "row") : `${rows.length} of ${counted(table.rows.length, "row")}`}</span>
        <span class="save">
          <button onClick={() => save(`${name}.csv`, csv(table.columns, rows), "text/csv")}>CSV</button>
          <button onClick={() => save(`${name}.json`, JSON.stringify({ ...table, rows }, null, 2), "application/json")}>JSON</button>
        </span>
      </div>
      {table.rows.length === 0 ? <Empty table={table} />
        : <Grid label={label ?? table.view} columns={shown} rows={rows} height={height} selected={at} onSelect={(row) => onSelect?.(row)} />}
      <Notes notes={table.notes} />
    </div>
  );
}

function TableCell({ column, row }: { column: Column; row: Row }) {
  const cell = row[column.key];
  if (isMetric(cell)) return <Value metric={cell} badge={false} bare={cell.unit === column.unit && !SCALED.has(cell.unit)} />;
  const text = textOf(cell);
  if (column.key === "function" && text) {
    return <FunctionLink name={text} file={textOf(row.file) || undefined} line={valueOf(row.line)} />;
  }
  if (column.key === "file") return <span title={text}>{text.split("/").pop()}</span>;
  return <span title={text}>{text}</span>;
}
