// What changed between two results by call stack: a tree with both amounts and their difference, and a flame graph in its colours.
// What not: differences between repeated runs; the tables of Compare test those.

import { useMemo, useState } from "preact/hooks";
import { useDoc } from "../data";
import { amount, percent, uncertainty } from "../format";
import { Grid, ROW, type GridColumn } from "../grid";
import { bothOf, type Both } from "../merge";
import { CellValue, Failed, INTERVALS, Notes, Waiting } from "../parts";
import { visible } from "../rows";
import { EVERYTHING, interval, type TreeRow } from "../stacks";
import { update, useShown } from "../state";
import { RowSays } from "../table";
import { theme } from "../theme";
import type { Figure, Metric, StacksDocument } from "../types";
import { Name, Place, amountOf } from "./calls";
import { FlameGraph } from "./flame";
import { SaveAs } from "../workbench";

/** How the two are set against each other. */
interface Pair {
  now: Figure;
  base: Figure;
  /** What an amount of the base is multiplied with. */
  scale: number;
}

/** The new amount less the base's, with the interval of a difference of two that do not depend on each other (Newcombe 1998, method 10). */
function differenceOf({ now, base, scale }: Pair, [young = 0, old = 0]: number[]): Metric {
  const [mine, other] = [interval(now, young), interval(base, old)];
  const [value, before] = [young - old * scale, old * scale];
  const [low, high] = [mine?.[0] ?? young, mine?.[1] ?? young];
  const [least, most] = [(other?.[0] ?? old) * scale, (other?.[1] ?? old) * scale];
  const exact = !mine && !other;
  return {
    value, unit: now.whole.unit, evidence: exact ? now.whole.evidence : "sampled", samples: 0,
    ...(exact ? {} : { low: value - Math.hypot(young - low, most - before), high: value + Math.hypot(high - young, before - least) }),
  };
}

/** Whether the difference is more than samples may differ by chance. */
const isSure = ({ value = 0, low = value, high = value }: Metric): boolean => value !== 0 && (low > 0 || high < 0);

/** Red where it takes more than before, blue where less; grey where chance may have made the difference. */
function colourOf(metric: Metric, most: number): string {
  const dark = theme() === "dark";
  if (!isSure(metric)) return dark ? "#8d939b" : "#d7dade";
  const part = Math.sqrt(Math.min(1, Math.abs(metric.value ?? 0) / (most || 1)));
  const [red, green, blue] = (metric.value ?? 0) > 0 ? [222, 92, 48] : [64, 132, 214];
  const mixed = (value: number) => Math.round(value + (240 - value) * (1 - part) * 0.8);
  return `rgb(${mixed(red!)},${mixed(green!)},${mixed(blue!)})`;
}

function useBoth(): { both?: Both; error?: string } {
  const mine = useDoc<StacksDocument>("stacks");
  const { value: other, error } = useDoc<{ side: "base" | "new"; stacks: StacksDocument }>("other-stacks");
  const both = useMemo(() => {
    if (!mine.value || !other) return undefined;
    return other.side === "base" ? bothOf(other.stacks, mine.value) : bothOf(mine.value, other.stacks);
  }, [mine.value, other]);
  return { both, error: error ?? mine.error };
}

