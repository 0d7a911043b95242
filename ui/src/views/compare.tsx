// 6 Compare: what changed between two results, as `fathom diff` tells it.

import { useDoc } from "../data";
import { Failed, Notes, Waiting } from "../parts";
import { DocTable } from "../table";
import { textOf, type Diff } from "../types";

/** The most important first: a narrow window has no room for the last. Figures have their units with them. */
const TOTALS = ["metric", "base", "new", "difference", "change", "verdict", "p"];
const COLUMNS = ["function", "base", "new", "difference", "change", "verdict", "module", "file", "line", "line_before", "p"];

/** A key of the summary in words: `page_faults.minor` is `page faults, minor`. */
function named(key: string): string {
  return key.replaceAll("_", " ").replaceAll(".", ", ").replace(/\bcpu\b/, "CPU").replace(/ percent\b/, "");
}

export function CompareView({ height }: { height: number }) {
  const { value: diff, error } = useDoc<Diff>("diff");
  if (error) return <Failed error={error} />;
  if (!diff) return <Waiting />;
  const rows = diff.totals.rows.map((row) => ({ ...row, metric: named(textOf(row.metric)) }));
  return (
    <>
      <h2>{diff.base.join(", ")} against {diff.new.join(", ")}</h2>
      <Notes notes={diff.notes} />
      <h3>Whole runs</h3>
      <DocTable table={{ ...diff.totals, rows, result: diff.base.join("-"), view: "diff" }} height={Math.max(200, height / 2 - 100)} label="Whole runs" keys={TOTALS} />
      <h3>By function</h3>
      <DocTable table={{ ...diff.table, result: diff.base.join("-"), view: "diff" }} height={Math.max(200, height / 2 - 100)} label="By function" keys={COLUMNS} />
    </>
  );
}
