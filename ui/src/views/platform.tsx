// 7 Platform: the machine that the run was on. What each level of memory gives and what the run took of it; and which CPUs
// share what. What not: traffic of single caches or nodes, which nothing here measures.

import type { VNode } from "preact";
import { useRef } from "preact/hooks";
import { useDoc } from "../data";
import { amount, bytes, counted, figure, interval, provenance } from "../format";
import { Failed, Notes, Prose, SaveDrawing, Value, Waiting, useWidth } from "../parts";
import { Whisker } from "../plot";
import { unfollowed } from "../selection";
import { useShown } from "../state";
import type { Metric, PlatformBox, PlatformDocument, PlatformLevel } from "../types";

export function PlatformView() {
  const shown = useShown();
  const { value: doc, error } = useDoc<PlatformDocument>("platform");
  if (error) return <Failed error={error} />;
  if (!doc) return <Waiting />;
  const says = unfollowed(shown, [], "Figures here", false);
  return (
    <>
      <p>{doc.cpu || "The processor is not known"}{doc.logical_cpus > 0 && `: ${counted(doc.sockets, "socket")}, ${counted(doc.cores, "core")}, ${counted(doc.logical_cpus, "logical CPU")}`}</p>
      {says && <p class="quiet"><Prose text={says} /></p>}
      <div class="cards">
        <section class="card" aria-label="Levels of memory">
          <h2>Levels of memory, and the run's traffic between them</h2>
          <Ladder levels={doc.levels} />
          <p class="legend">A pipe is as wide as what as many threads as the run has can get through it; filled is what the run took. The whisker is its 95 % interval. A dashed pipe: not known. What a level gives was measured with the kernel whose reads and writes are most like the run's: these are the roofs of the roofline.</p>
        </section>
        <section class="card" aria-label="CPUs, caches and nodes">
          <h2>CPUs, caches and nodes</h2>
          <Boxes boxes={doc.boxes} />
          {doc.distances.length > 1 && <Distances rows={doc.distances} />}
          {doc.node_pairs.length > 0 && <NodePairs pairs={doc.node_pairs} />}
        </section>
      </div>
      <Notes notes={doc.notes} />
    </>
  );
}

/** Pixels of a letter of 11 pixels, at most. */
const LETTER = 6.6;
const LINE = 15;
const PIPE = 110;

const known = (metric: Metric): boolean => metric.value !== undefined;

/** A figure with its interval, in words. */
function words(metric: Metric): string {
  const ends = interval(metric);
  const says = figure(metric);
  return ends && ends !== says ? `${says} (${ends})` : says;
}

/** As many words in a line as have room. */
function lines(text: string, room: number): string[] {
  const found: string[] = [];
  for (const word of text.split(" ")) {
    const last = found.at(-1);
    if (last !== undefined && (last.length + 1 + word.length) * LETTER <= room) found[found.length - 1] = `${last} ${word}`;
    else found.push(word);
  }
  return found;
}

/** What was measured of a level, and the run's loads that it answers. */
function ofLevel(level: PlatformLevel): string[] {
  const found: string[] = [];
  if (known(level.latency)) found.push(`${words(level.latency)} a load`);
  const rates = [[level.one_thread, "one thread"], [level.all_threads, "all"]] as const;
  const read = rates.filter(([metric]) => known(metric)).map(([{ value, unit }, who]) => `${who} ${amount(value!, unit)}`);
  if (read.length > 0) found.push(`gives ${read.join(", ")}${level.like ? `, measured with ${level.like}` : ""}`);
  if (known(level.loads)) found.push(`answers ${words(level.loads)} of the run's loads`);
  return found.length > 0 ? found : ["not measured on this machine"];
}

/** What the run moves out of a level. */
function ofEdge(level: PlatformLevel): string[] {
  // Drawn texts have no type for what is to be typed.
  if (!known(level.rate)) return [(level.rate.note ?? "the run's traffic here is not known").replaceAll("`", "")];
  // That of memory is over the whole run, those of caches while the code runs.
  const found = [`${words(level.rate)} ${level.name === "DRAM" ? "on average over the run" : "while the program runs"}`];
  if (known(level.read) && known(level.written)) found.push(`${amount(level.read.value!, "GB/s")} read, ${amount(level.written.value!, "GB/s")} written`);
  if (known(level.of_reachable) && known(level.reachable)) found.push(`while it runs ${words(level.of_reachable)} of the ${amount(level.reachable.value!, "GB/s")} that so many threads reach`);
  return found;
}

