// A dataset: CPU time and memory time of all its results by day, and by host, program or label; functions; the results themselves.
// What not: single results, which have pages of their own.

import { useMemo, useRef, useState } from "preact/hooks";
import { HUES } from "../colours";
import { useDoc } from "../data";
import { amount, counted, interval, seconds } from "../format";
import { Card, Failed, Notes, SaveDrawing, Value, Waiting, useWidth } from "../parts";
import { Whisker, linear } from "../plot";
import { USUAL, update, useShown } from "../state";
import { DocTable } from "../table";
import { isMetric, textOf, type Column, type Metric, type Row, type Table } from "../types";
import { copy } from "../workbench";

const HEIGHT = 260;
/** Groups with a colour of their own; the others are one. */
const COLOURED = HUES.length;
const OTHERS = "others";
/** More days than this leave out those without results. */
const DAYS = 120;
const DAY = 86_400_000;
/** In the address: all CPU time, and not the part that memory takes. */
const CPU = "all_cpu_time";

/** What results can be grouped by, besides their labels. */
const KEYS: [key: string, label: string][] = [["host", "Host"], ["program", "Program"], ["analysis", "Analysis"]];

const metricOf = (row: Row, key: string): Metric | undefined => {
  const cell = row[key];
  return isMetric(cell) && cell.value !== undefined ? cell : undefined;
};

function labelsOf(row: Row): Map<string, string> {
  const pairs = textOf(row.labels).split(",").filter((pair) => pair.includes("="));
  return new Map(pairs.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
}

const groupOf = (row: Row, key: string): string => (KEYS.some(([known]) => known === key) ? textOf(row[key]) : labelsOf(row).get(key)) || "(unknown)";

/** Results are independent of each other: the squares of their intervals' halves add up. Nothing where none has the figure. */
function pooled(rows: Row[], key: string): Metric {
  const known = rows.flatMap((row) => metricOf(row, key) ?? []);
  const unit = "s";
  if (known.length === 0) return { unit, samples: 0, note: "no result has it" } as Metric;
  const value = known.reduce((sum, one) => sum + one.value!, 0);
  const sure = known.every(({ low, high }) => low !== undefined && high !== undefined);
  const reach = (end: (one: Metric) => number) => Math.sqrt(known.reduce((sum, one) => sum + (end(one) - one.value!) ** 2, 0));
  const ends = sure ? { low: Math.max(0, value - reach((one) => one.low!)), high: value + reach((one) => one.high!) } : {};
  const evidence = known.every((one) => one.evidence === known[0]!.evidence) ? known[0]!.evidence : "estimated";
  return { value, unit, ...ends, evidence, samples: known.length } as Metric;
}

/** Memory time over the CPU time of the same results. */
function shareOf(rows: Row[]): Metric {
  const known = rows.filter((row) => metricOf(row, "memory_time") && metricOf(row, "cpu_time"));
  const [memory, cpu] = [pooled(known, "memory_time"), pooled(known, "cpu_time").value];
  if (memory.value === undefined || !cpu) return { unit: "percent", samples: 0, note: "no result has it" } as Metric;
  const part = (value: number | undefined) => value === undefined ? undefined : Math.min(100, (100 * value) / cpu);
  return { ...memory, unit: "percent", value: part(memory.value)!, low: part(memory.low), high: part(memory.high), evidence: "estimated" } as Metric;
}

export function FleetView() {
  const { value: results, error } = useDoc<Table>("results");
  const shown = useShown();
  const complete = useMemo(() => (results?.rows ?? []).filter((row) => textOf(row.state) === "complete"), [results]);
  const keys = useMemo(() => {
    const labels = [...new Set((results?.rows ?? []).flatMap((row) => [...labelsOf(row).keys()]))].sort();
    return [...KEYS, ...labels.filter((name) => !KEYS.some(([key]) => key === name)).map((name): [string, string] => [name, `Label ${name}`])];
  }, [results]);
  if (error) return <Failed error={error} />;
  if (!results) return <Waiting />;
  if (results.rows.length === 0) return <p class="empty">This dataset has no results yet: <code>fathom dataset add {results.result} RESULT...</code></p>;
  const key = keys.some(([one]) => one === shown.group) ? shown.group : "host";
  // What the address does not say is the usual figure of other pages.
  const figure = shown.figure === CPU ? "cpu_time" : "memory_time";
  const left = results.rows.length - complete.length;
  const withMemory = complete.filter((row) => metricOf(row, "memory_time")).length;
  const days = [...new Set(complete.map((row) => textOf(row.day)).filter(Boolean))].sort();
  const count = (of: string) => new Set(complete.map((row) => textOf(row[of])).filter(Boolean)).size;
  return (
    <>
      <section class="card verdict" aria-label="All results">
        <p class="sentence">{counted(complete.length, "result")} of {counted(count("program"), "program")} on {counted(count("host"), "host")}{days.length > 0 && (days.length === 1 ? `, ${days[0]}` : `, ${days[0]} to ${days.at(-1)}`)}</p>
        <dl class="figures">
          <div><dt>CPU time</dt><dd><Value metric={pooled(complete, "cpu_time")} /></dd></div>
          <div><dt>Memory time</dt><dd><Value metric={pooled(complete, "memory_time")} /></dd></div>
          <div><dt>Memory time, of CPU time</dt><dd><Value metric={shareOf(complete)} /></dd></div>
        </dl>
        <p class="quiet">Memory time is CPU time that would not be needed if all data were in the first-level cache. It is known of {withMemory} of these results; the share is of their CPU time.{left > 0 && ` ${counted(left, "result")} more ${left === 1 ? "is" : "are"} incomplete and not in these figures.`}</p>
      </section>
      <div class="bar">
        <label>By{" "}
          <select value={key} onChange={(event) => update({ group: event.currentTarget.value })}>
            {keys.map(([one, label]) => <option key={one} value={one}>{label}</option>)}
          </select>
        </label>
        <label>Figure{" "}
          <select value={figure === "cpu_time" ? CPU : USUAL.figure} onChange={(event) => update({ figure: event.currentTarget.value })}>
            <option value={USUAL.figure}>Memory time</option>
            <option value={CPU}>CPU time</option>
          </select>
        </label>
      </div>
      <div class="cards">
        <Card title={`${figure === "cpu_time" ? "CPU time" : "Memory time"} by day`}><ByDay rows={complete} group={key} figure={figure} days={days} /></Card>
        <Card title={`By ${keys.find(([one]) => one === key)![1].toLowerCase()}`}><Groups rows={complete} group={key} label={keys.find(([one]) => one === key)![1]} dataset={results.result} /></Card>
      </div>
      <Changes />
      <h2>Functions with most time at memory</h2>
      <Functions />
      <h2>Results</h2>
      <Results table={results} />
    </>
  );
}

/** Groups with most of the figure first. */
function ranked(rows: Row[], group: string, figure: string): string[] {
  const sums = new Map<string, number>();
  for (const row of rows) sums.set(groupOf(row, group), (sums.get(groupOf(row, group)) ?? 0) + (metricOf(row, figure)?.value ?? 0));
  return [...sums].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).map(([name]) => name);
}

