// 1 What an analysis is for, first on its summary: threading, system overview, memory consumption.
// What not: memory access and hotspots, whose cards `summary.tsx` has; the sentence above them, except where the report has none.

import { useState } from "preact/hooks";
import { useDoc } from "../data";
import { figure, percent, seconds, sentence, shortName, withInterval } from "../format";
import type { Summary } from "../generated";
import { Card, Failed, FunctionLink, Notes, Value } from "../parts";
import { Bars } from "../plot";
import { update } from "../state";
import { isMetric, textOf, valueOf, type Metric, type Row, type Table } from "../types";

/** Rows of a card's table: more are in the view that its button opens. */
const ROWS = 10;

/** What the analysis says first, where the report has no verdict: a figure that it is for. */
export function firstSentence(summary: Summary): string {
  const { threading, heap, kernel_entries: kernel, top_functions: [top] } = summary;
  if (summary.verdict) return summary.verdict;
  const of = summary.analysis;
  if (of === "threading" && threading?.verdicts[0]) return `${sentence(threading.verdicts[0].sentence)}.`;
  if (of === "system-overview" && kernel.time_percent.value !== undefined) return `The kernel takes ${withInterval(kernel.time_percent)} of the CPU time, in ${figure(kernel.count)} entries.`;
  if (of === "memory-consumption" && heap.bytes_allocated.value !== undefined) return `${figure(heap.bytes_allocated)} are allocated in ${figure(heap.allocations)} blocks, of which at most ${figure(heap.peak_bytes)} are live at a time.`;
  if (top) return `${shortName(top.function)} itself takes ${withInterval(top.self_percent)} of the CPU time.`;
  return "This analysis does not say what limits the program.";
}

export function FirstScreen({ summary }: { summary: Summary }) {
  switch (summary.analysis) {
    case "threading": return <Threading summary={summary} />;
    case "system-overview": return <Kernel />;
    case "memory-consumption": return <Heap summary={summary} />;
    default: return null;
  }
}

const metricOf = (row: Row, key: string): Metric | undefined => (isMetric(row[key]) ? row[key] : undefined);

/** Sums of figures that do not depend on each other: the squares of what they are off by add up. Of what is not known there is no sum. */
function sum(rows: Row[], key: string): Metric | undefined {
  const all = rows.flatMap((row) => metricOf(row, key) ?? []).filter((one) => one.value !== undefined);
  if (all.length === 0) return undefined;
  const add = (of: (metric: Metric) => number | undefined) => all.reduce((total, one) => total + (of(one) ?? one.value!), 0);
  const value = add((one) => one.value);
  const off = (end: (metric: Metric) => number | undefined) => Math.hypot(...all.map((one) => (end(one) ?? one.value!) - one.value!));
  return { value, low: value - off((one) => one.low), high: value + off((one) => one.high), unit: all[0]!.unit, evidence: all[0]!.evidence, samples: add((one) => one.samples) };
}

/** A figure of a table; nothing where it is not known. */
function Known({ metric }: { metric: Metric | undefined }) {
  return metric?.value === undefined ? null : <Value metric={metric} badge={false} />;
}

function ToTable({ table, children }: { table: string; children: string }) {
  return <button onClick={() => update({ view: "tables", table })}>{children}</button>;
}

const STATES: [key: "running" | "spinning" | "ready" | "waiting" | "unknown", kind: string, label: string][] = [
  ["running", "user", "running"], ["spinning", "write", "spinning"], ["ready", "heap", "waiting for a CPU"], ["waiting", "kernel", "waiting"], ["unknown", "other", "unknown"],
];

