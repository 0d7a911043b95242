// Which rows of a tree are shown, and in which order: what is pinned, what is open, and the way to what is looked for.
// What not: what is in the rows (stacks.ts), and how they are drawn (views/calls.tsx).

import type { TreeRow } from "./stacks";

/** By which column rows are sorted: the total or the own amount of a figure by its number, or the name. */
export type Sorted = { by: "total" | "self"; number: number } | { by: "name" };

export function orderOf(sorted: Sorted): ((a: TreeRow, b: TreeRow) => number) | undefined {
  if (sorted.by === "name") return (a, b) => a.label.localeCompare(b.label, "en", { numeric: true });
  const { by, number } = sorted;
  // Rows come in the order of the first figure's total.
  if (by === "total" && number === 0) return undefined;
  return by === "total" ? (a, b) => b.totals[number]! - a.totals[number]! : (a, b) => b.selfs[number]! - a.selfs[number]!;
}

/** Rows to show: first those that are pinned, then those on the way to a match of the search; each with what is below it where it is open. */
export function visible(roots: TreeRow[], open: Set<string>, search: string, order?: (a: TreeRow, b: TreeRow) => number, pinned: Set<string> = new Set()): TreeRow[] {
  const rows: TreeRow[] = [];
  const wanted = search.toLowerCase();
  const sorted = (of: TreeRow[]) => (order ? [...of].sort(order) : of);
  const add = (row: TreeRow) => {
    rows.push(row);
    if (open.has(row.id)) sorted(row.children()).forEach(unlessPinned);
  };
  const unlessPinned = (row: TreeRow) => { if (!pinned.has(row.id)) add(row); };
  [...pinned].forEach((id) => { const row = rowAt(roots, id); if (row) add(row); });
  sorted(roots).filter((row) => !wanted || matches(row, wanted, 3)).forEach(unlessPinned);
  return rows;
}

function matches(row: TreeRow, wanted: string, depth: number): boolean {
  return row.label.toLowerCase().includes(wanted) || (depth > 0 && row.children().some((child) => matches(child, wanted, depth - 1)));
}

/** The row of this id; nothing where what is chosen has none. */
function rowAt(roots: TreeRow[], id: string): TreeRow | undefined {
  const row = roots.find((one) => id === one.id || id.startsWith(`${one.id}/`));
  return row === undefined || row.id === id ? row : rowAt(row.children(), id);
}

/** Opens the way down while there is one heavy child. */
export function spine(row: TreeRow, open: Set<string>): void {
  let at: TreeRow | undefined = row;
  for (let step = 0; at && step < 60; step++) {
    open.add(at.id);
    const below: TreeRow[] = at.children();
    at = below.length > 0 && below[0]!.total > at.total * 0.6 ? below[0] : undefined;
  }
}
