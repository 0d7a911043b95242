// 3 Memory objects: the grid, and of the chosen one its allocation stack, latencies, fields, who uses it, and how much
// cache its users would need.

import { useMemo, useRef, useState } from "preact/hooks";
import { mode, useDoc, withFilters } from "../data";
import { LongTable } from "../long";
import { bytes, provenance, shortName } from "../format";
import { Failed, FunctionLink, NoThread, Prose, SaveDrawing, useWidth, Value, Waiting } from "../parts";
import { Axes, Bars, Whisker, linear, logarithmic } from "../plot";
import { OF_STACKS, OF_THREADS, filtersOf, noThreadLeft, unfollowed, type Aspect } from "../selection";
import { choose, objectOf, useShown } from "../state";
import { DocTable } from "../table";
import { useFollowing, useStacks } from "./calls";
import { Fields } from "./layout";
import { ObjectHeat } from "./heat";
import { AccessPattern } from "./scatter";
import { Reuse, SharingMatrix, Strides } from "./spectra";
import { isMetric, textOf, valueOf, type Metric, type Row, type Table } from "../types";

/** The most important first: a narrow window has no room for the last. The pane of an object tells all of them. */
const COLUMNS = ["object", "object_bytes", "dram_percent", "latency", "stride", "loads", "stores", "dram_read", "dram_write", "line_use_percent", "sharing", "page_faults", "latency_p95", "load_time_percent", "remote", "modified", "sampled_loads", "object_kind", "blocks"];

export function ObjectsView({ height }: { height: number }) {
  const shown = useShown();
  const name = objectOf(shown);
  const { stacks } = useStacks();
  const [first, setFirst] = useState<Row>();
  const carried = mode() === "file";
  const { value: table, error } = useDoc<Table>(carried ? "objects?limit=250" : null);
  const filters = filtersOf(shown, OF_STACKS, stacks?.doc.threads);
  const { value: one } = useDoc<Table>(!carried && name !== undefined ? withFilters("objects?limit=250", [["object", name], ...filters]) : null);
  const rows = (carried ? table : one)?.rows ?? [];
  const chosen = name === undefined ? (carried ? rows[0] : first) : rows.find((row) => row.object === name);
  const same = (row: Row) => row.object === chosen?.object;
  const onSelect = (row: Row) => choose("object", textOf(row.object), "only");
  // The table shows all objects and not only the chosen one.
  const besides = { ...shown, only: { ...shown.only, object: undefined } };
  const says = unfollowed(besides, OF_STACKS, "Figures of objects", true);
  if (error) return <Failed error={error} />;
  if (noThreadLeft(shown, stacks?.doc.threads)) return <>{says && <p class="quiet"><Prose text={says} /></p>}<NoThread /></>;
  if (carried && !table) return <Waiting />;
  return (
    <>
      {says && <p class="quiet"><Prose text={says} /></p>}
      <div class="split">
        <div class="main">
          {table ? <DocTable table={table} height={height - 150} keys={COLUMNS} selected={same} onSelect={onSelect} label="Memory objects" withoutDetails />
            : <LongTable question={withFilters("objects", filters)} height={height - 150} keys={COLUMNS} selected={same} onSelect={onSelect} onFirst={setFirst} label="Memory objects" />}
        </div>
        {chosen && <ObjectPane row={chosen} />}
      </div>
    </>
  );
}

function metric(row: Row, key: string): Metric | undefined {
  const cell = row[key];
  return isMetric(cell) ? cell : undefined;
}

