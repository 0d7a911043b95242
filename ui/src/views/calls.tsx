// 2 Bottom-up, top-down: trees of the call stacks for any figure, with the stack of the chosen row.

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { mode, useDoc, withFilters } from "../data";
import { amount, count, percent, seconds, shortName } from "../format";
import type { Embedded } from "../generated";
import { Grid, ROW, type GridColumn } from "../grid";
import { CellValue, Failed, FunctionLink, INTERVALS, Notes, Part, Value, Waiting } from "../parts";
import { orderOf, spine, visible, type Sorted } from "../rows";
import { UnitChoice } from "../units";
import { GROUPINGS, LEVELS, choiceOf, groupingName, interval, needsRegions, stacksOf, type Choice, type Stacks, type TreeRow } from "../stacks";
import { BY_OBJECT, SPREADS, divided, divisionOf, spreadOver } from "../spread";
import { OF_STACKS, filtersOf, followsAny, noThreadLeft, unfollowed, KINDS, type Kind, type Aspect } from "../selection";
import { choose, update, useShown } from "../state";
import { RowSays } from "../table";
import type { Column, Figure, Metric, Row, StacksDocument, Table } from "../types";
import { HeatChoice, PinChoice, SaveAs, heated, useBench } from "../workbench";

export function useStacks(): { stacks?: Stacks; error?: string; waiting: boolean } {
  const { value, error, waiting } = useDoc<StacksDocument>("stacks");
  return { stacks: value && stacksOf(value), error, waiting };
}

/** A table next to others: of what is chosen, as far as a server cuts it; nothing while that is awaited. */
export function useFollowing(question: Embedded, follows: readonly Aspect[] = OF_STACKS): Table | undefined {
  const shown = useShown();
  const { stacks } = useStacks();
  const { value, waiting } = useDoc<Table>(withFilters(question, filtersOf(shown, follows, stacks?.doc.threads)));
  return waiting ? undefined : value;
}

export interface Chosen {
  stacks?: Stacks;
  figure?: Figure;
  choice: Choice;
  error?: string;
  /** What of the selection the figure does not follow, and how it was made. */
  notes: string[];
  /** Whether it follows any of the selection. */
  follows: boolean;
}

/** Stacks, the figure that is shown or one by its key, and what of them is chosen. A server cuts times and threads exactly; until it has, and on
 * its own, the page does so by bins. `byRegion`: each cell is of one region. */
export function useChosen(figureKey?: string, byRegion = false): Chosen {
  const shown = { ...useShown(), ...(figureKey ? { figure: figureKey } : {}) };
  const { stacks: all, error } = useStacks();
  const divides = byRegion && (all?.doc.regions ?? []).length > 0;
  const threads = all?.doc.threads;
  const spread = SPREADS.find(({ key }) => key === shown.figure);
  const figure = all?.figure(shown.figure);
  // Only faults and blocks have an address, and with it an object.
  const addressed = !spread && figure !== undefined && figure.key !== "cpu_time";
  const cut: Aspect[] = ["time", "thread"];
  const object = filtersOf(shown, ["object"], threads);
  // Figures by object are of the whole run: they are spread over all of it, and then cut by bins.
  const cuts = spread && object.length > 0 ? [] : filtersOf(shown, addressed ? [...cut, "object"] : cut, threads);
  const [served, none] = [mode() === "server", noThreadLeft(shown, threads)];
  const asks = served && all !== undefined && cuts.length > 0 && !none;
  const exact = useDoc<StacksDocument>(asks || divides ? withFilters(divides ? "stacks?group=region" : "stacks", asks ? cuts : []) : null);
  const question = spread && (object.length > 0 ? withFilters(BY_OBJECT, object) : withFilters(spread.question, filtersOf(shown, cut, threads)));
  const table = useDoc<Table>(question ?? null);
  const done = (cuts.length > 0 || divides) && exact.value && !exact.waiting ? stacksOf(exact.value) : undefined;
  const isCut = done !== undefined && asks;
  // The page cannot cut regions: what is not cut yet would be figures of the whole run.
  const stacks = done ?? ((divides || (asks && shown.only.region)) && !exact.error ? undefined : all);
  const objects = shown.only.object;
  const made = useMemo(
    () => (spread && stacks && table.value && !table.waiting ? spreadOver(stacks, spread, table.value, objects) : undefined),
    [spread, stacks, table.value, table.waiting, objects],
  );
  const choice = useMemo(() => choiceOf(shown, isCut), [shown.from, shown.to, shown.only, shown.without, isCut]);
  const ofStacks: Aspect[] = asks || (served && none) ? [...OF_STACKS, "region"] : OF_STACKS;
  const follows: Aspect[] = spread || (addressed && served) ? [...ofStacks, "object"] : ofStacks;
  const says = unfollowed(shown, follows, `Figures of ${figure && !spread ? inSentence(figure.label) : spread?.label}`, false);
  const notes = says ? [says] : [];
  const chosen = { stacks, choice, error: error ?? exact.error ?? table.error, follows: followsAny(shown, follows, false) };
  if (spread) return { ...chosen, figure: made, notes: [...notes, ...(made ? spreadNotes(made) : table.waiting ? [] : [`${spread.label}: nothing of it was measured here.`, ...(table.value?.notes ?? [])])] };
  return { ...chosen, figure: done?.doc.figures.find((one) => one.key === shown.figure) ?? (done && addressed ? undefined : stacks?.figure(shown.figure)), notes };
}