function daysBetween(days: string[]): string[] {
  const [first, last] = [Date.parse(days[0] ?? ""), Date.parse(days.at(-1) ?? "")];
  if (!Number.isFinite(first) || !Number.isFinite(last) || (last - first) / DAY >= DAYS) return days;
  return Array.from({ length: Math.round((last - first) / DAY) + 1 }, (_, at) => new Date(first + at * DAY).toISOString().slice(0, 10));
}

function ByDay({ rows, group, figure, days }: { rows: Row[]; group: string; figure: string; days: string[] }) {
  const svg = useRef<SVGSVGElement>(null);
  const [box, width] = useWidth<HTMLDivElement>();
  const names = ranked(rows, group, figure);
  const coloured = names.slice(0, names.length > COLOURED ? COLOURED - 1 : COLOURED);
  const shown = [...coloured, ...(names.length > coloured.length ? [OTHERS] : [])];
  const all = daysBetween(days);
  const bars = all.map((day) => {
    const of = rows.filter((row) => textOf(row.day) === day);
    const parts = shown.map((name) => of.filter((row) => (coloured.includes(groupOf(row, group)) ? groupOf(row, group) : OTHERS) === name).reduce((sum, row) => sum + (metricOf(row, figure)?.value ?? 0), 0));
    return { day, results: of.length, parts, sum: pooled(of, figure) };
  });
  const most = Math.max(...bars.map(({ sum }) => sum.high ?? sum.value ?? 0));
  if (!(most > 0)) return <p class="empty">No result has it.</p>;
  const [left, bottom] = [64, 24];
  const y = linear(0, most * 1.05, HEIGHT - bottom, 12, 5);
  const step = Math.min(90, (width - left - 8) / bars.length);
  const every = Math.ceil(78 / step);
  const colour = (name: string) => (name === OTHERS ? "var(--quiet)" : HUES[shown.indexOf(name) % HUES.length]!);
  const says = ({ day, results, parts, sum }: (typeof bars)[0]) => {
    const ends = interval(sum);
    const each = shown.flatMap((name, at) => (parts[at]! > 0 ? [`${name} ${amount(parts[at]!, "s")}`] : []));
    return `${day}: ${counted(results, "result")}${sum.value === undefined ? "" : `, ${amount(sum.value, "s")}${ends ? ` (95 % interval ${ends})` : ""}`}${each.length > 0 ? `: ${each.join(", ")}` : ""}`;
  };
  return (
    <div class="plot" ref={box}>
      <svg ref={svg} width={width} height={HEIGHT} role="group" aria-label={`By day and ${group}`}>
        {y.ticks.map((tick) => <g key={tick}><line class="gridline" x1={left} x2={width - 8} y1={y.at(tick)} y2={y.at(tick)} /><text class="tick" x={left - 6} y={y.at(tick) + 4} text-anchor="end">{tick === 0 ? "0" : seconds(tick)}</text></g>)}
        {bars.map((bar, at) => {
          const x = left + at * step;
          let below = 0;
          return (
            <g key={bar.day} class="explained" role="img" tabindex={0} aria-label={says(bar)}>
              <title>{says(bar)}</title>
              <rect x={x} y={12} width={step} height={HEIGHT - bottom - 12} fill="transparent" />
              {bar.parts.map((part, number) => {
                const from = y.at(below);
                below += part;
                return part > 0 && <rect key={number} x={x + 1} width={Math.max(1, step - 2)} y={y.at(below)} height={Math.max(0.5, from - y.at(below))} fill={colour(shown[number]!)} />;
              })}
              {bar.sum.low !== undefined && bar.sum.high !== undefined && bar.sum.low < bar.sum.high && <Whisker x={[x + step / 2, x + step / 2]} y={[y.at(bar.sum.low), y.at(bar.sum.high)]} />}
              {at % every === 0 && x + 70 < width && <text class="tick" x={x + Math.min(step / 2, 35)} y={HEIGHT - 8} text-anchor={step < 70 ? "start" : "middle"}>{bar.day}</text>}
            </g>
          );
        })}
        <line class="axis" x1={left} x2={width - 8} y1={HEIGHT - bottom} y2={HEIGHT - bottom} />
      </svg>
      <p class="legend">{shown.filter((_, at) => bars.some(({ parts }) => parts[at]! > 0)).map((name) => <span key={name}><i style={{ background: colour(name) }} /> {name}</span>)}</p>
      <SaveDrawing svg={svg} name="fleet-by-day" />
    </div>
  );
}

