// 4 Timeline: lanes over one axis of time, from the whole run down to single samples, faults, waits and bursts.
// Dragging selects, Ctrl and the wheel zoom, keys do both; the selection filters all views.

import { useMemo, useRef, useState } from "preact/hooks";
import { mode, useDoc, withFilters } from "../data";
import { counted, digits, plain, seconds, shortName, timesOf, timeSpan } from "../format";
import type { Summary } from "../generated";
import { momentsOf, tileOf, type Busy, type Moment, type Moments, type Pass } from "../moments";
import { Failed, FunctionLink, Notes, SaveDrawing, Waiting, fullWidth, useWidth } from "../parts";
import { apart, linear, type Scale } from "../plot";
import { OF_STACKS, unfollowed } from "../selection";
import { choiceOf, type Choice, type Stacks } from "../stacks";
import { choose, listOf, update, useShown } from "../state";
import type { MomentsDocument, Table } from "../types";
import { useStacks } from "./calls";
import { BusyDrawing, FigureDrawing, LaneHead, RegionDrawing, leftOf, saysPass, type Drawn } from "./lane_drawing";
import { REGIONS, THREADS, arranged, binsFor, busyLanes, busyParts, figureLanes, regionLanes, startsFolded, type BusyLane, type FigureLane, type Lane, type Span } from "./lanes";
import { Legend } from "./legend";
import { MarkList, MarkLines, ProgramMarkList, ProgramMarks, marksOf, withMark } from "./marks";
import { statesOf } from "./states";

/** Above the lanes: the times, and below them marks and what was found. */
const AXIS = 30;
/** The shortest span that is shown: times are whole microseconds. */
const SHORTEST = 20e-6;

/** Whether code is chosen, which sums per CPU do not know. */
const choosesCode = ({ only, without }: Choice): boolean => Boolean(only.function ?? only.module ?? without.function ?? without.module);

/** How busy threads and processes were, of call stacks: in their bins, without CPUs. */
function busyOfStacks(stacks: Stacks, choice: Choice): Map<string, Busy> {
  const found = new Map<string, Busy>();
  const figure = stacks.doc.figures.find((one) => one.key === "cpu_time");
  if (!figure) return found;
  const cells: [number, number, boolean, number][] = [];
  const width = stacks.overTime(figure, choice, (thread, bin, kernel, value) => cells.push([thread, bin, kernel, value]));
  const bins = Math.max(1, Math.ceil(stacks.doc.elapsed / width));
  for (const [thread, bin, kernel, value] of cells) {
    const of = stacks.doc.threads[thread];
    if (!of) continue;
    for (const id of [`thread ${of.label}`, `process ${of.process}`]) {
      let lane = found.get(id);
      if (!lane) found.set(id, (lane = { from: 0, width, user: new Float64Array(bins), kernel: new Float64Array(bins) }));
      (kernel ? lane.kernel : lane.user)[Math.min(bin, bins - 1)]! += value / width;
    }
  }
  return found;
}

/** A closer look at what is seen: the page's own, or where that has sums only, the server's. */
function useMoments(stacks: Stacks | undefined, [start, end]: [number, number]): { moments?: Moments; whole?: Moments; tile?: [number, number] } {
  const { value } = useDoc<MomentsDocument>("moments");
  const whole = stacks && value ? momentsOf(value, stacks.doc) : undefined;
  const elapsed = stacks?.doc.elapsed ?? 1;
  const all = whole && (["samples", "faults", "waits", "bursts"] as const).every((kind) => whole.has(kind)) && !whole.doc.passes.passes.some((passes) => passes > 1);
  const tile = mode() === "server" && whole && !all && end - start < elapsed ? tileOf(start, end, elapsed) : undefined;
  const near = useDoc<MomentsDocument>(tile ? withFilters("moments?limit=20000", [["time", `${tile[0]}..${tile[1]}`]]) : null);
  const close = tile && stacks && near.value ? momentsOf(near.value, stacks.doc) : undefined;
  return { moments: close?.covers(start, end) ? close : whole, whole, tile };
}