/** Figures that stand next to the one that is shown, cut by bins where time is chosen. */
function useFurther(stacks: Stacks | undefined, first: Figure | undefined): Figure[] {
  const shown = useShown();
  const keys = shown.further.split(",").filter((key) => key !== "" && key !== first?.key);
  const filters = filtersOf(shown, ["time", "thread"], stacks?.doc.threads);
  const wanted = SPREADS.filter(({ key }) => keys.includes(key));
  const ask = (view: string) => {
    const question = wanted.find((one) => one.question.startsWith(view))?.question;
    return question === undefined ? null : withFilters(question, filters);
  };
  const [traffic, latency] = [useDoc<Table>(ask("bandwidth")), useDoc<Table>(ask("latency"))];
  return useMemo(() => keys.flatMap((key) => {
    if (!stacks) return [];
    const spread = wanted.find((one) => one.key === key);
    if (!spread) return stacks.doc.figures.filter((figure) => figure.key === key);
    const { value, waiting } = spread.question.startsWith("latency") ? latency : traffic;
    const made = value && !waiting ? spreadOver(stacks, spread, value, undefined) : undefined;
    return made ? [made] : [];
  }), [stacks, shown.further, first?.key, traffic.value, traffic.waiting, latency.value, latency.waiting]);
}

/** Which other figures stand next to the first. */
function FurtherChoice({ stacks, first }: { stacks: Stacks; first: Figure | undefined }) {
  const shown = useShown();
  const chosen = shown.further.split(",").filter(Boolean);
  const sampled = stacks.doc.figures.map(({ key, label }): [string, string] => [key, label]);
  const spread = stacks.doc.figures.some(({ key }) => key === "cpu_time") ? SPREADS.map(({ key, label }): [string, string] => [key, `${label} (estimated)`]) : [];
  const toggle = (key: string) => update({ further: (chosen.includes(key) ? chosen.filter((one) => one !== key) : [...chosen, key]).join(",") });
  return (
    <details class="menu">
      <summary>Columns</summary>
      <div class="menu-body" role="group" aria-label="Columns">
        {[...sampled, ...spread].map(([key, label]) => <label key={key}><input type="checkbox" disabled={key === first?.key} checked={key === first?.key || chosen.includes(key)} onChange={() => toggle(key)} /> {label}</label>)}
      </div>
    </details>
  );
}

