// 6 Roofline: arithmetic against the traffic with one level of memory, under the roofs of all levels. Both axes are logarithmic.
// A point is a loop or a function; its roof is that of the level whose bytes are on the axis, and the lowest of its roofs is in
// the table.

import { useRef, useState } from "preact/hooks";
import { useDoc, withFilters } from "../data";
import { counted, digits, figure, provenance, rate, sentence, shortName } from "../format";
import type { Roof, Summary } from "../generated";
import { Failed, Notes, NoThread, Prose, SaveDrawing, useWidth, Waiting } from "../parts";
import { Axes, Whisker, logarithmic, type Scale } from "../plot";
import { OF_STACKS, filtersOf, noThreadLeft, unfollowed } from "../selection";
import { useShown } from "../state";
import { Room, type Name } from "../room";
import { DocTable } from "../table";
import { useStacks } from "./calls";
import { namesOf, type RoofLine, type SpotName } from "./roofline_names";
import { isMetric, textOf, valueOf, type Row, type Table } from "../types";

const HEIGHT = 400;
/** Pixels below which names of roofs have no room for their rates. */
const NARROW = 760;
/** From here on there is room for that of one thread, too. */
const WIDE = 1200;
const LEFT = 60;
/** Percent of the time: points with less are left out. */
const LEAST = 0.5;
/** Names in a sentence. */
const NAMED = 3;

/** Levels from the furthest on, with the column of the operations per byte that comes from there. */
const LEVELS = [["DRAM", "dram_intensity", "memory"], ["L3", "l3_intensity", "L3"], ["L2", "l2_intensity", "L2"], ["L1", "intensity", "L1"]] as const;
type Level = (typeof LEVELS)[number][0];

const COLUMNS = ["function", "part", "self_percent", "flop_percent", "flop_rate", "roof", "bound", "vector_percent", "intensity", "l2_intensity", "l3_intensity", "dram_intensity", "threads", "above", "file", "line", "module"];

export function RooflineView({ height }: { height: number }) {
  const shown = useShown();
  const { stacks } = useStacks();
  const [by, setBy] = useState<"loop" | "function">("loop");
  const [wanted, setLevel] = useState<Level>();
  const question = by === "loop" ? "roofline?group=loop&limit=100" : "roofline?limit=100";
  const { value: table, error } = useDoc<Table>(withFilters(question, filtersOf(shown, OF_STACKS, stacks?.doc.threads)));
  const says = unfollowed(shown, OF_STACKS, "Figures here", true);
  const { value: summary } = useDoc<Summary>("summary");
  const [chosen, setChosen] = useState<Row>();
  if (noThreadLeft(shown, stacks?.doc.threads)) return <>{says && <p class="quiet">{says}</p>}<NoThread /></>;
  if (error) return <Failed error={error} />;
  if (!table) return <Waiting />;
  // Without a choice, what takes most of the time shows its levels.
  const first = [...table.rows].sort((a, b) => (valueOf(b.self_percent) ?? 0) - (valueOf(a.self_percent) ?? 0))[0];
  const at = chosen && table.rows.includes(chosen) ? chosen : first;
  // What has nothing from memory is shown with what it has from nearer levels.
  const [furthest] = LEVELS.find(([, column]) => first && pointOf(first, column)) ?? LEVELS[0];
  const level = wanted ?? furthest;
  return (
    <>
      {says && <p class="quiet">{says}</p>}
      <div class="bar">
        <label>Points <select value={by} onChange={(event) => setBy(event.currentTarget.value === "loop" ? "loop" : "function")}>
          <option value="loop">loops</option>
          <option value="function">functions</option>
        </select></label>
        <label>Bytes from <select value={level} onChange={(event) => setLevel((LEVELS.find(([name]) => name === event.currentTarget.value) ?? LEVELS[0])[0])}>
          {LEVELS.map(([name, , words]) => <option key={name} value={name}>{words}</option>)}
        </select></label>
      </div>
      {summary && <Drawing table={table} roofs={summary.machine.roofs ?? []} level={level} chosen={at} choose={setChosen} />}
      {table.rows.length === 0 ? <Notes notes={table.notes} /> : <DocTable table={table} height={Math.max(200, height - HEIGHT - 160)} selected={(row) => row === at} onSelect={setChosen} keys={COLUMNS} />}
    </>
  );
}