/** Where functions with this text run: of single samples, else the bins of call stacks. */
function placesOf(text: string, stacks: Stacks, whole: Moments | undefined, choice: Choice): [number, number][] {
  if (!text) return [];
  const found: [number, number][] = [];
  if (whole?.has("samples")) {
    const having = whole.stacks.having(text);
    whole.each("samples", choice, [0, Infinity], (one) => { if (having[whole.nodeOf(one)]) found.push([one.from, one.to]); });
  } else {
    const figure = stacks.doc.figures.find((one) => one.key === "cpu_time");
    const having = stacks.having(text);
    if (figure) stacks.each(figure, choice, (node, _thread, bin) => { if (having[node]) found.push([bin * figure.bin_seconds, (bin + 1) * figure.bin_seconds]); });
  }
  // Those that touch are one place.
  const merged: [number, number][] = [];
  for (const [from, to] of found.sort((a, b) => a[0] - b[0])) {
    const last = merged.at(-1);
    if (last && from <= last[1] + stacks.doc.elapsed * 1e-4) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  return merged;
}

interface Placed {
  lane: Lane;
  depth: number;
  top: number;
}

/** Lanes below each other. */
function placed(lanes: { lane: Lane; depth: number }[], from: number): { rows: Placed[]; height: number } {
  let top = from;
  const rows = lanes.map(({ lane, depth }) => {
    const row = { lane, depth, top };
    top += lane.height;
    return row;
  });
  return { rows, height: top + 2 };
}

const KERNEL_OVER_TIME = "kernel?group=time,cause&limit=60";

export function TimelineView({ height }: { height: number }) {
  const shown = useShown();
  const { stacks, error } = useStacks();
  const { value: traffic } = useDoc<Table>("bandwidth");
  const { value: kernel } = useDoc<Table>(KERNEL_OVER_TIME);
  const { value: memory } = useDoc<Table>("timeline?limit=400");
  const { value: summary } = useDoc<Summary>("summary");
  const { value: perThread } = useDoc<Table>("timeline?group=thread&limit=60");
  const [head, body] = [useRef<SVGSVGElement>(null), useRef<SVGSVGElement>(null)];
  const [box, width] = useWidth<HTMLDivElement>(fullWidth());
  const [window, setWindow] = useState<[number, number]>();
  const [drag, setDrag] = useState<[number, number]>();
  const [hover, setHover] = useState<{ time: number; lane?: Lane }>();
  const [focus, setFocus] = useState<string>();
  // With the document that it is of: a closer look has other numbers.
  const [picked, setPicked] = useState<{ one: Moment; of: Moments }>();
  const elapsed = stacks?.doc.elapsed ?? 1;
  const [start, end] = window ?? [0, elapsed];
  const range = useMemo((): [number, number] => [start, end], [start, end]);
  const { moments, whole, tile } = useMoments(stacks, range);
  const followed = useMemo(() => statesOf(perThread), [perThread]);
  const near = useDoc<Table>(tile && followed.size > 0 ? withFilters("timeline?group=thread&limit=200", [["time", `${tile[0]}..${tile[1]}`]]) : null);
  const nearKernel = useDoc<Table>(tile && kernel?.rows.length ? withFilters(KERNEL_OVER_TIME, [["time", `${tile[0]}..${tile[1]}`]]) : null);
  const entries = tile && nearKernel.value && !nearKernel.waiting ? nearKernel.value : kernel;
  const states = useMemo(() => (tile && near.value && !near.waiting ? statesOf(near.value) : followed), [followed, near.value, near.waiting, tile?.join()]);
  // The whole time stays visible: the selection is drawn, not cut out.
  const choice = useMemo(() => choiceOf({ only: shown.only, without: shown.without }), [shown.only, shown.without]);
  const exact = moments !== undefined && (moments.has("samples") || !choosesCode(choice));
  const left = leftOf(width);
  const bins = Math.max(50, Math.ceil((width - left) / 2));
  const busy = useMemo(() => {
    if (!stacks) return new Map<string, Busy>();
    if (!moments || !exact) return busyOfStacks(stacks, choice);
    const ofThread = stacks.doc.threads.map(({ label, process }) => [`thread ${label}`, `process ${process}`]);
    const ofCpu = new Map(stacks.doc.cpus.map(({ cpu, node }) => [cpu, [`cpu ${cpu}`, `node ${node ?? ""}`]]));
    return moments.busy(choice, range, bins, (thread, cpu) => [...(ofThread[thread] ?? []), ...(ofCpu.get(cpu) ?? [])]);
  }, [stacks, moments, exact, choice, range, bins]);
  const figures = useMemo(() => {
    if (!stacks) return [];
    const close = moments?.has("samples") ? moments : undefined;
    return figureLanes({ stacks, choice, traffic, entries, memory, summary, moments: close, busy: close?.busy(choice, range, binsFor("samples", close, choice, range), () => ["all"]), span: range });
  }, [stacks, traffic, entries, memory, summary, choice, moments, range]);
  const groups = useMemo(() => {
    if (!stacks) return [];
    const time = stacks.doc.figures.find((one) => one.key === "cpu_time");
    const order = stacks.doc.threads.map(() => 0);
    if (time) stacks.overTime(time, choice, (thread, _bin, _kernel, value) => { if (thread >= 0) order[thread]! += value; });
    return [...regionLanes(stacks), ...busyLanes(stacks, order)];
  }, [stacks, choice]);
  const parts = useMemo(() => {
    const time = stacks?.doc.figures.find((one) => one.key === "cpu_time");
    // Where no sample is seen, there may have been a little.
    const none = { from: range[0], width: range[1] - range[0], user: new Float64Array(1), kernel: new Float64Array(1) };
    const known = ({ type }: BusyLane) => type === "thread" || type === "process" || (exact && (type === "cpu" || type === "node"));
    const lanes = time ? groups.flatMap((group) => [group, ...group.children]).filter(known) : [];
    return new Map(lanes.map((lane): [string, Span[]] => [lane.id, busyParts(lane, busy.get(lane.id) ?? none, time!, range)]));
  }, [stacks, groups, busy, exact, range]);
  // Lanes stay where they are: what is below them must not move.
  const withoutCpus = !moments ? "" : !exact ? `n/a: sums per CPU do not say which code ran; ${whereMore(window !== undefined).replaceAll("`", "")}` : undefined;
  const pins = useMemo(() => listOf(shown.pins), [shown.pins]);
  const folds = useMemo(() => listOf(shown.folds), [shown.folds]);
  const marks = useMemo(() => marksOf(shown.marks), [shown.marks]);
  const isFolded = (lane: BusyLane) => startsFolded(lane) !== folds.includes(lane.id);
  const { pinned, rest } = arranged(figures, groups, pins, isFolded);
  const upper = placed(pinned.map((lane) => ({ lane, depth: 0 })), AXIS);
  const lower = placed(rest, 4);
  const x = useMemo(() => linear(start, end, left, width - 10, Math.min(8, Math.max(2, (width - left) / 90))), [start, end, left, width]);
  const drawn = useMemo((): Drawn => ({ x, width, range }), [x, width, range]);
  const search = shown.search.trim();
  const having = useMemo(() => (search && moments ? moments.stacks.having(search) : undefined), [search, moments]);
  const places = useMemo(() => (stacks ? placesOf(search, stacks, whole, choice) : []), [search, stacks, whole, choice]);
  const framed = useMemo(() => picked && { ...picked.one, cpu: picked.of.cpuOf(picked.one) }, [picked]);
  const toggled = (list: string[], id: string) => JSON.stringify(list.includes(id) ? list.filter((one) => one !== id) : [...list, id]);
  const pin = (id: string) => update({ pins: toggled(pins, id) });
  const fold = (id: string) => update({ folds: toggled(folds, id) });
  // A pointer that moves, or a selection, must not draw thousands of steps anew: the same elements are left alone.
  const areas = (rows: Placed[]) => rows.map(({ lane, top }) => lane.type === "figure"
    ? <FigureDrawing key={lane.id} lane={lane} top={top} drawn={drawn} />
    : lane.type === "region" || lane.type === "passes" ? <RegionDrawing key={lane.id} lane={lane} top={top} drawn={drawn} moments={moments} />
    : <BusyDrawing key={lane.id} lane={lane} top={top} drawn={drawn} busy={busy.get(lane.id)} parts={parts.get(lane.id) ?? []} moments={exact ? moments : undefined} choice={choice} having={having}
        states={lane.type === "thread" ? states.get(lane.name) : undefined} none={lane.type === "cpu" || lane.type === "node" ? withoutCpus : undefined} picked={framed} />);
  const order = `${[...pinned, ...rest.map(({ lane }) => lane)].map(({ id }) => id).join("\n")}`;
  const drawings = useMemo(() => [areas(upper.rows), areas(lower.rows)], [order, drawn, busy, parts, figures, moments, exact, choice, having, states, withoutCpus, framed, pinned.length]);
  if (error) return <Failed error={error} />;
  if (!stacks) return <Waiting />;

  // What no lane follows is said once, of all of them.
  const besides = { ...shown, only: { ...shown.only, object: undefined, region: undefined }, without: { ...shown.without, object: undefined, region: undefined } };
  const says = [
    unfollowed(shown, OF_STACKS, "Figures here", false),
    unfollowed(besides, ["time"], kernel?.rows.length ? "DRAM bandwidth, resident memory, interrupts, moved pages and reclaim" : "DRAM bandwidth and resident memory", false),
  ].filter((one): one is string => one !== undefined);
  const offset = (event: MouseEvent) => event.clientX - (body.current?.getBoundingClientRect().left ?? 0);
  const timeAt = (event: MouseEvent) => start + Math.min(1, Math.max(0, (offset(event) - left) / Math.max(1, width - 10 - left))) * (end - start);
  const laneAt = (event: MouseEvent): Lane | undefined => {
    for (const [svg, { rows }] of [[head.current, upper], [body.current, lower]] as const) {
      const box = svg?.getBoundingClientRect();
      if (!box || event.clientY < box.top || event.clientY >= box.bottom) continue;
      const y = event.clientY - box.top;
      return rows.find(({ lane, top }) => y >= top && y < top + lane.height)?.lane;
    }
    return undefined;
  };
  const show = (from: number, to: number) => {
    const span = Math.min(elapsed, Math.max(SHORTEST, to - from));
    const at = Math.min(elapsed - span, Math.max(0, from));
    setWindow(span >= elapsed ? undefined : [at, at + span]);
  };
  const zoom = (factor: number, around: number) => {
    const span = Math.min(elapsed, Math.max(SHORTEST, (end - start) * factor));
    const from = around - ((around - start) / (end - start)) * span;
    show(from, from + span);
  };
  const pan = (part: number) => {
    const step = Math.max(-start, Math.min(elapsed - end, part * (end - start)));
    if (window) setWindow([start + step, end + step]);
  };
  const select = (from: number, to: number) => {
    const [low, high] = from < to ? [from, to] : [to, from];
    update({ from: Number(low.toPrecision(9)), to: Number(high.toPrecision(9)) });
  };
  /** Pixels in seconds. */
  const pixels = (many: number) => (many * (end - start)) / Math.max(1, width - left - 10);
  const eventAt = (lane: Lane | undefined, time: number): Moment | undefined => {
    if (!moments || !exact || !lane || (lane.type !== "thread" && lane.type !== "cpu")) return undefined;
    const key = lane.type === "thread" ? `t${lane.thread}` : `c${lane.cpu}`;
    const hit = (kind: Moment["kind"], room: number) => moments.grouped(kind, choice, range).get(key)?.find(({ from, to }) => time >= from - room && time <= to + room);
    return (lane.type === "thread" ? hit("faults", pixels(2)) ?? hit("waits", 0) : undefined) ?? hit("samples", 0) ?? (lane.type === "thread" ? hit("bursts", pixels(1)) : undefined);
  };
  const passAt = (lane: Lane | undefined, time: number): Pass | undefined =>
    lane?.type === "passes" ? moments?.passes.get(`r${lane.region} t${lane.thread}`)?.find(({ from, to }) => time >= from - pixels(1) && time <= to + pixels(1)) : undefined;
  const onClick = (event: MouseEvent) => {
    const found = eventAt(laneAt(event), timeAt(event));
    const lane = laneAt(event);
    if (lane) setFocus(lane.id);
    const pass = passAt(lane, timeAt(event));
    if (pass) return select(pass.from, pass.to);
    setPicked(found && moments && { one: found, of: moments });
    if (!found) update({ from: undefined, to: undefined });
  };
  const release = (event: MouseEvent) => {
    if (!drag) return;
    // A click is no selection.
    if (Math.abs(drag[1] - drag[0]) < pixels(4)) onClick(event);
    else select(...drag);
    setDrag(undefined);
  };
  const all = [...upper.rows, ...lower.rows].map(({ lane }) => lane);
  const here = all.find(({ id }) => id === focus);
  // What the pointer would tell, the keys do: of their lane, in the middle of what is seen.
  const pointed = hover ?? (here && !picked ? { time: (start + end) / 2, lane: here } : undefined);
  const move = (step: number) => {
    const next = all[Math.min(all.length - 1, Math.max(0, all.findIndex(({ id }) => id === focus) + step))];
    if (!next) return;
    setFocus(next.id);
    const top = lower.rows.find(({ lane }) => lane.id === next.id)?.top;
    const scroller = body.current?.parentElement;
    if (top === undefined || !scroller) return;
    const room = scroller.clientHeight - upper.height;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + next.height > scroller.scrollTop + room) scroller.scrollTop = top + next.height - room;
  };
  /** The next sample, wait or fault of the lane that has the focus, or the one before. */
  const stepTo = (direction: 1 | -1) => {
    const lane = here ?? all.find(({ type }) => type === "thread");
    if (!moments || !exact || !lane || (lane.type !== "thread" && lane.type !== "cpu")) return;
    setFocus(lane.id);
    const from = picked ? picked.one.from : direction > 0 ? start : end;
    let best: Moment | undefined;
    for (const kind of ["samples", "waits", "faults"] as const) {
      if (!moments.has(kind)) continue;
      moments.each(kind, choice, [moments.doc.from, moments.doc.to], (one) => {
        if (lane.type === "thread" ? one.thread !== lane.thread : moments.cpuOf(one) !== lane.cpu) return;
        if ((one.from - from) * direction > 1e-7 && (!best || (best.from - one.from) * direction > 0)) best = one;
      });
    }
    if (!best) return;
    setPicked({ one: best, of: moments });
    if (best.from < start || best.to > end) show((best.from + best.to - (end - start)) / 2, (best.from + best.to + (end - start)) / 2);
  };
  const goTo = (direction: 1 | -1) => {
    const middle = (start + end) / 2;
    const next = direction > 0 ? places.find(([from, to]) => (from + to) / 2 > middle + pixels(2)) ?? places[0] : [...places].reverse().find(([from, to]) => (from + to) / 2 < middle - pixels(2)) ?? places.at(-1);
    if (!next) return;
    const span = Math.max((next[1] - next[0]) * 1.25, window ? end - start : elapsed / 20);
    show((next[0] + next[1] - span) / 2, (next[0] + next[1] + span) / 2);
  };
  const mark = () => {
    const { from, to } = shown;
    const at = hover?.time ?? (picked ? picked.one.from : (start + end) / 2);
    update({ marks: withMark(marks, from !== undefined && to !== undefined ? { from, to } : { from: at }) });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey) return;
    const middle = (start + end) / 2;
    const width = end - start;
    const { from, to } = shown;
    const keys: Record<string, () => void> = {
      "+": () => zoom(0.5, middle), "=": () => zoom(0.5, middle), "-": () => zoom(2, middle),
      ArrowLeft: () => (event.shiftKey ? select((from ?? start) - width / 20, to ?? middle) : pan(-0.2)),
      ArrowRight: () => (event.shiftKey ? select(from ?? start, (to ?? middle) + width / 20) : pan(0.2)),
      ArrowUp: () => move(-1), ArrowDown: () => move(1),
      ".": () => stepTo(1), ",": () => stepTo(-1),
      n: () => goTo(1), N: () => goTo(-1),
      m: mark,
      p: () => here && pin(here.id),
      c: () => here && here.type !== "figure" && here.children.length > 0 && fold(here.id),
      f: () => here && here.type !== "figure" && here.filter && choose(here.filter, here.name, "only"),
      Escape: () => { setPicked(undefined); update({ from: undefined, to: undefined }); },
      "0": () => setWindow(undefined),
      z: () => from !== undefined && to !== undefined && show(from, to),
      s: () => select(start, end),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };
  const marked = drag ?? (shown.from !== undefined && shown.to !== undefined ? [shown.from, shown.to] as [number, number] : undefined);
  const step = x.ticks.length > 1 ? x.ticks[1]! - x.ticks[0]! : end - start;
  const label = timesOf(step, end);
  const foldable = groups.filter(({ children }) => children.length > 0);
  const foldAll = foldable.some((lane) => !isFolded(lane));
  const heads = (rows: Placed[]) => rows.map(({ lane, depth, top }) => (
    <LaneHead key={lane.id} lane={lane} top={top} depth={depth} width={width} focused={lane.id === focus} pinned={pins.includes(lane.id)} onPin={() => pin(lane.id)}
      chosen={lane.type !== "figure" && lane.filter !== undefined && (shown.only[lane.filter]?.includes(lane.name) ?? false)} found={search !== "" && lane.label.toLowerCase().includes(search.toLowerCase())}
      {...(lane.type !== "figure" && lane.children.length > 0 ? { folded: isFolded(lane), onFold: () => fold(lane.id) } : {})} />
  ));
  const over = (from: number, total: number) => (
    <>
      <ProgramMarks marks={stacks?.doc.marks ?? []} x={x} range={range} left={left} right={width - 10} top={from} bottom={total} flags={from > 0} />
      <MarkLines marks={marks} x={x} range={range} left={left} right={width - 10} top={from} bottom={total} />
      {marked && <Selection x={x} marked={marked} width={width} left={left} top={from} height={total} />}
      {pointed && !drag && pointed.time >= start && <line class="cursor" x1={x.at(pointed.time)} x2={x.at(pointed.time)} y1={from} y2={total} />}
    </>
  );
  const grid = (from: number, total: number) => x.ticks.map((tick) => <line key={tick} class="gridline" x1={x.at(tick)} x2={x.at(tick)} y1={from} y2={total} />);
  return (
    <>
      <div class="bar">
        <button onClick={() => zoom(0.5, (start + end) / 2)}>Zoom in</button>
        <button onClick={() => zoom(2, (start + end) / 2)}>Zoom out</button>
        {marked && <button onClick={() => show(Math.min(...marked), Math.max(...marked))}>Zoom to selection</button>}
        {window && <button onClick={() => setWindow(undefined)}>Whole run</button>}
        <span class="quiet">{timeSpan(start, end)}</span>
        <input type="search" placeholder="Find a function or thread" aria-label="Find a function or thread" value={shown.search}
          onInput={(event) => update({ search: event.currentTarget.value })} onKeyDown={(event) => { if (event.key === "Enter") goTo(event.shiftKey ? -1 : 1); }} />
        {search && <span role="status">{counted(places.length, "place")}{places.length > 0 && <>{" "}<button onClick={() => goTo(-1)}>Previous</button>{" "}<button onClick={() => goTo(1)}>Next</button></>}</span>}
        <button title="A mark at the pointer, or of the selection (m)" onClick={mark}>Mark</button>
        {foldable.length > 0 && <button onClick={() => update({ folds: JSON.stringify(foldable.filter((lane) => startsFolded(lane) !== foldAll).map(({ id }) => id)) })}>{foldAll ? "Fold all" : "Unfold all"}</button>}
        {pins.length > 0 && <button onClick={() => update({ pins: "" })}>Unpin all</button>}
        <SaveDrawing of={() => [head.current, body.current]} name="timeline" />
        <details class="menu">
          <summary>Keys</summary>
          <div class="menu-body">{KEYS.map(([key, what]) => <div key={key}><kbd>{key}</kbd> {what}</div>)}</div>
        </details>
      </div>
      <Notes notes={says} />
      <p class="readout" aria-live="polite">{pointed ? readout(pointed.time, timesOf(pixels(1), end), figures, pointed.lane, eventAt(pointed.lane, pointed.time), moments, stacks, passAt(pointed.lane, pointed.time), parts) : picked ? described(picked.one, picked.of, stacks) : <span class="quiet">Point at a lane: what is there at that time is said here. Drag to select a time, click for a single event.</span>}</p>
      <div class="lanes" ref={box} style={{ maxHeight: `${Math.max(220, height - 150)}px` }} tabIndex={0} role="application" aria-label="Timeline" onKeyDown={onKeyDown}
        onPointerDown={(event) => { if (event.button === 0 && offset(event) > left && offset(event) < width) { const at = timeAt(event); setDrag([at, at]); } }}
        onPointerMove={(event) => { const at = timeAt(event); if (drag) setDrag([drag[0], at]); setHover(offset(event) > left ? { time: at, lane: laneAt(event) } : undefined); }}
        onPointerUp={release}
        onPointerLeave={(event) => { setHover(undefined); release(event); }}
        onWheel={(event) => {
          // Without a key the wheel scrolls the lanes and the page, as everywhere.
          if (!event.shiftKey && !event.ctrlKey && !event.metaKey) return;
          event.preventDefault();
          if (event.shiftKey) pan(event.deltaY > 0 ? 0.1 : -0.1);
          else zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event));
        }}>
        <svg ref={head} class="top" width={width} height={upper.height} role="group" aria-label={`Times from ${label(start)} to ${label(end)}, and pinned lanes`}>
          {apart(x, plain(label), width - 8).map(({ tick, anchor }) => <text key={tick} class="tick" x={x.at(tick)} y={13} text-anchor={anchor}>{plain(label)(tick)}</text>)}
          {grid(18, upper.height)}
          {drawings[0]}
          {heads(upper.rows)}
          {places.map(([from, to]) => (to < start || from > end ? null : <rect key={from} class="hit" x={x.at(Math.max(start, from))} y={AXIS - 6} width={Math.max(1.5, x.at(Math.min(end, to)) - x.at(Math.max(start, from)))} height={3} />))}
          {over(18, upper.height)}
        </svg>
        <svg ref={body} class="rest" width={width} height={lower.height} role="group" aria-label={`Timeline of ${seconds(elapsed)}: ${all.map((lane) => lane.label).slice(0, 12).join(", ")}${all.length > 12 ? ` and ${all.length - 12} more lanes` : ""}`}>
          {grid(0, lower.height)}
          {drawings[1]}
          {heads(lower.rows)}
          {over(0, lower.height)}
        </svg>
      </div>
      <Legend states={states.size > 0} traffic={figures.some((lane) => !lane.none && lane.kinds.includes("read"))} bursts={(moments?.doc.bursts.count ?? 0) > 0} pauses={(stacks.doc.marks ?? []).some(({ to }) => to !== undefined)} />
      {picked && <Picked moment={picked.one} moments={picked.of} stacks={stacks} />}
      <ProgramMarkList marks={stacks.doc.marks ?? []} show={show} select={select} label={timesOf((end - start) / 100, end)} />
      <MarkList marks={marks} show={show} select={select} label={timesOf((end - start) / 100, end)} />
      <Notes notes={[...(busy.size > 0 ? [COUNTS] : []), ...ofDetail(moments, window !== undefined), ...(traffic && traffic.rows.length === 0 ? ["No bandwidth over time in this result.", ...traffic.notes] : []), ...(stacks.doc.threads.length > THREADS ? [`${THREADS} of ${stacks.doc.threads.length} threads are drawn, the busiest.`] : []), ...((stacks.doc.regions?.length ?? 0) > REGIONS ? [`${REGIONS} of ${stacks.doc.regions!.length} regions are drawn, those with most time.`] : [])]} />
    </>
  );
}