function Groups({ rows, group, label, dataset }: { rows: Row[]; group: string; label: string; dataset: string }) {
  const table = useMemo((): Table => {
    const column = (key: string, name: string, unit: string | null): Column => ({ key, label: name, unit }) as Column;
    const made = ranked(rows, group, "memory_time").map((name): Row => {
      const of = rows.filter((row) => groupOf(row, group) === name);
      return { group: name, results: of.length, memory_time: pooled(of, "memory_time"), cpu_time: pooled(of, "cpu_time"), share: shareOf(of) } as unknown as Row;
    });
    return { view: `fleet-${group}`, result: dataset, columns: [column("group", label, null), column("results", "Results", "count"), column("memory_time", "Memory time", "s"), column("cpu_time", "CPU time", "s"), column("share", "Of CPU time", "percent")], rows: made, notes: [] } as unknown as Table;
  }, [rows, group, dataset]);
  return <DocTable table={table} height={HEIGHT} label={`By ${label.toLowerCase()}`} withoutDetails />;
}

/** Days on which a program began to take more or less. */
function Changes() {
  const { value } = useDoc<Table>("trend");
  const points = (value?.rows ?? []).filter((row) => textOf(row.point) !== "");
  if (points.length === 0) return null;
  return (
    <Card title="Changes">
      <ul>
        {points.slice(0, 20).map((row, at) => {
          const change = metricOf(row, "change");
          return <li key={at}>{textOf(row.program)} takes {textOf(row.point)} time from {textOf(row.day)} on{change && <>: <Value metric={change} badge={false} /></>}</li>;
        })}
      </ul>
    </Card>
  );
}

function Functions() {
  const { value, error } = useDoc<Table>("top-functions");
  if (error) return <Failed error={error} />;
  return value ? <DocTable table={value} height={320} label="Functions" keys={["function", "amount", "share", "module", "runs", "hosts"]} /> : <Waiting />;
}

/** The most important first: a narrow window has no room for the last. */
const COLUMNS = ["program", "memory_time", "cpu_time", "day", "host", "analysis", "elapsed", "bandwidth", "classification", "state", "result"];

function Results({ table }: { table: Table }) {
  const [row, choose] = useState<Row>();
  const [said, say] = useState(false);
  const path = row && textOf(row.result);
  // As a shell reads it.
  const command = path && `fathom open ${/^[\w./@%+,:=-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`}`;
  return (
    <>
      <p role="status">
        {command ? <><code>{command}</code>{" "}<button onClick={() => void copy(command).then(() => say(true))}>Copy</button>{said && " copied"} <span class="quiet">shows it: on {textOf(row.host) || "its host"}, from where it was added to the dataset.</span></>
          : <span class="quiet">Choose a result: the command that shows it stands here.</span>}
      </p>
      <DocTable table={table} height={420} keys={COLUMNS} label="Results" selected={(one) => one === row} onSelect={(one) => { choose(one); say(false); }} />
      <Notes notes={["Sums are of complete results, which count as independent of each other: squares of half intervals add up."]} />
    </>
  );
}
