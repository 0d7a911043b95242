// A table of any length of which only the visible rows are elements. Rows have one height.

import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useId, useRef, useState } from "preact/hooks";
import { counted } from "./format";
import { fullWidth, useWidth } from "./parts";

export const ROW = 26;
/** Rows above and below the visible ones, so that scrolling shows no gaps. */
const MARGIN = 8;

export interface GridColumn<R> {
  key: string;
  label: string;
  title?: string;
  number?: boolean;
  /** A share of the room, as CSS takes it. */
  width: string;
  /** Where there is no room, columns of the highest rank are left out first; those without one stay. */
  rank?: number;
  sort?: () => void;
  sorted?: "ascending" | "descending";
  cell: (row: R, index: number) => ComponentChildren;
}

/** An array, or rows of which some are still awaited. */
export interface Rows<R> {
  readonly length: number;
  at(index: number): R | undefined;
}

interface Props<R> {
  label: string;
  columns: GridColumn<R>[];
  rows: Rows<R>;
  height: number;
  role?: "grid" | "treegrid";
  selected?: number;
  rowProps?: (row: R) => Record<string, string | number | boolean>;
  onSelect?: (row: R, index: number) => void;
  onOpen?: (row: R, index: number) => void;
  onKey?: (event: KeyboardEvent, row: R, index: number) => void;
  /** Which rows are on the screen. */
  onRange?: (first: number, last: number) => void;
  /** Show this row when it changes. */
  reveal?: number;
}

/** Pixels of a column at the least. */
function least<R>({ width }: GridColumn<R>): number {
  return Number(/\d+(?=px)/.exec(width)?.[0] ?? 60);
}

/** Pixels that these columns take at the least, with the gaps and margins of the style sheet. */
function leastWidth<R>(columns: GridColumn<R>[]): number {
  return columns.reduce((sum, column) => sum + least(column) + 8, 12);
}

/** As many of these columns as there is room for. */
function fitting<R>(columns: GridColumn<R>[], room: number): GridColumn<R>[] {
  const shown = new Set<GridColumn<R>>();
  let left = room - 12;
  for (const column of [...columns].sort((a, b) => (a.rank ?? 0) - (b.rank ?? 0))) {
    left -= least(column) + 8;
    if (left < 0 && column.rank) break;
    shown.add(column);
  }
  return columns.filter((column) => shown.has(column));
}

/** On a narrow screen the first column, which says what a row is, leaves room for two figures. */
function narrowed<R>(columns: GridColumn<R>[], room: number): GridColumn<R>[] {
  const [first, ...others] = columns;
  if (!first || room > 600 || least(first) < room * 0.4) return columns;
  return [{ ...first, width: `minmax(${Math.floor(room * 0.4)}px,3fr)` }, ...others];
}

export function Grid<R>(props: Props<R>) {
  const { rows, selected = -1 } = props;
  const [measured, width] = useWidth<HTMLDivElement>(fullWidth());
  const scroller = useRef<HTMLDivElement | null>(null);
  const box = useCallback((element: HTMLDivElement | null) => {
    scroller.current = element;
    measured(element);
  }, []);
  const [wide, setWide] = useState(false);
  const id = useId();
  const [top, setTop] = useState(0);
  const all = narrowed(props.columns, width);
  const narrow = fitting(all, width);
  const columns = wide ? all : narrow;
  const left = all.filter((column) => !narrow.includes(column));
  // The line that tells of columns without room is a row high.
  const height = props.height - (left.length > 0 ? ROW : 0);
  const room = Math.max(ROW * 3, height - ROW);
  const first = Math.max(0, Math.floor(top / ROW) - MARGIN);
  const last = Math.min(rows.length, Math.ceil((top + room) / ROW) + MARGIN);
  // Narrower than its columns at their least, the table scrolls.
  const minWidth = `${leastWidth(columns)}px`;
  const template = columns.map((column) => column.width).join(" ");

  useEffect(() => props.onRange?.(first, last), [first, last, rows]);
  const show = (index: number) => {
    const element = scroller.current;
    if (!element || index < 0) return;
    const at = index * ROW;
    if (at < element.scrollTop) element.scrollTop = at;
    else if (at + ROW > element.scrollTop + room) element.scrollTop = at + ROW - room;
  };
  useEffect(() => {
    if (props.reveal !== undefined && scroller.current) scroller.current.scrollTop = Math.max(0, props.reveal * ROW - room / 2);
  }, [props.reveal, rows.length]);

  const onKeyDown = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(room / ROW) - 1);
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length };
    const move = moves[event.key];
    const row = selected < 0 ? undefined : rows.at(selected);
    if (move !== undefined) {
      event.preventDefault();
      const next = Math.min(rows.length - 1, Math.max(0, selected + move));
      const chosen = rows.at(next);
      if (chosen !== undefined) props.onSelect?.(chosen, next);
      show(next);
    } else if (row !== undefined) {
      if (event.key === "Enter") props.onOpen?.(row, selected);
      props.onKey?.(event, row, selected);
    }
  };

  const table = (
    <div class="grid" ref={box} role={props.role ?? "grid"} aria-label={props.label} aria-rowcount={rows.length + 1} tabIndex={0} onKeyDown={onKeyDown}
      style={{ height: `${Math.min(room, Math.max(1, rows.length) * ROW + 2) + ROW + (wide ? ROW : 0)}px` }} onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      aria-activedescendant={selected >= first && selected < last ? `${id}-${selected}` : undefined}>
      <div class="head row" role="row" style={{ gridTemplateColumns: template, minWidth }}>
        {columns.map((column) => (
          <div role="columnheader" key={column.key} class={column.number ? "number" : ""} title={column.title ?? column.label}
            aria-sort={column.sorted}>
            {column.sort ? <button onClick={column.sort}>{column.label}{column.sorted && (column.sorted === "ascending" ? " ▴" : " ▾")}</button> : column.label}
          </div>
        ))}
      </div>
      <div class="body" role="presentation" style={{ height: `${rows.length * ROW}px`, minWidth }}>
        {Array.from({ length: Math.max(0, last - first) }, (_, at) => {
          const index = first + at;
          const row = rows.at(index);
          if (row === undefined) return <div class="row quiet" role="row" key={index} style={{ top: `${index * ROW}px` }}>...</div>;
          return (
            <div class={index === selected ? "row selected" : "row"} role="row" id={`${id}-${index}`} key={index} aria-rowindex={index + 2}
              aria-selected={index === selected} style={{ gridTemplateColumns: template, top: `${index * ROW}px` }}
              {...props.rowProps?.(row)} onClick={() => props.onSelect?.(row, index)} onDblClick={() => props.onOpen?.(row, index)}>
              {columns.map((column) => (
                <div role="gridcell" key={column.key} class={column.number ? "number" : ""}>{column.cell(row, index)}</div>
              ))}
            </div>
          );
        })}
      </div>
    </div>
  );
  if (left.length === 0) return table;
  return (
    <>
      {table}
      <p class="columns quiet">
        <button aria-pressed={wide} onClick={() => setWide(!wide)}>{wide ? "Columns that fit" : "All columns"}</button>{" "}
        {wide ? "Scroll sideways for the others." : `No room for ${counted(left.length, "column")}: ${left.map((column) => column.label).join(", ")}`}
      </p>
    </>
  );
}