/** Powers of ten, also small ones. */
const onAxis = (value: number): string => (value < 0.01 ? value.toExponential(0) : digits(value));

/** The name of a point: of a loop with its line. */
const nameOf = (row: Row): string => {
  const [name, line, part] = [shortName(textOf(row.function)), textOf(row.line), textOf(row.part)];
  return part.startsWith("loop") && line !== "" ? `${name}:${line}` : name;
};
const cut = (name: string) => (name.length > 32 ? `${name.slice(0, 31)}…` : name);

/** From where to where the truth may be: to the edge of the drawing where no end is known. */
function ends(cell: Row[string] | undefined, [least, most]: [number, number]): [number, number] | undefined {
  if (!isMetric(cell) || cell.value === undefined) return undefined;
  const { value, low, high, samples } = cell;
  if (low === undefined && high === undefined && samples <= 1) return [value, value];
  return [Math.max(least, low ?? least), Math.min(most, high ?? most)];
}

const stated = (cell: Row[string] | undefined): string => provenance(isMetric(cell) ? cell : undefined);

interface Point {
  row: Row;
  intensity: number;
  speed: number;
  share: number;
}

const pointOf = (row: Row, key: string): Point | undefined => {
  const [intensity, speed, share] = [valueOf(row[key]), valueOf(row.flop_rate), valueOf(row.self_percent)];
  return intensity && speed ? { row, intensity, speed, share: share ?? 0 } : undefined;
};

interface DrawingProps {
  table: Table;
  roofs: Roof[];
  level: Level;
  chosen: Row | undefined;
  choose: (row: Row) => void;
}

