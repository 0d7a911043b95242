// 4 Timeline: lanes over one axis of time. Dragging selects, the wheel zooms, keys do both; the selection filters all views.

import { useMemo, useRef, useState } from "preact/hooks";
import { useDoc } from "../data";
import { amount, bytes, digits, plain, rate, seconds } from "../format";
import type { Summary } from "../generated";
import { SaveDrawing, Failed, Notes, Waiting, fullWidth, useWidth } from "../parts";
import { apart, linear, type Scale } from "../plot";
import { OF_STACKS, unfollowed } from "../selection";
import { choiceOf, intervalInTime, type Choice, type Stacks } from "../stacks";
import { update, useShown } from "../state";
import { isMetric, valueOf, type Figure, type Table } from "../types";
import { useStacks } from "./calls";
import { Legend, THREAD, THREADS, ThreadDrawing, statesOf, threadLanes } from "./threads";

const LEFT = 150;
const LANE = 74;

interface Span {
  from: number;
  to: number;
  /** Values to be stacked upon each other. */
  values: number[];
  /** The interval of their sum. */
  low?: number;
  high?: number;
}

interface Lane {
  label: string;
  kinds: string[];
  names: string[];
  spans: Span[];
  most: number;
  peak?: number;
  unit: string;
  format: (value: number) => string;
}

/** Sums of a figure per bin: in the program and in the kernel. */
function overTime(stacks: Stacks, figure: Figure, choice: Choice, rate: boolean): Span[] {
  const found: [number, boolean, number][] = [];
  const width = stacks.overTime(figure, choice, (_thread, bin, kernel, value) => found.push([bin, kernel, value]));
  const bins = Math.max(1, Math.ceil(stacks.doc.elapsed / width));
  const sums = Array.from({ length: bins }, () => [0, 0]);
  for (const [bin, kernel, value] of found) sums[Math.min(bin, bins - 1)]![kernel ? 1 : 0]! += rate ? value / width : value;
  return sums.map((values, bin) => {
    const ends = intervalInTime(figure, (values[0]! + values[1]!) * (rate ? width : 1));
    const of = (end: number | undefined) => (end === undefined ? undefined : end / (rate ? width : 1));
    return { from: bin * width, to: Math.min((bin + 1) * width, stacks.doc.elapsed), values, low: of(ends?.[0]), high: of(ends?.[1]) };
  });
}

function lanes(stacks: Stacks, choice: Choice, traffic: Table | undefined, memory: Table | undefined, summary: Summary | undefined): Lane[] {
  const found: Lane[] = [];
  const add = (lane: Omit<Lane, "most">) => {
    const sums = lane.spans.map((span) => span.values.reduce((sum, value) => sum + value, 0));
    const seen = Math.max(0, ...sums);
    // An interval that reaches far above everything that was seen would press all else to the ground: it is cut there.
    const reach = Math.min(2 * Math.max(seen, lane.peak ?? 0), Math.max(0, ...lane.spans.map((span) => span.high ?? 0)));
    if (seen > 0) found.push({ ...lane, most: Math.max(lane.peak ?? 0, seen, reach) });
  };
  const cpu = stacks.doc.figures.find((figure) => figure.key === "cpu_time");
  if (cpu) add({ label: "CPUs busy", kinds: ["user", "kernel"], names: ["program", "kernel"], unit: "", format: digits, spans: overTime(stacks, cpu, choice, true) });
  const spans = (table: Table | undefined, keys: string[]): Span[] =>
    (table?.rows ?? []).map((row) => {
      const sum = row[keys.length > 1 ? "total" : keys[0]!];
      return { from: valueOf(row.start) ?? 0, to: valueOf(row.end) ?? 0, values: keys.map((key) => valueOf(row[key]) ?? 0), ...(isMetric(sum) ? { low: sum.low, high: sum.high } : {}) };
    });
  add({ label: "DRAM bandwidth", kinds: ["read", "write"], names: ["read", "written"], unit: "GB/s", format: (value) => rate(value, "GB/s"), spans: spans(traffic, ["read", "write"]), peak: summary?.dram_bandwidth.reachable.value });
  const faults = stacks.doc.figures.find((figure) => figure.key === "page_faults");
  if (faults) add({ label: "Page faults", kinds: ["faults", "faults"], names: ["faults", ""], unit: "/s", format: (value) => `${amount(value, "count")}/s`, spans: overTime(stacks, faults, choice, true) });
  const heap = stacks.doc.figures.find((figure) => figure.key === "bytes_allocated");
  if (heap) add({ label: "Allocation", kinds: ["heap", "heap"], names: ["allocated", ""], unit: "B/s", format: (value) => `${bytes(value)}/s`, spans: overTime(stacks, heap, choice, true) });
  if (memory?.columns.some((column) => column.key === "resident")) add({ label: "Resident memory", kinds: ["resident"], names: ["resident"], unit: "B", format: bytes, spans: spans(memory, ["resident"]) });
  return found;
}