function ObjectPane({ row }: { row: Row }) {
  const name = textOf(row.object);
  const has = (key: string) => metric(row, key)?.value !== undefined;
  // What a file does not follow, the view says of all figures.
  const shown = useShown();
  const besides = { ...shown, only: { ...shown.only, object: undefined } };
  const left = (follows: readonly Aspect[], what: string) => (mode() === "server" ? unfollowed(besides, follows, what, true) : undefined);
  const [drawn, shared] = [left([], "Its access pattern and its heat"), left(OF_THREADS, "Lines shared between threads")];
  // Of an imported recording with accesses that the hardware sampled.
  const sampled = row.sampled_loads !== undefined;
  const stack = Array.isArray(row.allocation_stack) ? row.allocation_stack : [];
  return (
    <aside class="pane wide-pane" aria-label={`Object ${name}`}>
      <h2 class="code">{name}</h2>
      <p class="choices"><button onClick={() => choose("object", name, "also")}>Add to the selection</button>{" "}<button onClick={() => choose("object", name, "without")}>Leave out</button></p>
      <dl class="list">
        <dt>Kind</dt><dd>{textOf(row.object_kind)}</dd>
        <dt>Size</dt><dd>{!has("object_bytes") && !has("blocks") ? "not recorded" : <><Value metric={metric(row, "object_bytes")} /> in <Value metric={metric(row, "blocks")} badge={false} /> {valueOf(row.blocks) === 1 ? "block" : "blocks"}</>}</dd>
        {has("dram_percent") && <><dt>Traffic</dt><dd><Value metric={metric(row, "dram_percent")} /> of all: <Value metric={metric(row, "dram_read")} badge={false} /> read, <Value metric={metric(row, "dram_write")} badge={false} /> written</dd></>}
        {has("loads") && <><dt>Accesses</dt><dd><Value metric={metric(row, "loads")} /> loads, <Value metric={metric(row, "stores")} badge={false} /> stores</dd></>}
        {(has("latency") || has("loads")) && <><dt>Latency</dt><dd><Value metric={metric(row, "latency")} />{has("latency") && <> on average, 95 % below <Value metric={metric(row, "latency_p95")} badge={false} /></>}</dd></>}
        {has("page_faults") && <><dt>Page faults</dt><dd><Value metric={metric(row, "page_faults")} /></dd></>}
        {sampled && <><dt>Accesses</dt><dd>{textOf(row.sampled_loads)} loads and {textOf(row.sampled_stores)} stores were sampled by the hardware</dd></>}
        {!sampled && !has("loads") && <><dt>Accesses</dt><dd>none known: <Prose text={metric(row, "loads")?.note ?? "no burst had one"} /></dd></>}
        {!sampled && <><dt>Stride</dt><dd>{strideOf(textOf(row.stride))}</dd></>}
        {!sampled && <><dt>Sharing</dt><dd>{textOf(row.sharing) || "none seen"}</dd></>}
      </dl>
      {drawn && <p class="legend">{drawn}</p>}
      <AccessPattern name={name} />
      <ObjectHeat name={name} />
      <LineUse use={metric(row, "line_use_percent")} />
      {!sampled && <Histogram text={textOf(row.latency_histogram)} />}
      <Fields name={name} />
      {!sampled && <Users name={name} />}
      {!sampled && <SharingMatrix object={name} />}
      {shared && <p class="legend">{shared}</p>}
      <h3>Allocated by</h3>
      {stack.length === 0 ? <p class="empty">Not a heap block, or its stack is unknown.</p>
        : <ol class="stack">{stack.map((frame, at) => <li key={at} class="code" title={frame}>{shortName(frame)}</li>)}</ol>}
    </aside>
  );
}

/** `+12288` is a distance in bytes; others are words. */
function strideOf(stride: string): string {
  if (stride === "") return "not traced";
  return /^[+-]\d+$/.test(stride) ? `${stride} bytes from one access to the next` : stride;
}

/** Of each line that came from memory, how much was used. */
function LineUse({ use }: { use: Metric | undefined }) {
  if (use?.value === undefined) return null;
  const used = Math.round((use.value / 100) * 64);
  return (
    <>
      <h3>Use of cache lines <Value metric={use} /></h3>
      <svg class="lineuse" viewBox="0 0 320 16" role="img" aria-label={`${used} of 64 bytes used`}>
        {Array.from({ length: 64 }, (_, at) => <rect key={at} class={at < used ? "used" : "unused"} x={at * 5} y={0} width={4} height={16} />)}
      </svg>
    </>
  );
}