/** The figures divided by memory object or type, where the grouping has such a level. */
function useDivided(stacks: Stacks | undefined, figures: Figure[], levels: string[]): { figures: Figure[]; notes: string[] } {
  const shown = useShown();
  const question = divisionOf(levels);
  const { value, error, waiting } = useDoc<Table>(question ? withFilters(question, filtersOf(shown, ["time", "thread"], stacks?.doc.threads)) : null);
  return useMemo(() => {
    if (!question || !stacks) return { figures, notes: [] };
    if (!value || waiting) return { figures, notes: error ? [error] : [] };
    const says = "Objects and types: estimated. A function's amount is divided among the memory that it uses as bursts found it, for each of its call stacks alike.";
    return { figures: figures.map((figure) => divided(stacks, figure, value)), notes: [says] };
  }, [question, stacks, value, error, waiting, ...figures]);
}

function spreadNotes(figure: Figure): string[] {
  const { left_out: left, whole: { value = 0, unit } } = figure;
  const missing = left > value / 1000 ? [`${amount(left, unit)}, ${percent((left / value) * 100)}, is in functions without samples, and left out here.`] : [];
  return [`${figure.label}: estimated. What bursts found by function is divided among its call stacks, and over time, as its CPU time is: bursts record addresses, not who called.`, ...missing];
}

export function FigureChoice({ stacks }: { stacks?: Stacks }) {
  const shown = useShown();
  const sampled = stacks?.doc.figures ?? [];
  return (
    <label>
      Figure{" "}
      <select value={shown.figure} onChange={(event) => update({ figure: event.currentTarget.value })}>
        {sampled.map((figure) => <option key={figure.key} value={figure.key}>{figure.label}</option>)}
        {sampled.some((figure) => figure.key === "cpu_time") && SPREADS.map(({ key, label }) => <option key={key} value={key}>{label} (estimated)</option>)}
      </select>
    </label>
  );
}

export function CallsView({ direction, height }: { direction: "bottom-up" | "top-down"; height: number }) {
  const shown = useShown();
  const levels = direction === "bottom-up" ? shown.group.split(",") : [];
  const { stacks, figure, choice, error, notes } = useChosen(undefined, needsRegions(levels));
  const further = useFurther(stacks, figure);
  const [bench, change] = useBench(CALLS);
  const all = useMemo(() => (figure ? [figure, ...further] : []), [figure, further]);
  const { figures, notes: ofDivision } = useDivided(stacks, all, levels);
  if (error) return <Failed error={error} />;
  if (!stacks) return <Waiting />;
  const ofAll = further.length > 0 && (shown.only.object || shown.without.object) ? ["The further columns do not follow the memory objects that are chosen."] : [];
  const ofRegions = needsRegions(levels) ? ["Regions: of each sample the innermost that its thread was in. Time between passes that follow each other too fast to be distinguished counts as in the region."] : [];
  const said = [...notes, ...ofRegions, ...ofDivision, ...ofAll, ...further.filter((one) => SPREADS.some(({ key }) => key === one.key)).flatMap(spreadNotes)];
  return (
    <>
      <div class="bar">
        <FigureChoice stacks={stacks} />
        <FurtherChoice stacks={stacks} first={figure} />
        {direction === "bottom-up" && <Grouping marked={(stacks.doc.regions ?? []).length > 0} />}
        <HeatChoice bench={bench} change={change} />
        <UnitChoice />
        <input type="search" placeholder="Find a function" aria-label="Find a function" value={shown.search} onInput={(event) => update({ search: event.currentTarget.value })} />
      </div>
      <Notes notes={said} />
      {figures[0] ? <Tree stacks={stacks} choice={choice} figures={figures} direction={direction} height={height - 22 * said.length} />
        : <p class="empty">{notes.length > 0 ? "Nothing to show." : "No samples, faults or allocations in this selection."}</p>}
    </>
  );
}

