// 6 Compare: what changed between two results, as `fathom diff` tells it.

import { useDoc } from "../data";
import { Failed, Notes, Waiting } from "../parts";
import { DocTable } from "../table";
import { update, useShown } from "../state";
import { textOf, type Diff } from "../types";
import { DifferenceView } from "./difference";

/** The most important first: a narrow window has no room for the last. Figures have their units with them. */
const TOTALS = ["metric", "difference", "base", "new", "change", "verdict", "p"];
const COLUMNS = ["function", "difference", "base", "new", "change", "verdict", "module", "file", "line", "line_before", "p"];

/** A key of the summary in words: `page_faults.minor` is `page faults, minor`. */
function named(key: string): string {
  return key.replaceAll("_", " ").replaceAll(".", ", ").replace(/\bcpu\b/, "CPU").replace(/ percent\b/, "");
}

/** What can be shown: the value in the address, and its name. */
const SHOWN: [string, string][] = [["", "Tables"], ["tree", "Call tree"], ["flame", "Flame graph"]];

export function CompareView({ height }: { height: number }) {
  const shown = useShown();
  const { value: diff, error } = useDoc<Diff>("diff");
  if (error) return <Failed error={error} />;
  if (!diff) return <Waiting />;
  return (
    <>
      <div class="bar">
        <h2>From {diff.base.join(", ")} to {diff.new.join(", ")}</h2>
        <span role="group" aria-label="Show">
          {SHOWN.map(([key, label]) => <button key={key} class="choice" aria-pressed={shown.compare === key} onClick={() => update({ compare: key })}>{label}</button>)}
        </span>
      </div>
      {shown.compare === "" ? <Tables diff={diff} height={height} /> : <DifferenceView height={height} names={[diff.base.join(", "), diff.new.join(", ")]} />}
    </>
  );
}

function Tables({ diff, height }: { diff: Diff; height: number }) {
  useShown();
  const rows = diff.totals.rows.map((row) => ({ ...row, metric: named(textOf(row.metric)) }));
  return (
    <>
      <Notes notes={diff.notes} />
      <h3>Whole runs</h3>
      <DocTable table={{ ...diff.totals, rows, result: diff.base.join("-"), view: "diff" }} height={Math.max(200, height / 2 - 100)} label="Whole runs" keys={TOTALS} />
      <h3>By function</h3>
      <DocTable table={{ ...diff.table, result: diff.base.join("-"), view: "diff" }} height={Math.max(200, height / 2 - 100)} label="By function" keys={COLUMNS} />
    </>
  );
}