const KEYS: [string, string][] = [
  ["← →", "move"], ["+ -", "zoom; Ctrl and the wheel too"], ["0", "whole run"], ["Shift ← →", "select"], ["s", "select what is seen"], ["z", "zoom to the selection"], ["Esc", "no selection"],
  ["↑ ↓", "lane"], [". ,", "next or previous event of the lane"], ["p", "pin the lane on top"], ["c", "fold or unfold"], ["f", "filter by the thread, process or region"], ["n N", "next or previous place found"], ["m", "mark"],
];

const COUNTS = "How busy a node, a CPU, a process or a thread was, is a count of samples: its band is the 95 % interval of the mean over the band's width.";

/** How to see single samples where here are sums. */
const whereMore = (zoomed: boolean): string => (mode() === "server" ? (zoomed ? "zoom in further" : "zoom in") : "`fathom open` has them");

/** What of the closer look is not here. */
function ofDetail(moments: Moments | undefined, zoomed: boolean): string[] {
  if (!moments) return [];
  const found: string[] = [];
  const missing = (["samples", "faults", "waits", "bursts"] as const).filter((kind) => !moments.has(kind));
  if (missing.length > 0) found.push(`Too many ${missing.map((kind) => `${NAMES[kind]} (${moments.doc[kind].count.toLocaleString("en")})`).join(", ")} to show each: ${whereMore(zoomed)}.`);
  if (moments.has("samples") && moments.doc.samples.count > 0) found.push("A sample stands for the CPU time before it; from near each is drawn over that time, in the colour of its function in the flame graph.");
  if (moments.doc.merged_waits > 0) found.push(`${moments.doc.merged_waits.toLocaleString("en")} short waits were recorded as sums: they are in the shares of the states, not drawn one by one.`);
  return found;
}