/** A grouping by its name, and its levels one by one; of regions where the program marks some. */
function Grouping({ marked }: { marked: boolean }) {
  const { group } = useShown();
  const levels = group.split(",");
  const set = (next: string[]) => update({ group: next.join(",") });
  const all = GROUPINGS.includes(group) ? GROUPINGS : [group, ...GROUPINGS];
  return (
    <>
      <label>
        Grouping{" "}
        <select value={group} onChange={(event) => set([event.currentTarget.value])}>
          {all.map((one) => <option key={one} value={one}>{groupingName(one)}</option>)}
        </select>
      </label>
      <select aria-label="Add a level" value="" onChange={(event) => event.currentTarget.value && set([...levels, event.currentTarget.value])}>
        <option value="">+ level</option>
        {LEVELS.filter(([key]) => !levels.includes(key) && (marked || !needsRegions([key]))).map(([key, label]) => <option key={key} value={key}>{label}</option>)}
      </select>
      {levels.length > 1 && <button onClick={() => set(levels.slice(0, -1))}>- level</button>}
      {levels.length > 1 && <button title="The first level last" onClick={() => set([...levels.slice(1), levels[0]!])}>Turn</button>}
    </>
  );
}

interface TreeProps {
  stacks: Stacks;
  choice: Choice;
  /** The first decides the order, until another column is chosen. */
  figures: Figure[];
  direction: Direction;
  height: number;
  /** Made already: the other part of a view with two trees. */
  made?: TreeRow[];
}

/** The own amount of the first figure, or the total of a figure by its number. */
type HeatColumn = "self" | number;
/** A cell of a tree in the colour of how near its amount is to the largest that is shown of its column. */
type Heat = (column: HeatColumn, row: TreeRow, cell: ComponentChildren) => ComponentChildren;

/** What is chosen for trees, as for a view of tables. */
const CALLS = "calls";

/** Callers and callees have no pane of their own: two of them stand side by side. */
type Direction = "bottom-up" | "top-down" | "callers" | "callees";