export function DifferenceView({ height, names: [base, now] }: { height: number; names: [string, string] }) {
  const shown = useShown();
  const { both, error } = useBoth();
  const [shares, setShares] = useState(false);
  const found = both?.figures.find(({ now: figure }) => figure.key === shown.figure) ?? both?.figures[0];
  const pair = useMemo((): Pair | undefined => {
    if (!found) return undefined;
    const [young, old] = [found.now.whole.value ?? 0, found.base.whole.value ?? 0];
    return { ...found, scale: shares && old > 0 ? young / old : 1 };
  }, [found, shares]);
  const inverted = shown.flame.split(",").includes("callers");
  const roots = useMemo(() => {
    if (!both || !pair) return [];
    const figures = [pair.now, pair.base];
    return inverted ? both.stacks.bottomUp(figures, EVERYTHING, "function") : both.stacks.topDown(figures, EVERYTHING);
  }, [both, pair?.now, pair?.base, inverted]);
  if (error) return <Failed error={error} />;
  if (!both) return <Waiting />;
  if (!pair) return <p class="empty">The two results have no figure by call stack in common.</p>;
  const unit = pair.now.whole.unit;
  const most = roots.reduce((sum, row) => Math.max(sum, Math.abs(differenceOf(pair, row.totals).value ?? 0)), 0);
  const inWords = (metric: Metric, signed: boolean) => {
    const ends = uncertainty(metric);
    return `${signed && (metric.value ?? 0) > 0 ? "+" : ""}${amount(metric.value ?? 0, unit)}${ends ? ` (${ends})` : ""}`;
  };
  const tools = (
    <>
      <label>Figure{" "}
        <select value={pair.now.key} onChange={(event) => update({ figure: event.currentTarget.value })}>
          {both.figures.map(({ now: figure }) => <option key={figure.key} value={figure.key}>{figure.label}</option>)}
        </select>
      </label>
      <label title="The base as if its whole were that of the new result: what changed in proportion"><input type="checkbox" checked={shares} onChange={(event) => setShares(event.currentTarget.checked)} /> In proportion</label>
    </>
  );
  const whole = ({ whole: { value, unit: of } }: Figure) => amount(value ?? 0, of);
  const more = (pair.now.whole.value ?? 0) - (pair.base.whole.value ?? 0);
  const notes = [
    `${pair.now.label}: ${whole(pair.base)} in ${base}, ${whole(pair.now)} in ${now}${shares ? "; the base is scaled to the new result, so that changes in proportion are left" : `, ${more > 0 ? "+" : ""}${amount(more, unit)}`}.`,
    "Intervals are of samples: they do not know how much runs differ from each other. Several runs of each side, in `fathom diff`, do.",
    ...both.stacks.doc.notes,
  ];
  if (shown.compare === "flame") {
    return (
      <FlameGraph roots={roots} stacks={both.stacks} height={height - 240} name="difference" tools={tools} fill={(row) => colourOf(differenceOf(pair, row.totals), most)}
        says={(row) => `${inWords(amountOf(pair.base, row.totals[1]!), false)} before, ${inWords(amountOf(pair.now, row.total), false)} now: ${inWords(differenceOf(pair, row.totals), true)}${isSure(differenceOf(pair, row.totals)) ? "" : ", which may be chance"}`}>
        <p class="legend"><span><i class="more" /> more than before</span> <span><i class="less" /> less</span> <span><i class="chance" /> may be chance</span></p>
        <Notes notes={["A frame is as wide as its new amount; what is gone is in the call tree.", ...notes]} />
      </FlameGraph>
    );
  }
  return <DifferenceTree both={both} pair={pair} roots={roots} height={height} tools={tools} notes={notes} inverted={inverted} />;
}

/** By what rows are sorted. */
type Order = "difference" | "now" | "base" | "name";