const NAMES: Record<Moment["kind"], string> = { samples: "samples", faults: "page faults", waits: "waits", bursts: "bursts" };

/** One of them in words. */
function described(one: Moment, moments: Moments, stacks: Stacks): string {
  const { doc } = moments;
  const thread = stacks.doc.threads[one.thread]?.label ?? "";
  const fn = moments.framesOf(one)[0]?.fn;
  const where = fn === undefined ? "" : `, in ${shortName(moments.stacks.functionName(fn))}`;
  const cpu = moments.cpuOf(one);
  switch (one.kind) {
    case "samples": return `sample of ${seconds(one.to - one.from)}, ${thread}${cpu === undefined ? "" : `, CPU ${cpu}`}${where}${moments.isKernel(one) ? " (kernel)" : ""}`;
    case "faults": return `${counted(doc.faults.weight[one.at]!, doc.faults.major[one.at] ? "major page fault" : "page fault")}, ${thread}${where}`;
    case "waits": return `waits ${seconds(one.to - one.from)}, ${thread}: ${doc.states[doc.waits.state[one.at]!] ?? "?"}${where}`;
    case "bursts": return `burst of ${seconds(one.to - one.from)}, ${thread}: ${doc.bursts.flavour[one.at]}`;
  }
}

function readout(time: number, label: (time: number) => string, figures: FigureLane[], lane: Lane | undefined, one: Moment | undefined, moments: Moments | undefined, stacks: Stacks, pass: Pass | undefined, busy: Map<string, Span[]>): string {
  const parts = figures.flatMap((figure) => {
    const span = figure.spans.find(({ from, to }) => time >= from && time < to);
    if (!span) return [];
    const values = span.values.map((value, kind) => (figure.names[kind] && (value > 0 || figure.names.length === 1) ? `${figure.names[kind]} ${figure.format(value)}` : "")).filter(Boolean);
    const ends = span.low !== undefined && span.high !== undefined && figure.format(span.low) !== figure.format(span.high) ? ` (95 % interval ${figure.names[1] ? "of the sum " : ""}${figure.format(span.low)} to ${figure.format(span.high)})` : "";
    const peak = span.peak === undefined || values.length === 0 ? "" : `, such a mix reaches ${figure.format(span.peak)} here`;
    return values.length > 0 ? [`${figure.label}: ${values.join(", ")}${ends}${peak}`] : [];
  });
  const region = pass && `${stacks.doc.regions?.[pass.region]?.name}: ${saysPass(pass)}, ${stacks.doc.threads[pass.thread]?.label}; click selects its time. `;
  const part = lane && busy.get(lane.id)?.find(({ from, to }) => time >= from && time < to);
  const ends = part?.low === undefined || part.high === undefined ? "" : `, 95 % interval ${digits(part.low)} to ${digits(part.high)}`;
  const mean = part ? `: ${digits(part.values[0]!)} busy on average from ${label(part.from)} to ${label(part.to)}${ends}` : "";
  const event = region ?? (one && moments ? `${described(one, moments, stacks)}. ` : lane && lane.type !== "figure" ? `${lane.label}${mean}. ` : "");
  return `${label(time)}. ${event}${parts.join("; ")}`;
}

