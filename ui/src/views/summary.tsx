// 1 Summary: the verdict, findings, metrics, histograms, what is hot, the machine, what collecting cost.

import { useState } from "preact/hooks";
import { glance, useDoc } from "../data";
import { amount, bytes, count, counted, dateOf, digits, interval, provenance, saving, seconds, shortName } from "../format";
import type { Finding, Summary } from "../generated";
import { Badge, Card, Failed, FunctionLink, Notes, Part, Prose, Value, Waiting } from "../parts";
import { nothingChosen } from "../selection";
import { choose, update, useShown } from "../state";
import { Taken, useChosen } from "./calls";
import { FirstScreen, firstSentence } from "./screens";
import type { Metric, Table } from "../types";
import { isMetric } from "../types";
import { Bars } from "../plot";
import { Bands } from "./bands";

export function SummaryView() {
  const { value: summary, error } = useDoc<Summary>("summary");
  if (error) return <Failed error={error} />;
  if (!summary) return <AtOnce />;
  // Others know nothing of memory accesses: no card of theirs could have a figure.
  const traced = summary.analysis === "memory-access";
  const sampled = summary.source?.events.some((event) => event.used_as.includes("memory-accesses")) ?? false;
  return (
    <>
      <Chosen />
      <Verdict summary={summary} />
      <Findings summary={summary} />
      <div class="cards">
        <div class="column">
          <FirstScreen summary={summary} />
          <Functions rows={summary.top_functions} />
          {(traced || summary.top_objects.length > 0) && <Objects summary={summary} />}
          {traced && <Bands summary={summary} />}
          {(traced || sampled) && <Latency />}
          <Overhead summary={summary} />
        </div>
        <div class="column">
          <Metrics summary={summary} />
          <Machine summary={summary} />
        </div>
      </div>
      {summary.notes.length > 0 && <Card title="Notes"><Notes notes={summary.notes} /></Card>}
    </>
  );
}

/** The summary is of the whole run; how much of it is chosen. */
function Chosen() {
  const shown = useShown();
  const { stacks, figure, choice, notes, follows } = useChosen("cpu_time");
  if (nothingChosen(shown) || !stacks) return null;
  const taken = figure?.whole.value === undefined ? <span class="empty">No CPU time was sampled in what is chosen.</span> : <Taken figure={figure} taken={stacks.sum(figure, choice)} choice={choice} />;
  return (
    <p class="quiet">
      All figures below are of the whole run. {follows && taken} <Prose text={notes.join(" ")} />
    </p>
  );
}

/** Functions that the summary has. */
const TOP = 10;

/** What is known before the summary is computed, which reads all traced accesses: what was counted, and what needs samples alone. */
function AtOnce() {
  const run = glance();
  const { value: hotspots } = useDoc<Table>(nothingChosen(useShown()) ? "hotspots?group=function&limit=400" : null);
  if (!run) return <Waiting />;
  const machine = [run.cpu, run.cpus > 0 ? counted(run.cpus, "logical CPU") : "", run.memory_bytes > 0 ? bytes(run.memory_bytes) : "", run.os, run.kernel];
  return (
    <>
      <Card title="This result">
        <p class="waiting" role="status">The other figures are being computed{run.figures.length > 0 ? "; these were counted:" : " ..."}</p>
        <dl class="figures">{run.figures.map(([label, metric]) => <Big label={label} metric={metric} key={label} />)}</dl>
        <dl class="list">
          <dt>Program</dt><dd class="code">{run.command.join(" ") || run.target}</dd>
          <dt>Recorded</dt><dd>{run.started === null ? "" : `${dateOf(run.started)}, `}for {seconds(run.elapsed)}, {run.analysis}</dd>
          <dt>Machine</dt><dd>{machine.filter((word) => word !== "").join(", ") || "not known"}</dd>
          <dt>Observed</dt><dd>{run.sizes.map(([what, size]) => `${count(size)} ${what}`).join(", ") || "nothing"}</dd>
        </dl>
      </Card>
      {hotspots && <Functions rows={hotspots.rows.slice(0, TOP) as unknown as TopFunctions} />}
    </>
  );
}