function Drawing({ table, roofs, level, chosen, choose }: DrawingProps) {
  const svg = useRef<SVGSVGElement>(null);
  const [box, width] = useWidth<HTMLDivElement>();
  const [, key, words] = LEVELS.find(([name]) => name === level) ?? LEVELS[0];
  const sum = (of: (row: Row) => number) => table.rows.reduce((all, row) => all + of(row), 0);
  const doubles = sum((row) => (valueOf(row.flops) ?? 0) * ((valueOf(row.double_percent) ?? 0) / 100 - 0.5));
  const precision = doubles >= 0 ? "double" : "single";
  const known = roofs.filter((roof) => roof.rate.value !== undefined && (roof.precision ?? precision) === precision);
  const of = (name: string) => known.filter((roof) => roof.roof === name).sort((a, b) => b.threads - a.threads);
  const vectors = of("vector");
  const peak = Math.max(...[...vectors, ...of("scalar")].map((roof) => roof.rate.value ?? 0));
  const sloped = known.filter((roof) => LEVELS.some(([name]) => name === roof.roof));
  if (peak <= 0 || sloped.length === 0) return <p class="empty">The roofs of this machine are unknown: run <code>fathom machine</code>, then record again.</p>;
  const all = table.rows.flatMap((row) => pointOf(row, key) ?? []);
  const points = all.filter((point) => point.share >= LEAST || point.row === chosen);
  const others = chosen ? LEVELS.filter(([name]) => name !== level).flatMap(([name, column]) => { const point = pointOf(chosen, column); return point ? [{ ...point, name, column }] : []; }) : [];
  const xs = [...points, ...others].map((point) => point.intensity);
  const slowest = Math.min(...sloped.map((roof) => roof.rate.value ?? Infinity));
  const low = Math.min(0.05, ...xs.map((one) => one / 2));
  const high = Math.max(peak / slowest * 4, ...xs.map((one) => one * 3));
  const speeds = [...points, ...others].map((point) => point.speed);
  const bottom = Math.min(low * slowest, ...speeds.map((one) => one / 3));
  const top = Math.max(peak, ...speeds) * 2;
  const x = logarithmic(low, high, LEFT, width - 16);
  const y = logarithmic(bottom, top, HEIGHT - 40, 12);
  const most = Math.max(...known.map((roof) => roof.threads));
  const flat = [...vectors, ...of("scalar")];
  const lines = [...sloped.map((roof) => slopedLine(roof, { x, y, low, bottom }, vectors.find((one) => one.threads === roof.threads)?.rate.value ?? peak)), ...flat.map((roof) => flatLine(roof, { x, y, low, high }, sloped))];
  const said = [...sloped.map((roof) => (roof === of(roof.roof)[0] ? nameOfLevel(roof, of(roof.roof).find((other) => other.threads < roof.threads)?.rate.value, roof.roof === level, width) : "")), ...flat.map((roof) => `${roof.roof} ${rate(roof.rate.value ?? 0, "GFLOP/s")}`)];
  const named = lines.map((line, at): RoofLine => ({ ...line, text: said[at]!, here: line.roof.roof === level }));
  const circles = others.map((point) => ({ x: x.at(point.intensity), y: y.at(point.speed) }));
  const room = new Room(LEFT, 20, width - 8, HEIGHT - 42);
  const names = namesOf(room, named, circles, levelNames(others, x, y), points.map((point) => ({ x: x.at(point.intensity), y: y.at(point.speed), radius: radiusOf(point), text: cut(nameOf(point.row)), weight: point.row === chosen ? Infinity : point.share })));
  // A roof whose name has no room has its figure in the legend.
  const unnamed = lines.filter((_, at) => said[at] !== "" && (!names.roofs[at] || (width < NARROW && at < sloped.length))).map(({ roof }) => `${roof.roof} ${figure(roof.rate)}`);
  const missing = new Map<string, string[]>();
  for (const { roof, threads, rate: { note = "not measured" } } of roofs.filter((one) => one.rate.value === undefined && (one.precision ?? precision) === precision)) {
    const name = of(roof).length === 0 ? roof : `${roof} with ${counted(threads, "thread")}`;
    missing.set(note, [...new Set([...(missing.get(note) ?? []), name])]);
  }
  const none = chosen?.[key];
  const why = isMetric(none) ? none.note : undefined;
  // Those left out above are said there.
  const undrawn = new Map<string, Set<string>>();
  for (const row of table.rows.filter((one) => pointOf(one, key) === undefined)) {
    const unknown = [row[key], row.flop_rate].find((one) => isMetric(one) && one.value === undefined);
    const reason = (isMetric(unknown) ? unknown.note : undefined) ?? "no bytes come from there";
    undrawn.set(reason, (undrawn.get(reason) ?? new Set()).add(cut(nameOf(row))));
  }
  const above = points.filter((point) => textOf(point.row.above) !== "");
  return (
    <>
      <div class="plot" ref={box}>
        <svg ref={svg} width={width} height={HEIGHT} role="group" aria-label={`Roofline: ${known.filter((roof) => roof.threads === most).map((roof) => `${roof.roof} ${figure(roof.rate)}`).join(", ")}; ${counted(points.length, "point")}`}>
          <Axes width={width} height={HEIGHT} x={x} y={y} left={LEFT} bottom={40} format={onAxis} formatY={onAxis} xLabel={`FLOP per byte from ${words}`} yLabel="GFLOP/s">
            {lines.map(({ roof, from, to }, at) => (
              <g key={`${roof.roof} ${roof.threads}`} class={`roof${roof.roof === level ? " here" : ""}${roof.threads === most ? "" : " one"}`}>
                <title>{about(roof)}</title>
                <line x1={from[0]} y1={from[1]} x2={to[0]} y2={to[1]} />
                <Named name={names.roofs[at]} />
              </g>
            ))}
            {others.length > 0 && <OtherLevels points={others} names={names.levels} {...{ x, y }} from={pointOf(chosen!, key)?.intensity} />}
            {points.map((point, number) => <Dot key={nameOf(point.row) + textOf(point.row.module) + textOf(point.row.part)} point={point} column={key} {...{ x, y }} label={names.spots[number]} ranges={[[low, high], [bottom, top]]} chosen={point.row === chosen} choose={choose} />)}
          </Axes>
        </svg>
        <SaveDrawing svg={svg} name="roofline" />
      </div>
      <p class="legend">{`Roofs are of ${precision} precision${most > 1 ? `, solid of ${counted(most, "thread")}, dashed of one` : ""}; strong is that of ${words}, whose bytes are on the axis. A point is as large as its share of the time; its rate is of all threads that run meanwhile. Small circles are the chosen one's other levels, each under its own roof.${unnamed.length > 0 ? ` ${unnamed.join(", ")}.` : ""}`}</p>
      {all.length > points.length && <p class="legend">{`${counted(all.length - points.length, "point")} with less than ${LEAST} % of the time left out.`}</p>}
      {points.length > 0 && [...undrawn].map(([reason, of]) => <p key={reason} class="legend">{`Not drawn: ${[...of].slice(0, NAMED).join(", ")}${of.size > NAMED ? ` and ${of.size - NAMED} more` : ""} (${reason.replace("from there", `from ${words}`)}).`}</p>)}
      {[...missing].filter(([, names]) => !table.notes.some((note) => note.startsWith(`No roof of ${names.join(", ")}`))).map(([why, names]) => <p key={why} class="legend"><Prose text={`No roof of ${names.join(", ")}: ${why}.`} /></p>)}
      {above.map((point) => <p key={nameOf(point.row)} class="legend"><Prose text={`${nameOf(point.row)} is above its roof: ${textOf(point.row.above)}.`} /></p>)}
      {points.length === 0 && <p class="empty"><Prose text={table.empty ? sentence(table.empty) : `Nothing here has both measured arithmetic and measured traffic with ${words}${why ? `: ${why}` : ""}.`} /></p>}
    </>
  );
}