/** Cores above, memory below: a pipe between each two levels. */
function Ladder({ levels }: { levels: PlatformLevel[] }) {
  const svg = useRef<SVGSVGElement>(null);
  const [box, width] = useWidth<HTMLDivElement>(560);
  const inner = width - 16;
  const parts: VNode[] = [];
  let top = 1;
  const plate = (name: string, says: string[], why: string) => {
    const text = says.flatMap((one) => lines(one, inner - 70));
    const height = Math.max(1, text.length) * LINE + 9;
    parts.push(
      <g key={name} class="explained" role="img" tabindex={0} aria-label={`${name}: ${says.join("; ") || why}`}>
        <title>{why}</title>
        <rect class="plate" x={1} y={top} width={width - 2} height={height} rx={5} />
        <text class="name" x={9} y={top + LINE + 2}>{name}</text>
        {text.map((line, at) => <text key={at} class="tick" x={64} y={top + LINE + 1 + at * LINE}>{line}</text>)}
      </g>,
    );
    top += height;
  };
  plate("Cores", [], "the cores of this machine");
  for (const level of levels) {
    // The first level is within the core: nothing of its traffic is a rate.
    const says = level.name === "L1" ? [] : ofEdge(level);
    const text = says.flatMap((one) => lines(one, inner - PIPE - 16));
    const height = Math.max(says.length > 0 ? 2 : 1, text.length) * LINE + 6;
    if (says.length > 0) parts.push(<Pipe key={`to ${level.name}`} level={level} top={top} height={height} text={text} says={says} />);
    else parts.push(<line key={`to ${level.name}`} class="axis" x1={9 + PIPE / 2} x2={9 + PIPE / 2} y1={top} y2={top + height} />);
    top += height;
    const size = known(level.measured_bytes) ? [`${words(level.measured_bytes)} by its latency`] : [];
    const why = [["latency", level.latency], ["one thread gets", level.one_thread], ["all threads get", level.all_threads], ["share of the run's loads", level.loads]] as const;
    plate(level.name, [...size, ...ofLevel(level)], why.map(([what, metric]) => `${what}: ${provenance(metric)}`).join("; "));
  }
  return (
    <div class="plot" ref={box}>
      <svg ref={svg} width={width} height={top + 2} role="group" aria-label={`Levels of memory: cores, ${levels.map(({ name }) => name).join(", ")}`}>{parts}</svg>
      <SaveDrawing svg={svg} name="platform-levels" />
    </div>
  );
}

function Pipe({ level, top, height, text, says }: { level: PlatformLevel; top: number; height: number; text: string[]; says: string[] }) {
  const { value, low = value, high = value } = level.of_reachable;
  const at = (part: number) => 9 + (Math.min(100, Math.max(0, part)) / 100) * PIPE;
  const why = [["rate", level.rate], ["of what so many threads reach", level.of_reachable], ["they reach", level.reachable]] as const;
  return (
    <g class="explained" role="img" tabindex={0} aria-label={`From ${level.name}: ${says.join("; ")}`}>
      <title>{why.map(([what, metric]) => `${what}: ${provenance(metric)}`).join("; ")}</title>
      <rect class={value === undefined ? "pipe unknown" : "pipe"} x={9} y={top} width={PIPE} height={height} />
      {value !== undefined && <rect class="bar" x={9} y={top} width={Math.max(0.5, at(value) - 9)} height={height} />}
      {value !== undefined && low! < high! && <Whisker x={[at(low!), at(high!)]} y={[top + height / 2, top + height / 2]} />}
      {text.map((line, row) => <text key={row} class="tick" x={PIPE + 20} y={top + LINE - 1 + row * LINE}>{line}</text>)}
    </g>
  );
}

/** Boxes that are laid out: how large, and how they are drawn at a place. */
interface Laid {
  width: number;
  height: number;
  draw: (x: number, y: number) => VNode[];
}

const PAD = 6;
const GAP = 4;
/** Up to so many innermost boxes there is room for words in each. */
const WORDS = 8;
const KINDS = ["user", "heap", "write", "faults"];

const cacheName = ({ level, kind, bytes: size }: PlatformBox["caches"][number]) => `L${level}${kind === "data" ? "d" : kind === "instruction" ? "i" : ""} ${bytes(size)}`;

