// The units of tables and trees: chosen once for all of them, so that a column can be read down without converting.

import { fixedUnits } from "./format";
import { update, useShown } from "./state";

/** What a select offers: the unit's kind, and its names from large to small. */
const CHOICES: [kind: "s" | "bytes" | "count", label: string, names: string[]][] = [["s", "Times", ["s", "ms", "µs", "ns"]], ["bytes", "Sizes", ["GiB", "MiB", "KiB", "B"]], ["count", "Counts", ["G", "M", "k", "1"]]];

export function UnitChoice() {
  const { units } = useShown();
  const chosen = fixedUnits(units);
  const set = (kind: string, name: string) => update({ units: Object.entries({ ...chosen, [kind]: name }).filter(([, one]) => one).map(([key, one]) => `${key}:${one}`).join(",") });
  return (
    <details class="menu">
      <summary>Units</summary>
      <div class="menu-body" role="group" aria-label="Units">
        {CHOICES.map(([kind, label, names]) => (
          <label key={kind}>{label}{" "}
            <select value={chosen[kind] ?? ""} onChange={(event) => set(kind, event.currentTarget.value)}>
              <option value="">as suits each</option>
              {names.map((name) => <option key={name} value={name}>{name}</option>)}
            </select>
          </label>
        ))}
      </div>
    </details>
  );
}