const about = (roof: Roof): string =>
  `${roof.roof}, ${counted(roof.threads, "thread")}${roof.like ? `, ${roof.precision ? roof.like : `measured with ${roof.like}`}` : ""}: ${provenance(roof.rate)}`;

interface Frame {
  x: Scale;
  y: Scale;
  low: number;
}

type Drawn = Pick<RoofLine, "from" | "to"> & { roof: Roof };

/** The roof of a level, up to that of arithmetic. */
function slopedLine(roof: Roof, { x, y, low, bottom }: Frame & { bottom: number }, ceiling: number): Drawn {
  const bandwidth = roof.rate.value ?? 0;
  const from = Math.max(low, bottom / bandwidth);
  return { roof, from: [x.at(from), y.at(from * bandwidth)], to: [x.at(ceiling / bandwidth), y.at(ceiling)] };
}

/** The roof of arithmetic, from where the fastest level reaches it. */
function flatLine(roof: Roof, { x, y, low, high }: Frame & { high: number }, sloped: Roof[]): Drawn {
  const speed = roof.rate.value ?? 0;
  const fastest = Math.max(...sloped.filter((one) => one.threads === roof.threads).map((one) => one.rate.value ?? 0));
  return { roof, from: [x.at(Math.max(low, speed / fastest)), y.at(speed)], to: [x.at(high), y.at(speed)] };
}

/** Where rates have no room, the legend has them. `one`: what one thread reaches, where this is of more. */
function nameOfLevel(roof: Roof, one: number | undefined, here: boolean, width: number): string {
  if (width < NARROW) return roof.roof;
  return `${roof.roof} ${rate(roof.rate.value ?? 0, "GB/s")}${here && one && width >= WIDE ? `, one thread ${rate(one, "GB/s")}` : ""}`;
}