function Tree({ stacks, choice, figures, direction, height, made }: TreeProps) {
  const shown = useShown();
  const [sorted, setSorted] = useState<Sorted>({ by: "total", number: 0 });
  const [bench] = useBench(CALLS);
  const figure = figures[0]!;
  const alone = made === undefined;
  const search = alone ? shown.search : "";
  const [open, setOpen] = useState<Set<string>>(new Set());
  const [chosen, setChosen] = useState<string>();
  const [pinned, setPinned] = useState<Set<string>>(new Set());
  const roots = useMemo(
    () => made ?? (direction === "bottom-up" ? stacks.bottomUp(figures, choice, shown.group) : stacks.topDown(figures, choice)),
    [stacks, figures, direction, shown.group, choice.key, made],
  );
  const opened = useMemo(() => {
    const set = new Set(open);
    if (open.size === 0 && direction === "top-down" && roots[0]) spine(roots[0], set);
    if (open.size === 0 && !alone) roots.forEach((one) => set.add(one.id));
    return set;
  }, [open, roots, direction]);
  const rows = visible(roots, opened, search, orderOf("number" in sorted && sorted.number >= figures.length ? { by: "total", number: 0 } : sorted), pinned);
  const at = rows.findIndex((row) => row.id === chosen);
  const row = rows[at];
  const taken = roots.reduce((sum, one) => sum + one.total, 0);
  const whole = figure.whole.value || taken || 1;

  const toggle = (one: TreeRow, wanted?: boolean) => {
    const set = new Set(opened);
    if (wanted ?? !set.has(one.id)) set.add(one.id);
    else set.delete(one.id);
    // Something must stay open, or the usual way down opens again.
    set.add("");
    setOpen(set);
  };
  const pin = ({ id }: TreeRow) => {
    const next = new Set(pinned);
    if (!next.delete(id)) next.add(id);
    setPinned(next);
  };
  const onKey = (event: KeyboardEvent, one: TreeRow) => {
    if (event.key === "ArrowRight") toggle(one, true);
    else if (event.key === "ArrowLeft") {
      if (opened.has(one.id)) toggle(one, false);
      else if (one.parent) setChosen(one.parent.id);
    } else if (event.key === "f" && one.fn >= 0) choose("function", one.label, "only");
    else if (event.key === "x" && one.fn >= 0) choose("function", one.label, "without");
    else if (event.key === "p" && alone) pin(one);
    else return;
    event.preventDefault();
  };
  const sort = (next: Sorted) => ({ sort: () => setSorted(next), sorted: JSON.stringify(sorted) === JSON.stringify(next) ? (next.by === "name" ? "ascending" as const : "descending" as const) : undefined });
  const amountIn = (column: HeatColumn, of: TreeRow) => (column === "self" ? of.self : of.totals[column]!);
  const largest = (column: HeatColumn) => rows.reduce((most, one) => Math.max(most, amountIn(column, one)), 0);
  const most = bench.heat ? new Map((["self", ...figures.keys()] as HeatColumn[]).map((column) => [column, largest(column)])) : undefined;
  const hot: Heat = (column, of, cell) => (most ? heated(amountIn(column, of) / most.get(column)!, cell) : cell);
  const columns: GridColumn<TreeRow>[] = [
    { key: "name", label: direction === "bottom-up" ? groupingName(shown.group) : LABELS[direction], width: "minmax(240px,4fr)", rank: 0, ...sort({ by: "name" }), cell: (one) => <Name row={one} open={opened.has(one.id)} toggle={() => toggle(one)} stacks={stacks} /> },
    ...amounts(figure, direction === "top-down" || direction === "callees", whole, hot, sort),
    ...figures.slice(1).map((one, at): GridColumn<TreeRow> => ({
      key: `further ${one.key}`, label: one.label, number: true, width: "108px", rank: 2, ...sort({ by: "total", number: at + 1 }),
      cell: (row) => (row.totals[at + 1]! > 0 ? hot(at + 1, row, <Amount figure={one} value={row.totals[at + 1]!} />) : ""),
    })),
    { key: "module", label: "Module", width: "minmax(80px,1.2fr)", rank: 5, cell: (one) => <span title={one.fn >= 0 ? stacks.moduleOf(one.fn) : ""}>{one.fn >= 0 ? stacks.moduleOf(one.fn) : ""}</span> },
    { key: "place", label: "Source", width: "minmax(90px,1.2fr)", rank: 6, cell: (one) => <Place row={one} stacks={stacks} /> },
  ];
  if (!alone) {
    const own: [string, Metric][] = row && direction === "callees" && row.self > 0 ? [["self", amountOf(figure, row.self)]] : [];
    return (
      <>
        <Grid role="treegrid" label={LABELS[direction]} columns={columns} rows={rows} height={height - ROW} selected={at} onSelect={(one) => setChosen(one.id)}
          onOpen={(one) => one.fn >= 0 && around(stacks, one.fn)} onKey={onKey} rowProps={(one) => ({ "aria-level": one.depth + 1, "aria-expanded": opened.has(one.id) })} />
        <RowSays name={row?.label} figures={row ? [[inSentence(figure.label), amountOf(figure, row.total)], ["share", shareOf(figure, row.total, whole)], ...own] : []} />
      </>
    );
  }
  return (
    <div class="split">
      <div class="main">
        <Grid role="treegrid" label={direction} columns={columns} rows={rows} height={height - 105} selected={at}
          onSelect={(one) => setChosen(one.id)} onOpen={(one) => openSource(one, stacks)} onKey={onKey}
          rowProps={(one) => ({ "aria-level": one.depth + 1, "aria-expanded": opened.has(one.id), class: `row${one === row ? " selected" : ""}${pinned.has(one.id) ? " pinned" : ""}` })} />
        {row && <PinChoice pinned={pinned.has(row.id)} pin={() => pin(row)} />}
        <p class="quiet">
          <Taken figure={figure} taken={taken} choice={choice} />
          {" "}{INTERVALS} Keys: arrows, Enter for the source, f to filter by the function, x to leave it out, p to pin the row.
        </p>
        <SaveAs name="calls" columns={columnsOfTree(figures)} rows={async () => rowsOfTree(rows, stacks, figures)} document={{ view: direction }} />
        <Notes notes={stacks.doc.notes} />
      </div>
      <StackPane row={row} stacks={stacks} figure={figure} direction={direction} whole={whole} />
    </div>
  );
}