function Threading({ summary: { threading } }: { summary: Summary }) {
  if (!threading) return null;
  const running = (threading.running_percent.value ?? 0) - (threading.spinning_percent.value ?? 0);
  const shares = { running, spinning: threading.spinning_percent.value ?? 0, ready: threading.ready_percent.value ?? 0, waiting: threading.waiting_percent.value ?? 0, unknown: threading.unknown_percent.value ?? 0 };
  return (
    <>
      <Card title="What threads did">
        {threading.verdicts.length > 1 && <Notes notes={threading.verdicts.slice(1).map((one) => `${sentence(one.sentence)}.`)} />}
        <div class="states" role="img" aria-label={STATES.map(([key, , label]) => `${label} ${percent(shares[key])}`).join(", ")}>
          {STATES.map(([key, kind]) => shares[key] > 0 && <i key={key} class={kind} style={{ width: `${shares[key]}%` }} />)}
        </div>
        <p class="legend">{STATES.map(([key, kind, label]) => shares[key] > 0 && <span key={key}><i class={kind} /> {label}</span>)}</p>
        <dl class="list">
          <dt>Running</dt><dd><Value metric={threading.running_percent} />, of it spinning <Value metric={threading.spinning_percent} /></dd>
          <dt>Waiting for a CPU</dt><dd><Value metric={threading.ready_percent} /></dd>
          <dt>Waiting</dt><dd><Value metric={threading.waiting_percent} />{threading.waiting.map((one) => <div key={one.reason}><Value metric={one.percent} badge={false} /> {one.reason}</div>)}</dd>
          <dt>CPUs in effect</dt><dd><Value metric={{ ...threading.effective_cpus, unit: "ratio" }} /></dd>
        </dl>
        <p class="quiet">Shares of the lifetimes of all threads.</p>
        <Bars name="threads-at-once" label="Share of the time by number of threads that run" unit="percent" height={130}
          bars={threading.at_once.map(({ threads, percent: share }) => ({ label: String(threads), value: share.value ?? 0, low: share.low, high: share.high }))} />
      </Card>
      <WaitTree />
      <Balance />
    </>
  );
}

interface Wait {
  label: string;
  rows: Row[];
  below: Wait[];
}

const WAITED: ((row: Row) => string)[] = [
  (row) => [textOf(row.reason), textOf(row.object)].filter(Boolean).join(", "),
  (row) => (textOf(row.function) ? `in ${shortName(textOf(row.function))}` : "in a place that is not known"),
  (row) => (textOf(row.waker) ? `woken by ${textOf(row.waker)}${textOf(row.waker_function) ? `, in ${shortName(textOf(row.waker_function))}` : ""}` : "woken by one that is not known"),
];

function waits(rows: Row[], level = 0): Wait[] {
  const of = WAITED[level];
  if (!of) return [];
  const groups = new Map<string, Row[]>();
  for (const row of rows) groups.set(of(row), [...(groups.get(of(row)) ?? []), row]);
  const all = [...groups].map(([label, members]) => ({ label, rows: members, below: waits(members, level + 1) }));
  return all.sort((a, b) => (sum(b.rows, "wait_time")?.value ?? 0) - (sum(a.rows, "wait_time")?.value ?? 0));
}

/** Who waits for what: by reason and object, place, and who ended the wait. */
function WaitTree() {
  const { value: table, error } = useDoc<Table>("waits?limit=200");
  if (error) return <Failed error={error} />;
  if (!table || table.rows.length === 0) return null;
  return (
    <Card title="Who waits for what">
      <ul class="tree">{waits(table.rows).slice(0, ROWS).map((one, at) => <WaitBranch key={one.label} wait={one} open={at === 0} />)}</ul>
      <ToTable table="waits?limit=200">All waits</ToTable>
      <Notes notes={table.notes.slice(0, 2)} />
    </Card>
  );
}

function WaitBranch({ wait, open: first }: { wait: Wait; open: boolean }) {
  const [open, setOpen] = useState(first);
  const value = <Known metric={sum(wait.rows, "wait_time")} />;
  if (wait.below.length === 0) return <li><div class="leaf"><span>{wait.label}</span>{value}</div></li>;
  return (
    <li>
      <div class="leaf"><button class="branch" aria-expanded={open} onClick={() => setOpen(!open)}>{wait.label}</button>{value}</div>
      {open && <ul>{wait.below.slice(0, ROWS).map((one) => <WaitBranch key={one.label} wait={one} open={false} />)}</ul>}
    </li>
  );
}