export function TimelineView({ height }: { height: number }) {
  const shown = useShown();
  const { stacks, error } = useStacks();
  const { value: traffic } = useDoc<Table>("bandwidth");
  const { value: memory } = useDoc<Table>("timeline?limit=400");
  const { value: summary } = useDoc<Summary>("summary");
  const { value: perThread } = useDoc<Table>("timeline?group=thread&limit=60");
  const states = useMemo(() => statesOf(perThread), [perThread]);
  const svg = useRef<SVGSVGElement>(null);
  const [box, width] = useWidth<HTMLDivElement>(fullWidth());
  const [window, setWindow] = useState<[number, number]>();
  const [drag, setDrag] = useState<[number, number]>();
  const [hover, setHover] = useState<number>();
  const elapsed = stacks?.doc.elapsed ?? 1;
  const [start, end] = window ?? [0, elapsed];
  // The whole time stays visible: the selection is drawn, not cut out.
  const choice = useMemo(() => choiceOf({ only: shown.only, without: shown.without }), [shown.only, shown.without]);
  const says = unfollowed(shown, ["time"], "DRAM bandwidth and resident memory", false) ?? unfollowed(shown, OF_STACKS, "Figures here", false);
  const drawn = useMemo(() => (stacks ? lanes(stacks, choice, traffic, memory, summary) : []), [stacks, traffic, memory, summary, choice]);
  const threads = useMemo(() => (stacks ? threadLanes(stacks, choice) : { width: 1, lanes: [] }), [stacks, choice]);
  const x = useMemo(() => linear(start, end, LEFT, width - 10, Math.min(8, Math.max(2, (width - LEFT) / 80))), [start, end, width]);
  // A pointer that moves, or a selection, must not draw a thousand steps anew: the same elements are left alone.
  const upper = useMemo(() => drawn.map((lane, at) => <LaneDrawing key={lane.label} lane={lane} top={24 + at * LANE} x={x} width={width} range={[start, end]} />), [drawn, x, width, start, end]);
  const lower = useMemo(
    () => threads.lanes.map((lane, at) => <ThreadDrawing key={lane.label} lane={lane} bin={threads.width} top={24 + drawn.length * LANE + at * THREAD} x={x} range={[start, end]} chosen={shown.only.thread?.includes(lane.label) ?? false} states={states.get(lane.label)} />),
    [threads, drawn.length, x, start, end, shown.only.thread, states],
  );
  if (error) return <Failed error={error} />;
  if (!stacks) return <Waiting />;

  const total = 24 + drawn.length * LANE + threads.lanes.length * THREAD + 8;
  const timeAt = (event: MouseEvent) => {
    const left = svg.current?.getBoundingClientRect().left ?? 0;
    const part = (event.clientX - left - LEFT) / Math.max(1, width - 10 - LEFT);
    return start + Math.min(1, Math.max(0, part)) * (end - start);
  };
  const zoom = (factor: number, around: number) => {
    const span = Math.min(elapsed, Math.max(elapsed / 1000, (end - start) * factor));
    const from = Math.min(elapsed - span, Math.max(0, around - ((around - start) / (end - start)) * span));
    setWindow(span >= elapsed ? undefined : [from, from + span]);
  };
  const pan = (part: number) => {
    const step = Math.max(-start, Math.min(elapsed - end, part * (end - start)));
    setWindow([start + step, end + step]);
  };
  const select = (from: number, to: number) => {
    const [low, high] = from < to ? [from, to] : [to, from];
    // A click is no selection.
    if (high - low < (end - start) / 300) update({ from: undefined, to: undefined });
    else update({ from: Number(low.toPrecision(6)), to: Number(high.toPrecision(6)) });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const middle = (start + end) / 2;
    const width = end - start;
    const { from, to } = shown;
    const keys: Record<string, () => void> = {
      "+": () => zoom(0.5, middle), "=": () => zoom(0.5, middle), "-": () => zoom(2, middle),
      ArrowLeft: () => (event.shiftKey ? select((from ?? start) - width / 20, to ?? middle) : pan(-0.2)),
      ArrowRight: () => (event.shiftKey ? select(from ?? start, (to ?? middle) + width / 20) : pan(0.2)),
      Escape: () => update({ from: undefined, to: undefined }),
      "0": () => setWindow(undefined),
      z: () => from !== undefined && to !== undefined && setWindow([from, to]),
      s: () => select(start, end),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };
  const marked = drag ?? (shown.from !== undefined && shown.to !== undefined ? [shown.from, shown.to] as [number, number] : undefined);
  return (
    <>
      <div class="bar">
        <button onClick={() => zoom(0.5, (start + end) / 2)}>Zoom in</button>
        <button onClick={() => zoom(2, (start + end) / 2)}>Zoom out</button>
        {marked && <button onClick={() => setWindow([Math.min(...marked), Math.max(...marked)])}>Zoom to selection</button>}
        {window && <button onClick={() => setWindow(undefined)}>Whole run</button>}
        <SaveDrawing svg={svg} name="timeline" />
        <span class="quiet">{seconds(start)} to {seconds(end)}. Drag to select; Ctrl and wheel zoom, Shift and wheel move; keys: arrows, + and -, Shift and arrows select, z to the selection, Escape.</span>
      </div>
      {says && <p class="quiet">{says}</p>}
      <p class="readout" aria-live="polite">{readout(hover, drawn)}</p>
      <div class="lanes" ref={box} style={{ maxHeight: `${height - 130}px` }} tabIndex={0} role="application" aria-label="Timeline" onKeyDown={onKeyDown}>
        <svg ref={svg} width={width} height={total} role="group" aria-label={`Timeline of ${seconds(elapsed)}: ${drawn.map((lane) => lane.label).join(", ")}, ${threads.lanes.length} threads`}
          onPointerDown={(event) => { if (event.button === 0 && event.clientX - (svg.current?.getBoundingClientRect().left ?? 0) > LEFT) { const at = timeAt(event); setDrag([at, at]); } }}
          onPointerMove={(event) => { const at = timeAt(event); setHover(at); if (drag) setDrag([drag[0], at]); }}
          onPointerUp={() => { if (drag) { select(...drag); setDrag(undefined); } }}
          onPointerLeave={() => { setHover(undefined); if (drag) { select(...drag); setDrag(undefined); } }}
          onWheel={(event) => {
            // Without a key the wheel scrolls the page, as everywhere.
            if (!event.shiftKey && !event.ctrlKey && !event.metaKey) return;
            event.preventDefault();
            if (event.shiftKey) pan(event.deltaY > 0 ? 0.1 : -0.1);
            else zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event));
          }}>
          {apart(x, plain(seconds), width - 8).map(({ tick, anchor }) => (
            <g key={tick}>
              <line class="gridline" x1={x.at(tick)} x2={x.at(tick)} y1={18} y2={total} />
              <text class="tick" x={x.at(tick)} y={13} text-anchor={anchor}>{plain(seconds)(tick)}</text>
            </g>
          ))}
          {upper}
          {lower}
          {marked && <Selection x={x} marked={marked} width={width} height={total} />}
          {hover !== undefined && !drag && hover >= start && <line class="cursor" x1={x.at(hover)} x2={x.at(hover)} y1={18} y2={total} />}
        </svg>
      </div>
      <Legend states={states.size > 0} traffic={drawn.some((lane) => lane.kinds.includes("read"))} />
      {traffic && traffic.rows.length === 0 && <Notes notes={["No bandwidth over time in this result.", ...traffic.notes]} />}
      {stacks.doc.threads.length > THREADS && <Notes notes={[`${THREADS} of ${stacks.doc.threads.length} threads are drawn, the busiest.`]} />}
    </>
  );
}

