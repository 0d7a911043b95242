// 3 Spectra of a function's accesses: from one address to the next of an instruction (strides), and how much other memory comes
// between two uses of a line (reuse). And which threads take lines from each other. What not: figures that no table has.

import { bytes, counted, percent, shortName } from "../format";
import { Notes, Value } from "../parts";
import { Bars, type Bar } from "../plot";
import { OF_THREADS } from "../selection";
import { isMetric, textOf, valueOf, type Row } from "../types";
import { useFollowing } from "./calls";

/** Bars of a spectrum; the smaller ones are one bar. */
const MOST_BARS = 8;

/** Shares of the accesses of a function by the stride of their instruction, which most accesses of it have. */
export function Strides({ name }: { name: string }) {
  const table = useFollowing("accesses?limit=300");
  const rows = (table?.rows ?? []).filter((row) => row.function === name && textOf(row.stride) !== "");
  const all = rows.reduce((sum, row) => sum + (valueOf(row.access_percent) ?? 0), 0);
  if (all <= 0) return null;
  const sums = new Map<string, { share: number; low: number; high: number; instructions: number }>();
  for (const row of rows) {
    const stride = textOf(row.stride);
    const { share, low, high, instructions } = sums.get(stride) ?? { share: 0, low: 0, high: 0, instructions: 0 };
    const { value = 0, low: least = value, high: most = value } = isMetric(row.access_percent) ? row.access_percent : {};
    sums.set(stride, { share: share + value, low: low + least, high: high + most, instructions: instructions + 1 });
  }
  // Of the function's accesses: what the others have at most and at least is the rest.
  const [least, most] = [...sums.values()].reduce(([low, high], one) => [low + one.low, high + one.high], [0, 0]);
  const part = (own: number, others: number) => (own > 0 ? (own / (own + Math.max(0, others))) * 100 : 0);
  const sorted = [...sums].sort((a, b) => b[1].share - a[1].share);
  const bars: Bar[] = sorted.slice(0, MOST_BARS).map(([stride, { share, low, high, instructions }]) => ({
    label: /^[+-]\d+$/.test(stride) ? `${stride} B` : stride,
    value: (share / all) * 100,
    low: part(low, most - high),
    high: part(high, least - low),
    title: `${percent((share / all) * 100)}, ${counted(instructions, "instruction")}`,
  }));
  const rest = sorted.slice(MOST_BARS).reduce((sum, [, one]) => sum + one.share, 0);
  if (rest > 0) bars.push({ label: "others", value: (rest / all) * 100, title: `${percent((rest / all) * 100)}, ${counted(sorted.length - MOST_BARS, "stride")}` });
  return (
    <>
      <h3>Strides in {shortName(name)}</h3>
      <Bars name="strides" bars={bars} label="Share of its traced accesses" unit="percent" height={120} />
      <p class="legend">An instruction counts with the stride that most of its accesses have.</p>
    </>
  );
}

const SIZES = /^miss_(\d+)([km])$/;

/** What came between two uses of a line: the differences of the miss ratio from one size of cache to the next. */
export function Reuse({ name }: { name: string }) {
  const table = useFollowing("reuse?limit=60");
  const row = table?.rows.find((one) => one.function === name);
  if (!table || !row) return null;
  const points = table.columns.flatMap(({ key }) => {
    const size = SIZES.exec(key);
    const cell = row[key];
    if (!size || !isMetric(cell) || cell.value === undefined) return [];
    return [{ size: Number(size[1]) * (size[2] === "k" ? 1024 : 1 << 20), miss: cell.value, low: cell.low ?? cell.value, high: cell.high ?? cell.value }];
  });
  if (points.length < 2) return null;
  const last = points.at(-1)!;
  const all = { miss: 100, low: 100, high: 100 };
  const bars = points.map((point, at) => {
    const before = points[at - 1] ?? all;
    // Between the ends that are furthest apart: how two of them vary together is not known.
    return { label: bytes(point.size), value: Math.max(0, before.miss - point.miss), low: Math.max(0, before.low - point.high), high: before.high - point.low };
  });
  return (
    <>
      <h3>Reuse in {shortName(name)}</h3>
      <Bars name="reuse" bars={[...bars, { label: `>${bytes(last.size)}`, value: last.miss, low: last.low, high: last.high }]} label="Share of its accesses" unit="percent" height={120} />
      <p class="legend">By the smallest cache that still has the line since its last use; at the right: none of these, or the first use.</p>
    </>
  );
}

/** `4712` of `worker (4712)`. */
const numberOf = (thread: string): string => /\((\d+)\)$/.exec(thread)?.[1] ?? thread;

/** Lines that two threads use, and how often these can move between cores in a burst; of one object, or of all. */
export function SharingMatrix({ object }: { object?: string }) {
  const table = useFollowing("sharing?limit=100", OF_THREADS);
  // Of accesses that the hardware sampled, lines have no such rows.
  const rows = (table?.rows ?? []).filter((row) => (object === undefined || row.object === object) && textOf(row.thread) !== "");
  const lines = new Map<string, Row[]>();
  for (const row of rows) {
    const line = textOf(row.line_address);
    lines.set(line, [...(lines.get(line) ?? []), row]);
  }
  const threads = [...new Set(rows.map((row) => textOf(row.thread)))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  if (!table || threads.length < 2 || threads.length > 24) return null;
  const cell = (one: string, other: string) => {
    let [shared, falsely] = [0, 0];
    const conflicts = { value: 0, low: 0, high: 0, unit: "count", samples: 0, evidence: "traced" as const };
    for (const users of lines.values()) {
      const of = (thread: string) => users.find((row) => row.thread === thread);
      const [row, second] = [of(one), of(other)];
      if (!row || !second) continue;
      shared += 1;
      falsely += textOf(row.sharing).startsWith("false") ? 1 : 0;
      const { value = 0, low = value, high = value, samples = 0 } = isMetric(row.conflicts_per_burst) ? row.conflicts_per_burst : {};
      conflicts.value += value;
      conflicts.low += low;
      conflicts.high += high;
      conflicts.samples += samples;
    }
    return { shared, falsely, conflicts };
  };
  const cells = threads.map((one) => threads.map((other) => (one === other ? undefined : cell(one, other))));
  const most = Math.max(...cells.flat().map((one) => one?.conflicts.value ?? 0), 1e-30);
  const heat = (part: number): number => (part > 0.6 ? 4 : part > 0.3 ? 3 : part > 0.1 ? 2 : part > 0 ? 1 : 0);
  return (
    <>
      <h3>Lines shared between threads</h3>
      <div class="scrolls" tabindex={0} role="region" aria-label="Lines shared between threads">
        <table class="matrix">
          <thead><tr><td />{threads.map((thread) => <th key={thread} scope="col" title={thread}>{numberOf(thread)}</th>)}</tr></thead>
          <tbody>
            {threads.map((one, at) => (
              <tr key={one}>
                <th scope="row">{one}</th>
                {cells[at]!.map((found, other) => found === undefined ? <td key={other} class="quiet">-</td> : (
                  <td key={other} class={`number heat${heat(found.conflicts.value / most)}`}>
                    {found.shared > 0 && <>{counted(found.shared, "line")}{found.falsely > 0 && `, ${found.falsely} false`}<br /><Value metric={found.conflicts} badge={false} /></>}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="legend">Cache lines that the threads of the row and of the column both use (false: each uses bytes of its own), and below that how often these can move between cores in a burst. A line of more than two threads counts for each pair.</p>
      {object !== undefined && <Notes notes={table.notes.slice(-1)} />}
    </>
  );
}