function Verdict({ summary }: { summary: Summary }) {
  const started = glance()?.started;
  const { dram_bandwidth: traffic } = summary;
  const figures: [label: string, metric: Metric][] = [
    ["Elapsed", summary.elapsed],
    ["CPU time", summary.cpu_time],
    ["Memory's share", summary.memory_bound],
    ["DRAM bandwidth", traffic.average],
    ["of what so many threads reach here", traffic.of_reachable],
  ];
  if (summary.paused) figures.splice(1, 0, ["Paused, not in the figures", summary.paused]);
  // Too rough a latency is left to the metrics below.
  if (isKnown(summary.average_load_latency)) figures.push(["Load latency", summary.average_load_latency]);
  return (
    <section class="card verdict" aria-label="Verdict">
      <p class="sentence"><Prose text={firstSentence(summary)} /></p>
      {summary.verdict_decided_by && <p>To say more: <Prose text={summary.verdict_decided_by} />.</p>}
      <dl class="figures">
        {figures.filter(([, metric]) => metric.value !== undefined).map(([label, metric]) => <Big label={label} metric={metric} key={label} />)}
      </dl>
      <p class="quiet"><span class="code">{summary.command.join(" ") || summary.target}</span>: {summary.exit}{started ? `; recorded ${dateOf(started)}` : ""}</p>
      {summary.regions && <p class="quiet">Regions of the program: {summary.regions.slice(0, 5).join(", ")}{summary.regions.length > 5 ? ` and ${summary.regions.length - 5} more` : ""}. <button onClick={() => update({ view: "tables", table: "regions?limit=200" })}>Show them</button></p>}
    </section>
  );
}

/** Whether a figure is known to a factor of two. */
function isKnown({ low, high }: Metric): boolean {
  return low === undefined || high === undefined || high <= 2 * low;
}

/** A figure; what is not known so well is its range alone. */
function Big({ label, metric }: { label: string; metric: Metric }) {
  const between = interval(metric);
  const known = isKnown(metric);
  return (
    <div>
      <dt>{label}</dt>
      <dd>
        {known || !between ? <Value metric={metric} /> : <span class="value" role="note" tabIndex={0} title={provenance(metric)} data-why={provenance(metric)}>{between}</span>}
      </dd>
    </div>
  );
}

function Findings({ summary: { findings, undecided, classification_certainty: certainty } }: { summary: Summary }) {
  const open = undecided.filter((one) => !one.elsewhere);
  const rules = open.flatMap((one) => one.rules);
  const nothing = open.length === 0 && certainty !== "undecided" ? "No rule fired: nothing is known to be slow for a reason that the rules look for." : "No rule fired, but not enough was observed to say that nothing is slow.";
  return (
    <Card title="Findings">
      {findings.length === 0 && <p class="empty">{nothing}</p>}
      <div class="findings">
        {findings.map((finding) => (
          <article class={`finding ${finding.severity}`} key={finding.id + finding.title}>
            <h3><span class="severity">{finding.severity}</span> {finding.title}</h3>
            <p class="where">
              {finding.where.function && <FunctionLink name={finding.where.function} file={finding.where.file} line={finding.where.line} />}
              {finding.where.object && <> {" on "}<ObjectLink name={finding.where.object} /></>}
              <Gain metric={finding.predicted_gain} />
            </p>
            <ul>{finding.evidence.map((proof) => <li key={proof.what}>{proof.what} <Value metric={proof.metric} /></li>)}</ul>
            <p><Prose text={finding.advice} /></p>
            <p class="quiet code">{finding.next_command}</p>
            <button onClick={() => showMe(finding)}>Show me</button>
          </article>
        ))}
      </div>
      {rules.length > 0 && (
        <p class="quiet">{counted(rules.length, "rule")} undecided: {rules.join(", ")}. What would decide them is in{" "}
          <button class="link" onClick={() => update({ view: "tables", table: "findings" })}>the table of findings</button>.</p>
      )}
    </Card>
  );
}

/** What the remedy saves; where the sign is not sure, what it may save and what it may cost. */
function Gain({ metric }: { metric: Metric }) {
  if (metric.value === undefined) return null;
  const unsure = saving(metric);
  if (unsure === undefined) return <>{" saves "}<Value metric={metric} /></>;
  const why = provenance(metric);
  return <>{" "}<span role="note" tabIndex={0} title={why} data-why={why}>{unsure} {metric.evidence && <Badge evidence={metric.evidence} />}</span></>;
}