function readout(hover: number | undefined, drawn: Lane[]): string {
  if (hover === undefined) return " ";
  const at = (lane: Lane) => lane.spans.find((span) => hover >= span.from && hover < span.to);
  const parts = drawn.flatMap((lane) => {
    const span = at(lane);
    if (!span) return [];
    const values = span.values.map((value, kind) => (lane.names[kind] && (value > 0 || lane.names.length === 1) ? `${lane.names[kind]} ${lane.format(value)}` : "")).filter(Boolean);
    const ends = span.low !== undefined && span.high !== undefined && lane.format(span.low) !== lane.format(span.high) ? ` (95 % interval ${lane.names[1] ? "of the sum " : ""}${lane.format(span.low)} to ${lane.format(span.high)})` : "";
    return values.length > 0 ? [`${lane.label}: ${values.join(", ")}${ends}`] : [];
  });
  return `${amount(hover, "s")}. ${parts.join("; ")}`;
}

function Selection({ x, marked, width, height }: { x: Scale; marked: [number, number]; width: number; height: number }) {
  const clamp = (value: number) => Math.min(width - 10, Math.max(LEFT, x.at(value)));
  const [left, right] = [clamp(Math.min(...marked)), clamp(Math.max(...marked))];
  return (
    <g class="selection">
      <rect class="outside" x={LEFT} y={18} width={Math.max(0, left - LEFT)} height={height - 18} />
      <rect class="outside" x={right} y={18} width={Math.max(0, width - 10 - right)} height={height - 18} />
      <rect class="edge" x={left} y={18} width={Math.max(1, right - left)} height={height - 19} />
    </g>
  );
}