/** `0-35, 72-107`. */
function ranges(cpus: number[]): string {
  const found: string[] = [];
  for (let at = 0; at < cpus.length; at++) {
    const first = cpus[at]!;
    while (cpus[at + 1] === cpus[at]! + 1) at++;
    found.push(first === cpus[at] ? String(first) : `${first}-${cpus[at]}`);
  }
  return found.join(", ");
}

/** What a box is, outermost part first. */
function partsOf(box: PlatformBox): string[] {
  const found: string[] = [];
  if (box.package) found.push("socket");
  if (box.node !== null) found.push(`node ${box.node}${box.memory_bytes === null ? "" : `: ${bytes(box.memory_bytes)}`}`);
  if (box.core) found.push("core");
  return [...found, ...box.caches.map(cacheName)];
}

const isLeaf = (box: PlatformBox) => box.inside.length === 0 && box.cpus.length > 0 && box.node === null && !box.package;

function leavesOf(boxes: PlatformBox[]): PlatformBox[] {
  return boxes.flatMap((box) => (isLeaf(box) ? [box] : leavesOf(box.inside)));
}

/** What innermost boxes are alike in. */
function kindOf(box: PlatformBox): string {
  const what = partsOf(box).join(", ") || "CPU";
  return box.cpus.length > 1 ? `${what}, ${box.cpus.length} threads` : what;
}

function Boxes({ boxes }: { boxes: PlatformBox[] }) {
  const svg = useRef<SVGSVGElement>(null);
  const [box, width] = useWidth<HTMLDivElement>(560);
  const leaves = leavesOf(boxes);
  const kinds = new Map<string, number>();
  for (const leaf of leaves) kinds.set(kindOf(leaf), (kinds.get(kindOf(leaf)) ?? 0) + 1);
  const names = [...kinds.keys()];
  const lay = (one: PlatformBox, room: number): Laid => (isLeaf(one) ? leaf(one, leaves.length <= WORDS ? room : undefined, names.indexOf(kindOf(one))) : container(one, room, lay));
  const whole = shelves(boxes.map((one) => lay(one, width)), width, width);
  if (boxes.length === 0) return <p class="empty">This result does not say which CPUs its machine has.</p>;
  return (
    <>
      <div class="plot" ref={box}>
        <svg ref={svg} width={width} height={whole.height + 2} role="group" aria-label={`${counted(leaves.length, "innermost box")}: ${names.map((name) => `${kinds.get(name)} times ${name}`).join("; ")}`}>
          {whole.draw(0, 1)}
        </svg>
        <SaveDrawing svg={svg} name="platform" />
      </div>
      <p class="legend">{names.map((name, at) => <span key={name}><i class={KINDS[at % KINDS.length]} /> {kinds.get(name)} × {name}</span>)}</p>
    </>
  );
}

/** A core, or a CPU: with words where there is room, else a square with a part for each thread. */
function leaf(box: PlatformBox, room: number | undefined, kind: number): Laid {
  const says = `${partsOf(box).join(", ") || "CPU"}: ${box.cpus.length > 1 ? "CPUs" : "CPU"} ${ranges(box.cpus)}`;
  const text = room === undefined ? [] : [`CPU ${ranges(box.cpus)}`, ...partsOf(box)];
  const slots = box.cpus.length;
  const width = room === undefined ? Math.max(12, slots * 7 + 3) : Math.min(room, Math.max(...text.map((line) => line.length)) * LETTER + 14);
  const height = room === undefined ? 14 : text.length * LINE + 16;
  const slot = (width - 3) / slots;
  const draw = (x: number, y: number) => [
    <g key={`${x} ${y}`}>
      <title>{says}</title>
      <rect class="plate" x={x} y={y} width={width} height={height} rx={2} />
      {box.cpus.map((cpu, at) => <rect key={cpu} class={`area ${KINDS[kind % KINDS.length]}`} x={x + 2 + at * slot} y={y + 2} width={Math.max(1, slot - 1)} height={room === undefined ? height - 4 : 6} />)}
      {text.map((line, at) => <text key={at} class="tick" x={x + 6} y={y + 20 + at * LINE}>{line}</text>)}
    </g>,
  ];
  return { width, height, draw };
}

