// A table of any length that the server sorts, searches and cuts: the page has the rows that are seen, and some around them.
// What not: pages on their own, which carry the heaviest rows as one table.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask } from "./data";
import { Grid, type Rows } from "./grid";
import { counted } from "./format";
import { Empty, Failed, Notes, Waiting } from "./parts";
import { columnsOf, gridColumns, type Sort } from "./table";
import type { Row, Table } from "./types";
import { Tools, columnsOfBench, mostOf, useBench } from "./workbench";

/** Rows asked for at once, and to be saved: the most that a server gives. */
const PART = 100;
const MOST = 500;

function inParts(question: string, more: string, rows = PART): string {
  return `${question}${question.includes("?") ? "&" : "?"}${more}count=${rows}&from=`;
}

/** What a table asks first. */
export const firstPart = (question: string): string => `${inParts(question, "")}0`;

interface Part extends Table {
  /** Rows that match the search. */
  found: number;
}

interface Props {
  question: string;
  keys: string[];
  height: number;
  label: string;
  selected: (row: Row) => boolean;
  onSelect: (row: Row) => void;
  /** The first row, when there is one. */
  onFirst: (row: Row | undefined) => void;
}

/** Rows by their number; a part that is not here yet has none. */
class PartRows implements Rows<Row> {
  constructor(readonly length: number, private readonly parts: Map<number, Row[]>) {}

  at(index: number): Row | undefined {
    return this.parts.get(Math.floor(index / PART))?.[index % PART];
  }

  findIndex(wanted: (row: Row) => boolean): number {
    for (const [part, rows] of this.parts) {
      const at = rows.findIndex(wanted);
      if (at >= 0) return part * PART + at;
    }
    return -1;
  }
}

export function LongTable({ question, keys, height, label, selected, onSelect, onFirst }: Props) {
  const [sort, setSort] = useState<Sort>();
  const [bench, change] = useBench("objects");
  const [search, setSearch] = useState("");
  const [head, setHead] = useState<Part>();
  const [error, setError] = useState<string>();
  const [rows, setRows] = useState(new PartRows(0, new Map()));
  const more = `${sort ? `sort=${sort.key}&${sort.turned ? "turned=1&" : ""}` : ""}${search ? `search=${encodeURIComponent(search)}&` : ""}`;
  const of = inParts(question, more);
  // What was asked for another order or search must not come between these rows.
  const current = useRef(of);
  current.current = of;
  const parts = useMemo(() => new Map<number, Row[]>(), [of]);
  const asked = useMemo(() => new Set<number>(), [of]);
  const load = (part: number) => {
    if (asked.has(part)) return;
    asked.add(part);
    void ask(`${of}${part * PART}`).then((answer) => {
      if (current.current !== of) return;
      setError(answer.error);
      const value = answer.value as Part | undefined;
      if (!value) return;
      parts.set(part, value.rows);
      setHead(value);
      setRows(new PartRows(value.found, parts));
      if (part === 0) onFirst(value.rows[0]);
    });
  };
  useEffect(() => load(0), [of]);
  const chosen = head ? columnsOfBench(bench, columnsOf(head, keys), head.columns) : [];
  const columns = useMemo(() => (head ? gridColumns(chosen, true, sort, setSort, bench, mostOf(head.columns, parts.get(0) ?? [])) : []), [head?.columns.length, keys, sort, bench, parts.get(0)]);
  if (error) return <Failed error={error} />;
  if (!head) return <Waiting />;
  const onRange = (first: number, last: number) => {
    for (let part = Math.floor(first / PART); part * PART < last; part++) load(part);
  };
  /** All rows that were found, not only those that were seen. */
  const withAll = async (): Promise<Row[]> => {
    const all: Row[] = [];
    while (all.length < rows.length) {
      const answer = await ask(inParts(question, more, MOST) + all.length);
      const part = (answer.value as Part | undefined)?.rows ?? [];
      if (part.length === 0) {
        setError(answer.error ?? "the table ended too early: nothing was saved");
        return [];
      }
      all.push(...part);
    }
    return all;
  };
  const name = `${head.result}-${head.view}`.replaceAll(/[^\w.-]+/g, "_");
  return (
    <div class="table">
      <div class="bar">
        <input type="search" placeholder="Search" aria-label="Search in this table" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        <span class="quiet" role="status">{counted(rows.length, "row")}{search ? " found" : ""}</span>
        <Tools name={name} bench={bench} change={change} columns={chosen} all={head.columns} rows={withAll} document={head} />
      </div>
      {rows.length === 0 ? search ? <p class="empty">No row has this text.</p> : <Empty table={head} />
        : <Grid label={label} columns={columns} rows={rows} height={height} selected={rows.findIndex(selected)} onSelect={onSelect} onRange={onRange} />}
      <Notes notes={head.notes} />
    </div>
  );
}