/** How much is chosen. The number itself is there too: a test compares it with the report's. */
export function Taken({ figure, taken, choice }: { figure: Figure; taken: number; choice: Choice }) {
  // How many observations are in a part is not known, only their sum.
  const cut = choice.from !== undefined || [choice.only, choice.without].some((names) => KINDS.some((kind) => names[kind]));
  return (
    <>
      <data class="taken" value={String(taken)}>{amount(taken, figure.whole.unit)}</data> of {inSentence(figure.label)} chosen, {percent(taken / (figure.whole.value || taken || 1) * 100)} of
      the whole run{cut ? "" : `, ${count(figure.records)} ${figure.records === 1 ? "observation" : "observations"}`}{choice.from === undefined ? "" : `; the time is cut in steps of ${seconds(figure.bin_seconds)}`}. Shares are of the whole run, in all views.
    </>
  );
}

/** Of the whole run, as in the tables. */
export function shareOf(figure: Figure, value: number, whole: number): Metric {
  const { low, high, evidence } = amountOf(figure, value);
  const part = (end: number | undefined) => (end === undefined ? undefined : Math.min(1, end / whole) * 100);
  return { value: (value / whole) * 100, unit: "percent", low: part(low), high: part(high), evidence, samples: 0 };
}

const LABELS: Record<Direction, string> = { "bottom-up": "Function", "top-down": "Call tree", callers: "Callers", callees: "Callees" };

/** Shows the callers and callees of a function: its name and, as several may have it, its module. */
function around(stacks: Stacks, fn: number): void {
  update({ view: "around", code: stacks.functionName(fn), search: "" });
}

/** Who calls a function and what it calls, side by side; a double click goes on to the next function. */
export function AroundView({ height }: { height: number }) {
  const shown = useShown();
  const { stacks, figure, choice, error, notes } = useChosen();
  const functions = useMemo(() => {
    if (!stacks || !figure) return [];
    const totals = new Map<number, number>();
    stacks.bottomUp([figure], choice, "function").forEach((row) => totals.set(row.fn, row.total));
    return stacks.doc.functions.name.map((name, fn) => ({ name, fn, module: stacks.moduleOf(fn), own: totals.get(fn) ?? 0 })).sort((a, b) => b.own - a.own);
  }, [stacks, figure, choice.key]);
  const one = functions.find(({ name }) => name === shown.code) ?? functions[0];
  const made = useMemo(() => (stacks && figure && one ? stacks.around(figure, choice, one.fn) : undefined), [stacks, figure, choice.key, one?.fn]);
  if (error) return <Failed error={error} />;
  if (!stacks) return <Waiting />;
  if (!figure || !made || !one) return <p class="empty">No samples, faults or allocations in this selection.</p>;
  const total = made.callees[0]?.total ?? 0;
  return (
    <>
      <div class="bar">
        <FigureChoice stacks={stacks} />
        <label>Function{" "}
          <select value={String(one.fn)} onChange={(event) => around(stacks, Number(event.currentTarget.value))}>
            {functions.slice(0, MOST_FUNCTIONS).map(({ name, fn, module }) => <option key={fn} value={String(fn)}>{shortName(name)} ({module})</option>)}
            {functions.indexOf(one) >= MOST_FUNCTIONS && <option value={String(one.fn)}>{shortName(one.name)} ({one.module})</option>}
          </select>
        </label>
      </div>
      <Notes notes={notes} />
      <p>
        <FunctionLink name={one.name} file={stacks.fileOf(one.fn)} /> <span class="quiet">{one.module}</span>: total <Value metric={amountOf(figure, total)} />, self{" "}
        <Value metric={amountOf(figure, one.own)} badge={false} />. <span class="quiet"><Taken figure={figure} taken={functions.reduce((sum, { own }) => sum + own, 0)} choice={choice} /> Double click or Enter: the callers and callees of that function. {INTERVALS}</span>
      </p>
      <div class="two">
        <div><Tree key={`callers ${one.fn}`} stacks={stacks} choice={choice} figures={[figure]} direction="callers" height={height - 150} made={made.callers} /></div>
        <div><Tree key={`callees ${one.fn}`} stacks={stacks} choice={choice} figures={[figure]} direction="callees" height={height - 150} made={made.callees} /></div>
      </div>
    </>
  );
}