/** How even the work of the threads is. */
function Balance() {
  const { value: table } = useDoc<Table>("threads?limit=200");
  const rows = (table?.rows ?? []).map((row) => {
    const spinning: Metric = metricOf(row, "spin_time") ?? { value: 0, unit: "s", samples: 0 };
    const without = (spun: number | undefined) => (spun === undefined ? undefined : Math.max(0, (valueOf(row.running_time) ?? 0) - spun));
    const running = without(spinning.value ?? 0)!;
    return { name: textOf(row.thread), running, spinning, runs: { ...spinning, value: running, low: without(spinning.high), high: without(spinning.low), evidence: "estimated" as const } };
  });
  if (rows.length < 2) return null;
  const mean = rows.reduce((total, row) => total + row.running, 0) / rows.length;
  const toMean = (seconds: number | undefined) => (seconds === undefined ? undefined : (seconds / mean) * 100);
  const sorted = rows.sort((a, b) => b.running - a.running);
  return (
    <Card title="Balance of the threads">
      <p>The busiest thread runs for {seconds(sorted[0]!.running)} without spinning; the mean of {rows.length} threads is {seconds(mean)}.</p>
      <table>
        <thead><tr><th>Thread</th><th class="number">Runs</th><th class="number">Spins</th><th class="number">To the mean</th></tr></thead>
        <tbody>
          {sorted.slice(0, ROWS).map((row) => (
            <tr key={row.name}>
              <td class="code">{row.name}</td><td class="number"><Known metric={row.runs} /></td><td class="number"><Known metric={row.spinning} /></td>
              <td class="number">{mean > 0 && <Known metric={{ ...row.runs, unit: "percent", value: toMean(row.running), low: toMean(row.runs.low), high: toMean(row.runs.high) }} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <ToTable table="threads?limit=200">All threads</ToTable>
    </Card>
  );
}

/** Kinds of rows of `kernel` that are no entries (`is_entry` of crates/facts), in words. */
const OTHERS: Record<string, string> = { switch: "Context switches", "run queue": "Waits for a CPU", "TLB flush": "TLB flushes", "memory event": "Memory events" };

/** Entries into the kernel by kind, and the causes that take longest. */
function Kernel() {
  const { value: table, error } = useDoc<Table>("kernel?limit=200");
  if (error) return <Failed error={error} />;
  if (!table || table.rows.length === 0) return null;
  const kinds = [...new Set(table.rows.map((row) => textOf(row.cause)))];
  const time = (rows: Row[]) => sum(rows, "time")?.value ?? 0;
  const of = (kind: string) => table.rows.filter((row) => row.cause === kind);
  const [entries, others] = [kinds.filter((kind) => !(kind in OTHERS)), kinds.filter((kind) => kind in OTHERS)];
  const waited = (rows: Row[]) => sum(rows.filter((row) => row.cause === "run queue"), "blocked");
  return (
    <>
      <Card title="Kernel entries by kind">
        <table>
          <thead><tr><th>Kind</th><th class="number">Entries</th><th class="number">Time</th><th class="number">Blocked</th></tr></thead>
          <tbody>
            {entries.sort((a, b) => time(of(b)) - time(of(a))).map((kind) => (
              <tr key={kind}>
                <td>{kind}</td>
                {["entries", "time", "blocked"].map((key) => <td key={key} class="number"><Known metric={sum(of(kind), key)} /></td>)}
              </tr>
            ))}
          </tbody>
        </table>
        {others.length > 0 && (
          <dl class="list">
            {others.map((kind) => <><dt key={kind}>{OTHERS[kind]}</dt><dd><Known metric={sum(of(kind), "entries")} />{kind === "run queue" && <>, <Known metric={waited(table.rows)} /> in all</>}</dd></>)}
          </dl>
        )}
      </Card>
      <Card title="Top causes">
        <table>
          <thead><tr><th>Cause</th><th class="number">Entries</th><th class="number">Time</th><th class="number">Each</th></tr></thead>
          <tbody>
            {table.rows.slice(0, ROWS).map((row) => (
              <tr key={textOf(row.cause) + textOf(row.name)}>
                <td><span class="code">{textOf(row.name)}</span> <span class="quiet">{textOf(row.cause)}</span></td>
                {["entries", "time", "mean_time"].map((key) => <td key={key} class="number"><Known metric={metricOf(row, key)} /></td>)}
              </tr>
            ))}
          </tbody>
        </table>
        <ToTable table="kernel?limit=200">All causes</ToTable>
        <Notes notes={table.notes.slice(0, 2)} />
      </Card>
    </>
  );
}

/** Live at the peak, what is never freed, churn, and who allocates. */
function Heap({ summary: { heap } }: { summary: Summary }) {
  const { value: table, error } = useDoc<Table>("allocations?group=function&limit=250");
  if (error) return <Failed error={error} />;
  if (!table || table.rows.length === 0) return null;
  const left = metricOf(table.total, "live_at_end");
  const { value: allocated = 0, low: least = allocated, high: most = allocated } = heap.bytes_allocated;
  const { value: peak = 0, low = peak, high = peak } = heap.peak_bytes;
  const churn: Metric | undefined = allocated > 0 && peak > 0 ? { value: allocated / peak, low: least / high, high: low > 0 ? most / low : undefined, unit: "ratio", samples: 0 } : undefined;
  const leaks = table.rows.filter((row) => (valueOf(row.live_at_end) ?? 0) > 0).sort((a, b) => valueOf(b.live_at_end)! - valueOf(a.live_at_end)!);
  return (
    <>
      <Card title="Heap">
        <dl class="list">
          <dt>Live at the peak</dt><dd><Value metric={heap.peak_bytes} /></dd>
          <dt>Allocated</dt><dd><Value metric={heap.bytes_allocated} /> in <Value metric={heap.allocations} badge={false} /> blocks</dd>
          {churn && <><dt>Churn</dt><dd><Value metric={churn} badge={false} /> times the peak</dd></>}
          {left?.value !== undefined && <><dt>Never freed</dt><dd><Value metric={left} /></dd></>}
        </dl>
      </Card>
      <Card title="Top allocators">
        <Allocators rows={table.rows.slice(0, ROWS)} figures={[["bytes_allocated", "Allocated"], ["peak_bytes", "Peak"], ["temporary_percent", "Short-lived"]]} />
        <ToTable table="allocations?group=function&limit=250">All allocators</ToTable>{" "}
        <ToTable table="allocations?group=call-stack&limit=100">By call stack</ToTable>
        <Notes notes={table.notes.slice(0, 2)} />
      </Card>
      {leaks.length > 0 && (
        <Card title="Not freed at the end">
          <Allocators rows={leaks.slice(0, ROWS)} figures={[["live_at_end", "Live"], ["live_blocks", "Blocks"], ["bytes_allocated", "Allocated"]]} />
        </Card>
      )}
    </>
  );
}

function Allocators({ rows, figures }: { rows: Row[]; figures: [key: string, label: string][] }) {
  return (
    <table>
      <thead><tr><th>Function</th>{figures.map(([key, label]) => <th key={key} class="number">{label}</th>)}</tr></thead>
      <tbody>
        {rows.map((row) => (
          <tr key={textOf(row.function) + textOf(row.module)}>
            <td><FunctionLink name={textOf(row.function)} file={textOf(row.file) || undefined} line={valueOf(row.line)} /></td>
            {figures.map(([key]) => <td key={key} class="number"><Known metric={metricOf(row, key)} /></td>)}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
