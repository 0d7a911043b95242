// How often which bytes of an object were accessed, over the time of the run: recorded accesses of bursts by part and slice of time.
// What not: amounts of the whole run (the pane above has them): these are counts of what bursts saw.

import { useRef } from "preact/hooks";
import { useDoc } from "../data";
import { bytes, bytesOf, count, counted, plain, seconds, timeSpan } from "../format";
import { SaveDrawing, useWidth } from "../parts";
import { linear } from "../plot";
import { widthOf } from "../room";
import type { PointsDocument } from "../types";

const HEIGHT = 190;
/** Room for labels, at the least. */
const LEFT = 58;
const BOTTOM = 34;
/** Strength of colours; a cell with one access is seen. */
const LEVELS = 6;

export function ObjectHeat({ name }: { name: string }) {
  const { value: doc } = useDoc<PointsDocument>("points");
  const svg = useRef<SVGSVGElement>(null);
  const [box, width] = useWidth<HTMLDivElement>();
  // Names come from programs: only what the document itself has is looked up.
  const heat = doc && Object.hasOwn(doc.heat, name) ? doc.heat[name] : undefined;
  if (!doc || !heat || heat.at.length === 0) return null;
  const sum = (list: number[]) => list.reduce((all, one) => all + one, 0);
  const [loads, stores] = [sum(heat.loads), sum(heat.stores)];
  const bursts = sum(doc.slices.filter((_, slice) => heat.slice.includes(slice)));
  const [first, last] = [Math.min(...heat.at), Math.max(...heat.at)];
  const elapsed = doc.slice_seconds * doc.slices.length;
  const y = linear(first * heat.part, (last + 1) * heat.part, HEIGHT - BOTTOM, 8, 5, true);
  const onAxis = plain(bytesOf((y.ticks[1] ?? 0) - (y.ticks[0] ?? 0), y.ticks.at(-1) ?? 0));
  const left = Math.max(LEFT, ...y.ticks.map((tick) => widthOf(onAxis(tick)) + 8));
  const x = linear(0, elapsed, left, width - 8, Math.max(2, Math.floor((width - left) / 80)));
  // Slices differ in how many bursts they have: what is shown is per burst.
  const per = heat.at.map((_, at) => (heat.loads[at]! + heat.stores[at]!) / Math.max(1, doc.slices[heat.slice[at]!] ?? 1));
  const most = Math.max(...per);
  const level = (value: number) => Math.max(1, Math.ceil(LEVELS * (1 + Math.log(value / most) / Math.log(1000))));
  const says = (at: number) => {
    const [part, slice] = [heat.at[at]!, heat.slice[at]!];
    return `bytes ${bytes(part * heat.part)} to ${bytes((part + 1) * heat.part)}, ${timeSpan(slice * doc.slice_seconds, (slice + 1) * doc.slice_seconds)}: ${counted(heat.loads[at]!, "load")}, ${counted(heat.stores[at]!, "store")} in ${counted(doc.slices[slice] ?? 0, "burst")}`;
  };
  return (
    <>
      <h3>Heat of its bytes over time</h3>
      <div class="plot" ref={box}>
        <svg ref={svg} width={width} height={HEIGHT} role="img" aria-label={`${counted(loads, "load")} and ${counted(stores, "store")} of bytes ${bytes(first * heat.part)} to ${bytes((last + 1) * heat.part)} over ${seconds(elapsed)}`}>
          {doc.slices.map((count, slice) => count === 0 && <rect key={slice} class="unseen" x={x.at(slice * doc.slice_seconds)} y={8} width={x.at(doc.slice_seconds) - x.at(0)} height={HEIGHT - BOTTOM - 8} />)}
          {heat.at.map((part, at) => {
            const slice = heat.slice[at]!;
            const top = y.at((part + 1) * heat.part);
            return (
              <rect key={at} class={`heatcell ${heat.stores[at]! > heat.loads[at]! ? "write" : "read"} level${level(per[at]!)}`} x={x.at(slice * doc.slice_seconds)} y={top} width={Math.max(1, x.at(doc.slice_seconds) - x.at(0) - 0.5)} height={Math.max(1, y.at(part * heat.part) - top - 0.5)}>
                <title>{says(at)}</title>
              </rect>
            );
          })}
          {y.ticks.map((tick) => <text key={tick} class="tick" x={left - 5} y={y.at(tick) + 4} text-anchor="end">{onAxis(tick)}</text>)}
          {x.ticks.map((tick) => x.at(tick) < width - 20 && <text key={tick} class="tick" x={x.at(tick)} y={HEIGHT - BOTTOM + 14} text-anchor="middle">{tick === 0 ? "0" : seconds(tick)}</text>)}
          <text class="tick" x={left} y={HEIGHT - 3}>time of the run; up: offset in its block</text>
        </svg>
        <SaveDrawing svg={svg} name="object-heat" />
      </div>
      <p class="legend"><i class="read" /> mostly loads <i class="write" /> mostly stores <i class="unseen" /> no burst: not known</p>
      <p class="quiet">Stands on {count(loads)} {loads === 1 ? "load" : "loads"} and {count(stores)} {stores === 1 ? "store" : "stores"} that {counted(bursts, "burst")} recorded, {bytes(heat.part)} to a cell; darker: more per burst, on a scale of logarithms. Blocks of one object lie on top of each other.</p>
    </>
  );
}