function container(box: PlatformBox, room: number, lay: (box: PlatformBox, room: number) => Laid): Laid {
  const inside = shelves(box.inside.map((one) => lay(one, room - 2 * PAD)), room - 2 * PAD);
  // A part stays in one line.
  const says = partsOf(box).map((part) => part.replaceAll(" ", "\u00a0")).join(", ") || `CPUs ${ranges(box.cpus)}`;
  const text = box.cpus.length === 0 ? `${says}, no CPU` : says;
  // No wider than what is inside, if its words fit into a few lines there.
  const least = Math.min(room - 2 * PAD, Math.max(inside.width, Math.min(text.length, 18) * LETTER));
  const head = lines(text, least);
  const width = Math.min(room, Math.max(inside.width, ...head.map((line) => line.length * LETTER)) + 2 * PAD);
  const top = head.length * LINE + 5;
  const height = top + inside.height + (box.inside.length > 0 ? PAD : 0);
  const draw = (x: number, y: number) => [
    <g key={`${x} ${y}`}>
      <title>{`${says}${box.cpus.length > 0 ? `: CPUs ${ranges(box.cpus)}` : ", no CPU"}`}</title>
      <rect class={box.package || box.node !== null ? "plate outer" : "plate"} x={x + 0.5} y={y + 0.5} width={width - 1} height={height - 1} rx={4} />
      {head.map((line, at) => <text key={at} class="tick" x={x + PAD} y={y + LINE - 1 + at * LINE}>{line}</text>)}
      {inside.draw(x + PAD, y + top)}
    </g>,
  ];
  return { width, height, draw };
}

/** Boxes in rows, as wide as is wanted, else about twice as wide as high; never wider than there is room. */
function shelves(all: Laid[], room: number, wanted?: number): Laid {
  const area = all.reduce((sum, one) => sum + (one.width + GAP) * (one.height + GAP), 0);
  const widest = all.reduce((most, one) => Math.max(most, one.width), 0);
  const most = Math.min(room, Math.max(widest, wanted ?? Math.sqrt(area * 2.2)));
  const places: [x: number, y: number][] = [];
  let [x, y, row, width] = [0, 0, 0, 0];
  for (const one of all) {
    if (x > 0 && x + one.width > most) [x, y, row] = [0, y + row + GAP, 0];
    places.push([x, y]);
    width = Math.max(width, x + one.width);
    x += one.width + GAP;
    row = Math.max(row, one.height);
  }
  return { width, height: y + row, draw: (left, top) => all.flatMap((one, at) => one.draw(left + places[at]![0], top + places[at]![1])) };
}

/** As firmware states them: 10 is a node's own memory. */
function Distances({ rows }: { rows: PlatformDocument["distances"] }) {
  const most = Math.max(...rows.flatMap(({ to }) => to), 11);
  const heat = (distance: number) => Math.min(4, Math.max(0, Math.ceil(((distance - 10) / (most - 10)) * 4)));
  return (
    <>
      <h3>Distances between nodes, as firmware states them; 10 is a node's own memory</h3>
      <div class="scrolls" tabIndex={0} role="region" aria-label="Distances between nodes">
        <table>
          <thead><tr><th>From</th>{rows.map(({ node }) => <th key={node} class="number">{node}</th>)}</tr></thead>
          <tbody>{rows.map(({ node, to }) => <tr key={node}><td>{node}</td>{to.map((distance, at) => <td key={at} class={`number heat${heat(distance)}`}>{distance}</td>)}</tr>)}</tbody>
        </table>
      </div>
    </>
  );
}

/** What loads of one node's CPUs from the memory of a node were measured to take. */
function NodePairs({ pairs }: { pairs: PlatformDocument["node_pairs"] }) {
  const said = (metric: Metric) => <td class="number"><Value metric={metric} badge={false} /></td>;
  return (
    <>
      <h3>Memory of each node, as measured from the CPUs of each</h3>
      <div class="scrolls" tabIndex={0} role="region" aria-label="Memory of each node, as measured">
        <table>
          <thead><tr><th>CPUs of node</th><th>Memory of</th><th class="number">A load</th><th class="number">One thread reads</th><th class="number">All read</th></tr></thead>
          <tbody>{pairs.map((pair) => <tr key={`${pair.from} ${pair.to}`}><td>{pair.from}</td><td>{pair.to}</td>{said(pair.latency)}{said(pair.one_thread)}{said(pair.all_threads)}</tr>)}</tbody>
        </table>
      </div>
    </>
  );
}