function tenth(value: number): number {
  return Math.round(value * 10) / 10;
}

function LaneDrawing({ lane, top, x, width, range: [start, end] }: { lane: Lane; top: number; x: Scale; width: number; range: [number, number] }) {
  const high = LANE - 16;
  const base = top + LANE - 8;
  const y = (value: number) => base - (value / (lane.most * 1.05)) * high;
  const seen = lane.spans.filter((span) => span.to > start && span.from < end);
  const clamp = (time: number) => x.at(Math.min(end, Math.max(start, time)));
  // Steps from the first to the last, back along the values below.
  const area = (kind: number) => {
    const below = (span: Span) => span.values.slice(0, kind).reduce((sum, value) => sum + value, 0);
    const edge = (value: number, from: number, to: number) => `${tenth(clamp(from))},${tenth(y(value))} ${tenth(clamp(to))},${tenth(y(value))}`;
    const upper = seen.map((span) => edge(below(span) + span.values[kind]!, span.from, span.to));
    const lower = seen.map((span) => edge(below(span), span.to, span.from)).reverse();
    return [...upper, ...lower].join(" ");
  };
  const band = seen.map((span) => {
    if (span.low === undefined || span.high === undefined || span.low >= span.high) return "";
    const [from, to] = [Math.min(lane.most, span.high), Math.min(lane.most, span.low)].map((value) => tenth(y(value)));
    return `M${tenth(clamp(span.from))} ${from}H${tenth(clamp(span.to))}V${to}H${tenth(clamp(span.from))}z`;
  }).join("");
  return (
    <g>
      <text class="lane" x={8} y={top + 18}>{lane.label}</text>
      <text class="tick" x={8} y={top + 34}>to {lane.format(lane.most)}</text>
      {lane.kinds.map((kind, at) => <polygon key={at} class={`area ${kind}`} points={area(at)} />)}
      <path class="uncertain" d={band} />
      {lane.peak !== undefined && <line class="peak" x1={LEFT} x2={width - 10} y1={y(lane.peak)} y2={y(lane.peak)}><title>{`what so many threads reach on this machine: ${lane.format(lane.peak)}`}</title></line>}
      <line class="axis" x1={LEFT} x2={width - 10} y1={base} y2={base} />
    </g>
  );
}

