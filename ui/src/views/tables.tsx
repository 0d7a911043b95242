// Every view of the command line as a table: what has no drawing of its own is here.

import { useDoc, withFilters } from "../data";
import type { Embedded } from "../generated";
import { VIEWS } from "../generated";
import { Failed, NoThread, Prose, Waiting } from "../parts";
import { OF_STACKS, OF_THREADS, filtersOf, noThreadLeft, unfollowed, type Aspect } from "../selection";
import { update, useShown } from "../state";
import { DocTable } from "../table";
import type { Table } from "../types";
import { useStacks } from "./calls";
import { SharingMatrix } from "./spectra";

const TABLES: [Embedded, string][] = [
  ["hotspots?group=function&limit=400", "Hotspots by function"],
  ["hotspots?group=source-line&limit=400", "Hotspots by source line"],
  ["hotspots?group=module&limit=200", "Hotspots by module"],
  ["threads?limit=200", "Threads"],
  ["waits?limit=200", "Waits"],
  ["faults?limit=200", "Page faults"],
  ["kernel?limit=200", "Kernel entries"],
  ["allocations?group=function&limit=250", "Allocations by function"],
  ["allocations?group=call-stack&limit=100", "Allocations by call stack"],
  ["accesses?limit=300", "Traced accesses by instruction"],
  ["flushes?group=object,function&limit=100", "Flushes and fences by object and function"],
  ["bandwidth?group=module,function&limit=250", "Traffic by function"],
  ["bandwidth?group=source-line&limit=400", "Traffic by source line"],
  ["latency?group=module,function&limit=250", "Latency by function"],
  ["latency?group=source-line&limit=400", "Latency by source line"],
  ["reuse?limit=60", "Reuse of memory"],
  ["working-set", "Working set"],
  ["sharing?limit=100", "Lines shared by threads"],
  ["timeline?group=thread&limit=60", "Time per thread"],
  ["regions?limit=200", "Regions of the program"],
  ["bandwidth", "Bandwidth over time"],
  ["findings", "Findings"],
];

/** What views follow; others all that call stacks know. */
const FOLLOWS: Record<string, Aspect[]> = { accesses: [...OF_STACKS, "object"], findings: [], pace: [], regions: OF_THREADS, sharing: OF_THREADS, "working-set": OF_THREADS, kernel: OF_THREADS, waits: OF_THREADS };

export function TablesView({ height }: { height: number }) {
  const shown = useShown();
  const name = shown.table.split("?")[0] ?? "";
  const { stacks } = useStacks();
  const follows = FOLLOWS[name] ?? OF_STACKS;
  const question = withFilters(shown.table, filtersOf(shown, follows, stacks?.doc.threads));
  const left = unfollowed(shown, follows, "Figures of this table", true);
  const { value: table, error, waiting } = useDoc<Table>(question);
  const says = VIEWS.find(([view]) => view === name)?.[1];
  return (
    <>
      <div class="bar">
        <label>Table{" "}
          <select value={shown.table} onChange={(event) => update({ table: event.currentTarget.value })}>
            {TABLES.map(([key, label]) => <option key={key} value={key}>{label}</option>)}
          </select>
        </label>
        <span class="quiet">{says}</span>
      </div>
      {left && <p class="quiet"><Prose text={left} /></p>}
      {noThreadLeft(shown, stacks?.doc.threads) && follows.includes("thread") ? <NoThread /> : error ? <Failed error={error} /> : !table || waiting ? <Waiting /> : <DocTable key={question} table={table} height={height - 120} />}
      {name === "sharing" && <SharingMatrix />}
    </>
  );
}