function Named({ name }: { name: Name | undefined }) {
  if (!name) return null;
  const { text, x, y, anchor, turn } = name;
  return <text class="tick" text-anchor={anchor} {...(turn ? { transform: `translate(${x},${y}) rotate(${turn})` } : { x, y })}>{text}</text>;
}

/** Levels that nearly as many bytes come from have their names together. */
function levelNames(points: (Point & { name: string })[], x: Scale, y: Scale): { x: number; y: number; text: string }[] {
  const places: { from: number; to: number; names: string[] }[] = [];
  for (const point of [...points].sort((a, b) => a.intensity - b.intensity)) {
    const place = x.at(point.intensity);
    const last = places.at(-1);
    if (last && place - last.to < 16 + 14 * last.names.length) Object.assign(last, { to: place, names: [...last.names, point.name] });
    else places.push({ from: place, to: place, names: [point.name] });
  }
  return places.map(({ from, to, names }) => ({ x: (from + to) / 2, y: y.at(points[0]!.speed), text: names.join(", ") }));
}

/** The chosen one against the bytes of other levels. */
function OtherLevels({ points, names, x, y, from }: { points: (Point & { name: string; column: string })[]; names: (Name | undefined)[]; x: Scale; y: Scale; from: number | undefined }) {
  const all = [...points.map((point) => point.intensity), ...(from === undefined ? [] : [from])];
  const level = y.at(points[0]!.speed);
  return (
    <g class="levels">
      <line x1={x.at(Math.min(...all))} x2={x.at(Math.max(...all))} y1={level} y2={level} />
      {points.map((point) => (
        <g key={point.name}>
          <title>{`${point.name}: ${stated(point.row[point.column])}`}</title>
          <circle cx={x.at(point.intensity)} cy={level} r={4} />
        </g>
      ))}
      {names.map((name, at) => <Named key={at} name={name} />)}
    </g>
  );
}

const radiusOf = (point: Point): number => 4 + Math.sqrt(point.share);

interface DotProps {
  point: Point;
  column: string;
  x: Scale;
  y: Scale;
  label: SpotName | undefined;
  ranges: [[number, number], [number, number]];
  chosen: boolean;
  choose: (row: Row) => void;
}

function Dot({ point, column, x, y, label, ranges, chosen, choose }: DotProps) {
  const { row } = point;
  const [middle, level, radius] = [x.at(point.intensity), y.at(point.speed), radiusOf(point)];
  const [across, upright] = [ends(row[column], ranges[0]), ends(row.flop_rate, ranges[1])];
  const [name, above] = [nameOf(row), textOf(row.above)];
  // What is called by its name is found by the one that is seen, which may be cut.
  const spoken = label === undefined || name.includes(label.text) ? name : `${label.text}: ${name}`;
  return (
    <g class={`point explained${chosen ? " chosen" : ""}${above ? " above" : ""}`} role="button" tabindex={0} aria-label={spoken} aria-pressed={chosen}
      onClick={() => choose(row)} onKeyDown={(event) => event.key === "Enter" && choose(row)}>
      <title>{`${name}: ${stated(row[column])}; ${stated(row.flop_rate)}; ${textOf(row.bound) ? `bound by ${textOf(row.bound)} at ${stated(row.roof)}` : "no roof"}${above ? `; above it: ${above}` : ""}`}</title>
      {across && across[0] < across[1] && <Whisker x={[x.at(across[0]), x.at(across[1])]} y={[level, level]} />}
      {upright && upright[0] < upright[1] && <Whisker x={[middle, middle]} y={[y.at(upright[0]), y.at(upright[1])]} />}
      <circle class="dot" cx={middle} cy={level} r={radius} />
      {label?.lead && <line class="lead" x1={label.lead[0][0]} y1={label.lead[0][1]} x2={label.lead[1][0]} y2={label.lead[1][1]} />}
      <Named name={label} />
    </g>
  );
}