/** Functions in the list: thousands would take long to lay out. */
const MOST_FUNCTIONS = 300;

/** Top-down a row has what is in it and below, and its own; bottom-up a function has its own, and callers their part of it. */
function amounts(figure: Figure, down: boolean, whole: number, hot: Heat, sort: (by: Sorted) => Partial<GridColumn<TreeRow>>): GridColumn<TreeRow>[] {
  const ends = (value: number): [number, number] | undefined => {
    const { low, high } = shareOf(figure, value, whole);
    return low === undefined || high === undefined ? undefined : [low / 100, high / 100];
  };
  const column = (rank: number, key: string, label: string, width: string, cell: (row: TreeRow) => ComponentChildren, by?: Sorted): GridColumn<TreeRow> => ({ rank, key, label, number: true, width, cell, ...(by ? sort(by) : {}) });
  const found = [
    column(1, "total", down ? `Total, ${inSentence(figure.label)}` : figure.label, "130px", (one) => (one.total > 0 ? hot(0, one, <Amount figure={figure} value={one.total} />) : ""), { by: "total", number: 0 }),
    column(3, "share", down ? "Total" : "Share", "120px", (one) => (one.total > 0 ? <ShareOf value={one.total / whole} ends={ends(one.total)} /> : "")),
  ];
  if (down) found.push(column(4, "self", "Self", "110px", (one) => (one.self > 0 ? hot("self", one, <Amount figure={figure} value={one.self} />) : ""), { by: "self", number: 0 }));
  return found;
}

/** `Page faults` as `page faults`, `CPU time` as it is. */
function inSentence(label: string): string {
  return /^[A-Z][a-z]/.test(label) ? label[0]!.toLowerCase() + label.slice(1) : label;
}

function openSource(row: TreeRow, stacks: Stacks): void {
  const file = row.fn >= 0 ? stacks.fileOf(row.fn) : undefined;
  if (file) update({ view: "source", file, line: row.line || undefined });
}

export function Name({ row, open, toggle, stacks }: { row: TreeRow; open: boolean; toggle: () => void; stacks: Stacks }) {
  const more = row.children().length > 0;
  return (
    <span class="name" style={{ paddingLeft: `min(${row.depth * 14}px, 45%)` }}>
      {more ? <button class="twist" tabIndex={-1} aria-label={open ? "close" : "open"} onClick={(event) => { event.stopPropagation(); toggle(); }}>{open ? "▾" : "▸"}</button> : <span class="twist" />}
      {row.kind === "function" ? <FunctionLink name={row.label} file={stacks.fileOf(row.fn)} line={row.line} /> : <b title={row.label}>{row.label}</b>}
      {row.inlined && <span class="quiet">inlined</span>}
    </span>
  );
}

export function Place({ row, stacks }: { row: TreeRow; stacks: Stacks }) {
  const file = row.fn >= 0 ? stacks.fileOf(row.fn) : undefined;
  if (!file) return <></>;
  const line = row.line ? `:${row.line}` : "";
  return <span class="quiet" title={file + line}>{file.split("/").pop()}{line}</span>;
}

/** An amount of a sampled figure as a figure of its own. */
export function amountOf(figure: Figure, value: number): Metric {
  const { unit, evidence } = figure.whole;
  const ends = interval(figure, value);
  return { value, unit, low: ends?.[0], high: ends?.[1], evidence: evidence === "counted" && ends ? "sampled" : evidence, samples: 0 };
}