function showMe(finding: Finding): void {
  const { file, line, object, function: name } = finding.where;
  if (file) update({ view: "source", file, line: line ?? undefined });
  else if (object) { choose("object", object, "only"); update({ view: "objects" }); }
  else if (name) update({ view: "bottom-up", search: name });
  else update({ view: "timeline" });
}

export function ObjectLink({ name }: { name: string }) {
  return <button class="link code" title={name} onClick={() => { choose("object", name, "only"); update({ view: "objects" }); }}>{shortName(name)}</button>;
}

type Branch = [label: string, metric: Metric, below?: Branch[]];

function tree(summary: Summary): Branch[] {
  const { page_faults: faults, dram_bandwidth: traffic, levels, time_split: split, heap, kernel_entries: kernel } = summary;
  return [
    ["Elapsed", summary.elapsed, [
      ["without cache misses", summary.elapsed_without_misses],
      ["without a bandwidth limit", summary.elapsed_without_bandwidth_limit],
    ]],
    ["CPU time", summary.cpu_time, [
      ["in the program", split.user],
      ["in the kernel, without page faults", split.kernel],
      ["in page faults", split.page_faults],
      ...(split.mpi_calls && split.mpi_wait && split.mpi_moving ? [["in calls of MPI", split.mpi_calls, [
        ["waiting, by spinning", split.mpi_wait],
        ["moving data", split.mpi_moving],
      ]] as Branch] : []),
      ["CPU utilisation", summary.cpu_utilisation],
    ]],
    ["Waiting, for a CPU too", split.waiting],
    ["Memory bound", summary.memory_bound, [
      ["mean load latency", summary.average_load_latency],
      ["not hidden by overlap", summary.exposed_load_latency],
      ["loads from L1", levels.l1],
      ["loads from L2", levels.l2],
      ["loads from L3", levels.l3],
      ["loads from DRAM", levels.dram],
    ]],
    ["Accesses to another NUMA node", summary.remote_accesses],
    ["DRAM bandwidth", traffic.average, [
      ["read", traffic.read],
      ["written", traffic.write],
      ["largest", traffic.observed_max],
      ["so many threads reach here", traffic.reachable],
      ["of it while it runs", traffic.of_reachable],
      ["time in the high band", traffic.bound_time_percent],
    ]],
    ["Loads", summary.loads, [["stores", summary.stores], ["floating-point operations", summary.flops], ["arithmetic intensity", summary.arithmetic_intensity]]],
    ["Page faults, minor", faults.minor, [["major", faults.major], ["their time", faults.time], ["share of the time", faults.time_percent]]],
    ["Data TLB misses", summary.dtlb.misses, [["time in page walks", summary.dtlb.walk_time_percent]]],
    ["Heap allocated", heap.bytes_allocated, [["allocations", heap.allocations], ["peak", heap.peak_bytes]]],
    ["Peak resident", summary.peak_resident, [["in huge pages", summary.huge_page_share]]],
    ["Kernel entries", kernel.count, [["time", kernel.time]]],
    ["Context switches", summary.context_switches],
  ];
}

/** Without what is not known. */
function knownOf(branches: Branch[]): Branch[] {
  return branches.flatMap(([label, metric, below]) => {
    const inner = below && knownOf(below);
    return metric.value === undefined && !inner?.length ? [] : [[label, metric, inner?.length ? inner : undefined] satisfies Branch];
  });
}

function Metrics({ summary }: { summary: Summary }) {
  const [all, setAll] = useState(false);
  const whole = tree(summary);
  return (
    <Card title="Metrics">
      <p class="quiet">Behind a figure: its 95 % interval. Point at it, touch it or go to it by Tab for its origin.</p>
      <ul class="tree">{(all ? whole : knownOf(whole)).map((branch) => <Branches branch={branch} key={branch[0]} all={all} />)}</ul>
      <button onClick={() => setAll(!all)}>{all ? "Known figures only" : "Also unknown figures, with the reason"}</button>
    </Card>
  );
}