/** From text such as `2-5 ns 71 % (65 to 77 %), 100 and more ns 29 %`. */
function Histogram({ text }: { text: string }) {
  const bars = text.split(", ").map((part) => /^(.*) ns ([\d.]+) %(?: \((\d+) to (\d+) %\))?$/.exec(part)).filter((found) => found !== null)
    .map(([, step, share, low, high]) => ({
      label: `${step!.replace(" and more", "+")} ns`, value: Number(share),
      low: low === undefined ? undefined : Number(low), high: high === undefined ? undefined : Number(high),
    }));
  // Why none was timed is with the latency.
  if (bars.length === 0) return null;
  return <><h3>Loads by latency</h3><Bars name="object-latency" bars={bars} label="Share of loads" unit="percent" height={120} /></>;
}

/** Figures of a function that uses an object; those that no function has are left out. */
const OF_USERS = [["stall_percent", "Waits"], ["object_percent", "Of its traffic"], ["loads", "Loads"], ["stores", "Stores"]] as const;

/** Functions that access it, and their miss ratio by cache size. */
function Users({ name }: { name: string }) {
  const table = useFollowing("objects?group=object,function&limit=250");
  const rows = (table?.rows ?? []).filter((row) => row.object === name);
  const first = textOf(rows[0]?.function);
  if (rows.length === 0) return null;
  const known = OF_USERS.filter(([key]) => rows.some((row) => metric(row, key)?.value !== undefined));
  return (
    <>
      <h3>Used by</h3>
      <table>
        <thead><tr>{known.map(([, label]) => <th key={label} class="number">{label}</th>)}</tr></thead>
        {rows.slice(0, 12).map((row) => (
          <tbody key={textOf(row.function)}>
            <tr><th scope="rowgroup" colSpan={known.length}><FunctionLink name={textOf(row.function)} file={textOf(row.file)} line={valueOf(row.line)} /></th></tr>
            <tr class="below">{known.map(([key]) => <td key={key} class="number"><Value metric={metric(row, key)} badge={false} /></td>)}</tr>
          </tbody>
        ))}
      </table>
      {first && <Strides name={first} />}
      {first && <Reuse name={first} />}
      {first && <MissRatio name={first} />}
    </>
  );
}

const SIZES = /^miss_(\d+)([km])$/;

/** Misses of a function over the size of a cache: computed for code, not for objects. */
export function MissRatio({ name }: { name: string }) {
  const table = useFollowing("reuse?limit=60");
  const svg = useRef<SVGSVGElement>(null);
  const [box, width] = useWidth<HTMLDivElement>();
  const row = table?.rows.find((one) => one.function === name);
  const points = useMemo(() => {
    if (!table || !row) return [];
    return table.columns.flatMap(({ key }) => {
      const size = SIZES.exec(key);
      const cell = row[key];
      return size && isMetric(cell) && cell.value !== undefined ? [{ size: Number(size[1]) * (size[2] === "k" ? 1024 : 1 << 20), miss: cell.value, cell }] : [];
    });
  }, [table, row]);
  if (points.length < 2) return null;
  const says = (at: number) => `${bytes(points[at]!.size)}: ${provenance(points[at]!.cell)}`;
  const height = 170;
  const x = logarithmic(points[0]!.size, points.at(-1)!.size, 44, width - 12, 4);
  const y = linear(0, 100, height - 34, 10, 4);
  return (
    <>
      <h3>Miss ratio by cache size, {shortName(name)}</h3>
      <div class="plot" ref={box}>
        <svg ref={svg} width={width} height={height} role="group" aria-label={`Miss ratio of ${name} by cache size`}>
          <Axes width={width} height={height} x={x} y={y} left={44} bottom={34} xLabel="cache" yLabel="misses, %" format={bytes}>
            <polyline class="curve" points={points.map((point) => `${x.at(point.size)},${y.at(point.miss)}`).join(" ")} />
            {points.map(({ size, miss, cell: { low = miss, high = miss } }, at) => (
              <g key={size} class="explained" role="img" tabindex={0} aria-label={says(at)}>
                <title>{says(at)}</title>
                {low < high && <Whisker x={[x.at(size), x.at(size)]} y={[y.at(low), y.at(high)]} />}
                <circle class="dot" cx={x.at(size)} cy={y.at(miss)} r={3} />
              </g>
            ))}
          </Axes>
        </svg>
        <SaveDrawing svg={svg} name="miss-ratio" />
      </div>
    </>
  );
}