function DifferenceTree({ both, pair, roots, height, tools, notes, inverted }: { both: Both; pair: Pair; roots: TreeRow[]; height: number; tools: preact.ComponentChildren; notes: string[]; inverted: boolean }) {
  const shown = useShown();
  const [open, setOpen] = useState<Set<string>>(new Set());
  const [chosen, setChosen] = useState<string>();
  const [order, setOrder] = useState<Order>("difference");
  const value = (row: TreeRow) => Math.abs(differenceOf(pair, row.totals).value ?? 0);
  const orders: Record<Order, (a: TreeRow, b: TreeRow) => number> = {
    difference: (a, b) => value(b) - value(a), now: (a, b) => b.total - a.total, base: (a, b) => b.totals[1]! - a.totals[1]!, name: (a, b) => a.label.localeCompare(b.label),
  };
  // Until somebody opens a row, the way down to where most changed is open.
  const opened = useMemo(() => {
    if (open.size > 0) return open;
    const set = new Set<string>();
    for (let [rows, step] = [roots, 0]; rows.length > 0 && step < 40; step++) {
      const most = [...rows].sort(orders.difference)[0]!;
      if (rows !== roots && most.parent && value(most) < value(most.parent) * 0.5) break;
      set.add(most.id);
      rows = most.children();
    }
    return set;
  }, [open, roots, pair]);
  const rows = visible(roots, opened, shown.search, orders[order]);
  const at = rows.findIndex((row) => row.id === chosen);
  const row = rows[at];
  const baseOf = (row: TreeRow) => scaled(amountOf(pair.base, row.totals[1]!), pair.scale);
  const toggle = (row: TreeRow, wanted?: boolean) => {
    const set = new Set(opened);
    if (wanted ?? !set.has(row.id)) set.add(row.id);
    else set.delete(row.id);
    set.add("");
    setOpen(set);
  };
  const sorted = (key: Order) => ({ sort: () => setOrder(key), sorted: order === key ? (key === "name" ? "ascending" as const : "descending" as const) : undefined });
  const change = (row: TreeRow) => (row.totals[1]! > 0 ? `${row.total >= row.totals[1]! * pair.scale ? "+" : ""}${percent((row.total / (row.totals[1]! * pair.scale) - 1) * 100)}` : "new");
  const columns: GridColumn<TreeRow>[] = [
    { key: "name", label: inverted ? "Function / Call Stack" : "Call tree", width: "minmax(240px,4fr)", rank: 0, ...sorted("name"), cell: (row) => <Name row={row} open={opened.has(row.id)} toggle={() => toggle(row)} stacks={both.stacks} /> },
    { key: "base", label: "Base", width: "110px", number: true, rank: 3, ...sorted("base"), cell: (row) => <CellValue metric={baseOf(row)} /> },
    { key: "now", label: "New", width: "110px", number: true, rank: 2, ...sorted("now"), cell: (row) => <CellValue metric={amountOf(pair.now, row.total)} /> },
    { key: "difference", label: "Difference", width: "120px", number: true, rank: 1, ...sorted("difference"), cell: (row) => <Changed metric={differenceOf(pair, row.totals)} /> },
    { key: "change", label: "Change", width: "90px", number: true, rank: 4, cell: change },
    { key: "module", label: "Module", width: "minmax(80px,1.2fr)", rank: 5, cell: (row) => <span title={both.stacks.moduleOf(row.fn)}>{both.stacks.moduleOf(row.fn)}</span> },
    { key: "place", label: "Source", width: "minmax(90px,1.2fr)", rank: 6, cell: (row) => <Place row={row} stacks={both.stacks} /> },
  ];
  const toggleInverted = () => {
    const modes = new Set(shown.flame.split(",").filter(Boolean));
    if (!modes.delete("callers")) modes.add("callers");
    update({ flame: [...modes].join(",") });
  };
  const words = [["level", "Level"], ["name", "Name"], ["module", "Module"]].map(([key, label]) => ({ key: key!, label: label!, unit: null }));
  const amounts = [["base", "Base"], ["new", "New"], ["difference", "Difference"]].map(([key, label]) => ({ key: key!, label: `${pair.now.label}: ${label!}`, unit: pair.now.whole.unit }));
  const saved = async () => rows.map((row) => ({
    level: row.depth, name: row.label, module: both.stacks.moduleOf(row.fn),
    base: baseOf(row), new: amountOf(pair.now, row.total), difference: differenceOf(pair, row.totals),
  }));
  return (
    <>
      <div class="bar">
        {tools}
        <label><input type="checkbox" checked={inverted} onChange={toggleInverted} /> Inverted (callers)</label>
        <input type="search" placeholder="Find a function" aria-label="Find a function" value={shown.search} onInput={(event) => update({ search: event.currentTarget.value })} />
        <SaveAs name="difference" columns={[...words, ...amounts]} rows={saved} document={{ figure: pair.now.label }} />
      </div>
      <Grid role="treegrid" label="What changed" columns={columns} rows={rows} height={height - 240 - ROW} selected={at} onSelect={(row) => setChosen(row.id)}
        onKey={(event, row) => {
          if (event.key === "ArrowRight") toggle(row, true);
          else if (event.key === "ArrowLeft" && opened.has(row.id)) toggle(row, false);
          else if (event.key === "ArrowLeft" && row.parent) setChosen(row.parent.id);
          else return;
          event.preventDefault();
        }}
        rowProps={(row) => ({ "aria-level": row.depth + 1, "aria-expanded": opened.has(row.id) })} />
      <RowSays name={row?.label} figures={row ? [["base", baseOf(row)], ["new", amountOf(pair.now, row.total)], ["difference", differenceOf(pair, row.totals)]] : []} />
      <p class="quiet">{INTERVALS} Bold differences are more than samples may differ by chance.</p>
      <Notes notes={notes} />
    </>
  );
}

function scaled(metric: Metric, by: number): Metric {
  const of = (value: number | undefined) => (value === undefined ? undefined : value * by);
  return { ...metric, value: of(metric.value), low: of(metric.low), high: of(metric.high) };
}

function Changed({ metric }: { metric: Metric }) {
  return isSure(metric) ? <b class={(metric.value ?? 0) > 0 ? "worse" : "better"}><CellValue metric={metric} signed /></b> : <CellValue metric={metric} signed />;
}