function Branches({ branch: [label, metric, below], all }: { branch: Branch; all: boolean }) {
  const [open, setOpen] = useState(true);
  if (!below) return <li><div class="leaf"><span>{label}</span><Value metric={metric} /></div></li>;
  return (
    <li>
      <div class="leaf">
        <button class="branch" aria-expanded={open} onClick={() => setOpen(!open)}>{label}</button>
        {(metric.value !== undefined || all) && <Value metric={metric} />}
      </div>
      {open && <ul>{below.map((one) => <Branches branch={one} key={one[0]} all={all} />)}</ul>}
    </li>
  );
}

type TopFunctions = Summary["top_functions"];

function Functions({ rows }: { rows: TopFunctions }) {
  return (
    <Card title="Top functions">
      <table>
        <thead><tr><th>Function</th><th class="number">Self</th><th class="number">Total</th><th class="number">CPU time</th></tr></thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.function + row.module}>
              <td><FunctionLink name={row.function} file={row.file} line={row.line} /> <span class="quiet">{row.module}</span></td>
              <td class="number bar-cell"><Share percent={row.self_percent} /></td>
              <td class="number"><Value metric={row.total_percent} badge={false} /></td>
              <td class="number"><Value metric={row.cpu_time} badge={false} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length === 0 && <p class="empty">No samples.</p>}
      <button onClick={() => update({ view: "bottom-up" })}>All functions</button>
    </Card>
  );
}

function Share({ percent: share }: { percent: Metric }) {
  return (
    <>
      <Part share={(share.value ?? 0) / 100} low={(share.low ?? share.value ?? 0) / 100} high={(share.high ?? share.value ?? 0) / 100} />
      <Value metric={share} badge={false} />
    </>
  );
}

