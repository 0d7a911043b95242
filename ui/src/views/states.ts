// What threads did where switches were followed (`fathom collect threading`): running, spinning, and what they waited for.

import { textOf, valueOf, type Table } from "../types";

/** Columns of the view `timeline -g thread`, with how each is drawn. In the table spinning is a part of running; here it is separate. */
const [RUNNING, SPINNING] = [0, 1];
export const STATES: [column: string, kind: string, label: string][] = [
  ["running_time", "user", "running"],
  ["spin_time", "write", "spinning"],
  ["ready_time", "heap", "waiting for a CPU"],
  ["lock_wait", "kernel", "lock"],
  ["barrier_wait", "faults", "barrier or thread"],
  ["io_wait", "read", "data"],
  ["sleep_wait", "resident", "sleep"],
  ["other_wait", "other", "other"],
];

export interface StateSpan {
  from: number;
  to: number;
  /** Seconds in each state. */
  times: number[];
}

/** By thread; empty where switches were not followed. */
export function statesOf(table: Table | undefined): Map<string, StateSpan[]> {
  const found = new Map<string, StateSpan[]>();
  if (!table?.columns.some((column) => column.key === "running_time")) return found;
  for (const row of table.rows) {
    const span = { from: valueOf(row.start) ?? 0, to: valueOf(row.end) ?? 0, times: STATES.map(([column]) => valueOf(row[column]) ?? 0) };
    span.times[RUNNING] = Math.max(0, span.times[RUNNING]! - span.times[SPINNING]!);
    const label = textOf(row.thread);
    const spans = found.get(label);
    if (spans) spans.push(span);
    else found.set(label, [span]);
  }
  return found;
}
