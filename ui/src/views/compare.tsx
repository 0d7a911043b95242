// 6 Compare: what changed between two results, as `fathom diff` tells it.

import { useDoc } from "../data";
import { Failed, Notes, Waiting } from "../parts";
import { DocTable } from "../table";
import type { Diff } from "../types";

/** The most important first: a narrow window has no room for the last. */
const COLUMNS = ["function", "base", "new", "difference", "change", "verdict", "module", "file", "line", "line_before", "p"];

export function CompareView({ height }: { height: number }) {
  const { value: diff, error } = useDoc<Diff>("diff");
  if (error) return <Failed error={error} />;
  if (!diff) return <Waiting />;
  return (
    <>
      <h2>{diff.base.join(", ")} against {diff.new.join(", ")}</h2>
      <Notes notes={diff.notes} />
      <h3>Whole runs</h3>
      <DocTable table={{ ...diff.totals, result: diff.base.join("-"), view: "diff" }} height={Math.max(200, height / 2 - 100)} label="Whole runs" />
      <h3>By function</h3>
      <DocTable table={{ ...diff.table, result: diff.base.join("-"), view: "diff" }} height={Math.max(200, height / 2 - 100)} label="By function" keys={COLUMNS} />
    </>
  );
}