function Objects({ summary }: { summary: Summary }) {
  // A column of which nothing is known says nothing; what is unknown has its reason in the view of objects.
  const has = (key: "dram_percent" | "latency") => summary.top_objects.some((row) => row[key].value !== undefined);
  const [moved, timed] = [has("dram_percent"), has("latency")];
  return (
    <Card title="Top memory objects">
      {summary.top_objects.length === 0 && <p class="empty"><Prose text={`No traffic of a memory object is known${summary.dram_bandwidth.average.note ? `: ${summary.dram_bandwidth.average.note}` : ""}.`} /></p>}
      {summary.top_objects.length > 0 && (
        <table>
          <thead><tr><th>Object</th><th class="number">Size</th><th class="number">Waits</th>{moved && <th class="number">Traffic</th>}{timed && <th class="number">Latency</th>}</tr></thead>
          <tbody>
            {summary.top_objects.map((row) => (
              <tr key={row.object}>
                <td><ObjectLink name={row.object} /> {row.element_type && <span class="quiet">{shortName(row.element_type)}</span>}</td>
                <td class="number"><Value metric={row.object_bytes} badge={false} /></td>
                <td class="number bar-cell"><Share percent={row.stall_percent} /></td>
                {moved && <td class="number bar-cell"><Share percent={row.dram_percent} /></td>}
                {timed && <td class="number"><Value metric={row.latency} badge={false} /></td>}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

function Latency() {
  const { value: table, error } = useDoc<Table>("latency");
  const rows = table?.rows ?? [];
  // Bursts are timed in nanoseconds; what the hardware sampled is in cycles.
  const unit = table?.columns.find(({ key }) => key === "from")?.label.split(", ")[1] ?? "";
  // Why no load was timed is among the unknown figures.
  if (table && rows.length === 0) return null;
  return (
    <Card title="Latency of loads">
      {error && <Failed error={error} />}
      {rows.length > 0 && <Bars name="latency" label="Share of loads by latency" unit="percent"
        bars={rows.map((row) => {
          const share = isMetric(row.load_percent) ? row.load_percent : undefined;
          return { label: `${String(row.from)}${row.to ? `-${String(row.to)}` : "+"} ${unit}`, value: share?.value ?? 0, low: share?.low, high: share?.high };
        })} />}
      {table && <Notes notes={table.notes.slice(0, 2)} />}
    </Card>
  );
}

function Machine({ summary }: { summary: Summary }) {
  const { host, machine } = summary;
  const isThere = (metric: Metric) => metric.value !== undefined;
  const { l1, l2, l3, dram } = machine.load_latency;
  // An imported recording does not say all of its machine: 0 is not known.
  const known = (parts: [number, string][]) => parts.filter(([number]) => number > 0).map(([, text]) => text).join(", ") || "not known";
  const levels = ([["L1", l1], ["L2", l2], ["L3", l3], ["DRAM", dram]] satisfies [string, Metric][]).filter(([, metric]) => isThere(metric));
  return (
    <Card title="Machine">
      <dl class="list">
        <dt>Processor</dt><dd>{host.cpu || "unknown"}, {known([[host.cores, counted(host.cores, "core")], [host.logical_cpus, counted(host.logical_cpus, "logical CPU")], [host.sockets, counted(host.sockets, "socket")]])}</dd>
        <dt>Caches</dt><dd>{host.caches.map((cache) => `L${cache.level} ${cache.kind} ${bytes(cache.bytes)}`).join(", ") || "not known"}</dd>
        <dt>Memory</dt><dd>{known([[host.memory_bytes, bytes(host.memory_bytes)], [host.numa_nodes, counted(host.numa_nodes, "NUMA node")], [host.page_bytes, `pages of ${bytes(host.page_bytes)}`]])}</dd>
        {isThere(machine.dram_bandwidth_peak) && <><dt title="of any mix of reads and writes">Peak DRAM bandwidth</dt><dd><Value metric={machine.dram_bandwidth_peak} /></dd></>}
        {levels.length > 0 && <><dt>Latency</dt><dd>{levels.map(([label, metric]) => <div key={label}>{label} <Value metric={metric} /></div>)}</dd></>}
        {isThere(machine.flops_peak) && <><dt>Arithmetic</dt><dd><Value metric={machine.flops_peak} /></dd></>}
        {!isThere(machine.dram_bandwidth_peak) && <><dt>Bandwidth</dt><dd><Prose text={machine.dram_bandwidth_peak.note ?? "not measured: `fathom machine` does"} /></dd></>}
        <dt>System</dt><dd>{[host.os, host.kernel].filter((text) => text !== "").join(", ") || "not known"}{host.virtualised ? `, virtual machine (${host.virtualised})` : ""}{host.container ? `, container (${host.container})` : ""}</dd>
        <dt>Counters</dt><dd>{host.pmu.length > 0 ? host.pmu.join(", ") : summary.target === "imported" ? "not known" : "none for this program"}</dd>
      </dl>
    </Card>
  );
}

function Overhead({ summary }: { summary: Summary }) {
  const { overhead_parts: parts, sampling, coverage } = summary;
  return (
    <Card title="Collection">
      <dl class="list">
        <dt>Overhead</dt><dd>{summary.overhead.value === undefined ? `not known: ${summary.overhead.note ?? "it was not measured"}` : <Value metric={summary.overhead} />}</dd>
        {parts.cpu_time.value !== undefined && <><dt>CPU time of Fathom</dt><dd><Value metric={parts.cpu_time} /></dd></>}
        {parts.stand_still.value !== undefined && <><dt>Stopped time</dt><dd><Value metric={parts.stand_still} /></dd></>}
        {parts.burst_time.value !== undefined && <><dt>In bursts</dt><dd><Value metric={parts.burst_time} />{coverage.bursts.value !== undefined && <>, <Value metric={coverage.bursts} /> bursts</>}</dd></>}
        <dt>Samples</dt><dd>{amount(sampling.samples, "count")}{sampling.period_seconds > 0 && ` every ${digits(sampling.period_seconds * 1000)} ms`} {sampling.method === "imported" ? "of time, imported" : `by ${sampling.method}`}, {sampling.lost_samples} lost</dd>
        {coverage.traced.value !== undefined && <><dt>Traceable</dt><dd><Value metric={coverage.traced} /> of the running time</dd></>}
        {coverage.refused.length > 0 && <><dt>Not traced</dt><dd>{coverage.refused.map(({ reason, percent }) => <div key={reason}><Value metric={percent} badge={false} /> {reason}</div>)}</dd></>}
      </dl>
      <p class="legend">{["counted", "sampled", "timed", "traced", "simulated", "estimated", "calibrated"].map((one) => <span key={one} class="meaning"><Badge evidence={one} /> {one}</span>)}</p>
    </Card>
  );
}