/** What was clicked, with its stack. */
function Picked({ moment, moments, stacks }: { moment: Moment; moments: Moments; stacks: Stacks }) {
  const frames = moments.framesOf(moment);
  const of = moments.stacks;
  const label = timesOf(1e-6, moment.to);
  return (
    <section class="card" aria-label="Chosen event">
      <p>{label(moment.from)}{moment.to > moment.from ? ` to ${label(moment.to)}` : ""}: {described(moment, moments, stacks)}</p>
      <ol class="stack">
        {frames.slice(0, 40).map(({ fn, line }, at) => <li key={at}><FunctionLink name={of.functionName(fn)} file={of.fileOf(fn)} line={line} /> <span class="quiet">{of.moduleOf(fn)}</span></li>)}
      </ol>
      {frames[0] && <button onClick={() => choose("function", of.functionName(frames[0]!.fn), "only")}>Filter by this function</button>}
    </section>
  );
}

function Selection({ x, marked, width, left, top, height }: { x: Scale; marked: [number, number]; width: number; left: number; top: number; height: number }) {
  const clamp = (value: number) => Math.min(width - 10, Math.max(left, x.at(value)));
  const [from, to] = [clamp(Math.min(...marked)), clamp(Math.max(...marked))];
  return (
    <g class="selection">
      <rect class="outside" x={left} y={top} width={Math.max(0, from - left)} height={height - top} />
      <rect class="outside" x={to} y={top} width={Math.max(0, width - 10 - to)} height={height - top} />
      <path class="edge" d={`M${from} ${top}V${height}M${Math.max(from + 1, to)} ${top}V${height}`} />
    </g>
  );
}
