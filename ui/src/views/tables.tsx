// Every view of the command line as a table: what has no drawing of its own is here.

import { mode, useDoc, withFilters } from "../data";
import type { Embedded } from "../generated";
import { VIEWS } from "../generated";
import { Failed, Waiting } from "../parts";
import { filters, update, useShown } from "../state";
import { DocTable } from "../table";
import type { Table } from "../types";

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
  ["bandwidth?group=module,function&limit=250", "Traffic by function"],
  ["bandwidth?group=source-line&limit=400", "Traffic by source line"],
  ["latency?group=module,function&limit=250", "Latency by function"],
  ["latency?group=source-line&limit=400", "Latency by source line"],
  ["reuse?limit=60", "Reuse of memory"],
  ["working-set", "Working set"],
  ["sharing?limit=100", "Lines shared by threads"],
  ["timeline?group=thread&limit=60", "Time per thread"],
  ["bandwidth", "Bandwidth over time"],
  ["findings", "Findings"],
];

/** Views that take no filter, or not all. */
const FILTERED: Record<string, readonly string[]> = { accesses: ["object", "function", "module"], findings: [], "working-set": ["time"], kernel: ["thread", "time"], threads: ["thread", "time"], waits: ["thread", "time"], bandwidth: ["function", "module", "thread", "time"] };

export function TablesView({ height }: { height: number }) {
  const shown = useShown();
  const name = shown.table.split("?")[0] ?? "";
  const question = withFilters(shown.table, filters(shown, FILTERED[name]));
  const { value: table, error, waiting } = useDoc<Table>(question);
  const says = VIEWS.find(([view]) => view === name)?.[1];
  const unfiltered = mode() === "file" && filters(shown).length > 0;
  return (
    <>
      <div class="bar">
        <label>Table{" "}
          <select value={shown.table} onChange={(event) => update({ table: event.currentTarget.value })}>
            {TABLES.map(([key, label]) => <option key={key} value={key}>{label}</option>)}
          </select>
        </label>
        <span class="quiet">{says}</span>
        {shown.object !== undefined && !FILTERED[name]?.includes("object") && <span class="quiet">Not filtered by the object: it shows all of them.</span>}
        {unfiltered && <span class="quiet">Not filtered: this page carries this table of the whole run only; `fathom open` filters it.</span>}
      </div>
      {error ? <Failed error={error} /> : !table || waiting ? <Waiting /> : <DocTable key={question} table={table} height={height - 120} />}
    </>
  );
}