export function Amount({ figure, value }: { figure: Figure; value: number }) {
  return <CellValue metric={amountOf(figure, value)} />;
}

function ShareOf({ value, ends }: { value: number; ends: [number, number] | undefined }) {
  return (
    <span class="share">
      <Part share={value} low={ends?.[0] ?? value} high={ends?.[1] ?? value} />
      <output>{percent(value * 100)}</output>
    </span>
  );
}

function StackPane({ row, stacks, figure, direction, whole }: { row: TreeRow | undefined; stacks: Stacks; figure: Figure; direction: string; whole: number }) {
  if (!row) return <aside class="pane" aria-label="Call stack"><h2>Call stack</h2><p class="quiet">Choose a row.</p></aside>;
  const path: TreeRow[] = [];
  for (let at: TreeRow | undefined = row; at; at = at.parent) path.push(at);
  // Outermost last, as in a debugger; bottom-up rows go on to their heaviest caller.
  if (direction === "bottom-up") {
    path.reverse();
    for (let next = row.children()[0]; next && path.length < 100; next = next.children()[0]) path.push(next);
  }
  return (
    <aside class="pane" aria-label="Call stack">
      <h2>Call stack</h2>
      <p><Value metric={amountOf(figure, row.total)} />, <Value metric={shareOf(figure, row.total, whole)} badge={false} /></p>
      <ol class="stack">
        {path.filter((one) => one.kind === "function").map((one) => (
          <li key={one.id} class={one === row ? "here" : ""}>
            <FunctionLink name={one.label} file={stacks.fileOf(one.fn)} line={one.line} /> <span class="quiet">{stacks.moduleOf(one.fn)}</span>
          </li>
        ))}
      </ol>
      {row.fn >= 0 && <button onClick={() => around(stacks, row.fn)}>Callers and callees</button>}
      <Choices row={row} stacks={stacks} />
    </aside>
  );
}

/** Takes the function, module, thread, process or region of a row in, or leaves it out. */
function Choices({ row, stacks }: { row: TreeRow; stacks: Stacks }) {
  const names: [Kind, string][] = row.fn >= 0 ? [["function", row.label], ["module", stacks.moduleOf(row.fn)]]
    : row.kind === "module" || row.kind === "thread" || row.kind === "process" ? [[row.kind, row.label]]
    : row.kind === "region" && stacks.doc.regions?.some(({ name }) => name === row.label) ? [["region", row.label]] : [];
  return (
    <>
      {names.map(([kind, name]) => (
        <p class="choices" key={kind}>
          <span class="quiet">This {kind}:</span>{" "}
          <button onClick={() => choose(kind, name, "only")}>Filter by this {kind}</button>{" "}
          <button onClick={() => choose(kind, name, "also")}>Add</button>{" "}
          {kind !== "region" && <button onClick={() => choose(kind, name, "without")}>Leave out</button>}
        </p>
      ))}
    </>
  );
}

/** A tree as a table: the rows that are open, each with its level. */
function columnsOfTree(figures: Figure[]): Column[] {
  const text = (key: string, label: string): Column => ({ key, label, unit: null });
  const amounts = figures.flatMap(({ key, label, whole: { unit } }, at) => [{ key, label, unit }, ...(at === 0 ? [{ key: `${key}_self`, label: `${label}, self`, unit }] : [])]);
  return [text("level", "Level"), text("name", "Name"), text("module", "Module"), text("file", "File"), text("line", "Line"), ...amounts];
}

function rowsOfTree(rows: TreeRow[], stacks: Stacks, figures: Figure[]): Row[] {
  return rows.map((row) => ({
    level: row.depth, name: row.label, module: row.fn >= 0 ? stacks.moduleOf(row.fn) : null, file: row.fn >= 0 ? stacks.fileOf(row.fn) ?? null : null, line: row.line || null,
    ...Object.fromEntries(figures.map((figure, at) => [figure.key, amountOf(figure, row.totals[at]!)])), [`${figures[0]!.key}_self`]: amountOf(figures[0]!, row.self),
  }));
}
