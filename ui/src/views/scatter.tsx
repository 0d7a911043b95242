// 3 Access pattern: offset in the object over the accesses of bursts, one burst next to the other.

import { useRef } from "preact/hooks";
import { useDoc } from "../data";
import { bytes, bytesOf, plain, seconds } from "../format";
import { Notes, SaveDrawing, useWidth } from "../parts";
import { linear } from "../plot";
import { widthOf } from "../room";
import type { PointsDocument } from "../types";

const HEIGHT = 200;
/** Room for labels, at the least. */
const LEFT = 58;

export function AccessPattern({ name }: { name: string }) {
  const { value: doc } = useDoc<PointsDocument>("points");
  const svg = useRef<SVGSVGElement>(null);
  const [box, width] = useWidth<HTMLDivElement>();
  // Names come from programs: only what the document itself has is looked up.
  const points = doc && Object.hasOwn(doc.objects, name) ? doc.objects[name] : undefined;
  if (!doc || !points || points.burst.length === 0) return null;
  const bursts = [...new Set(points.burst)].sort((a, b) => a - b);
  const range = (list: number[]) => list.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)] as const, [Infinity, -Infinity] as const);
  const [low, high] = range(points.offset);
  const y = linear(low, Math.max(high, low + 64), HEIGHT - 30, 8, 5, true);
  const onAxis = plain(bytesOf((y.ticks[1] ?? 0) - (y.ticks[0] ?? 0), y.ticks.at(-1) ?? 0));
  const left = Math.max(LEFT, ...y.ticks.map((tick) => widthOf(onAxis(tick)) + 8));
  const slot = (width - left - 8) / bursts.length;
  const steps = new Map(bursts.map((burst) => [burst, range(points.step.filter((_, at) => points.burst[at] === burst))] as const));
  const x = (at: number) => {
    const burst = points.burst[at]!;
    const [first, last] = steps.get(burst) ?? [0, 1];
    return left + bursts.indexOf(burst) * slot + 3 + ((points.step[at]! - first) / Math.max(1, last - first)) * Math.max(1, slot - 6);
  };
  return (
    <>
      <h3>Access pattern</h3>
      <div class="plot" ref={box}>
        <svg ref={svg} width={width} height={HEIGHT} role="img" aria-label={`Offsets from ${bytes(low)} to ${bytes(high)} over ${bursts.length} bursts`}>
          {y.ticks.map((tick) => (
            <g key={tick}>
              <line class="gridline" x1={left} x2={width - 8} y1={y.at(tick)} y2={y.at(tick)} />
              <text class="tick" x={left - 5} y={y.at(tick) + 4} text-anchor="end">{onAxis(tick)}</text>
            </g>
          ))}
          {bursts.map((burst, at) => (
            <g key={burst}>
              <line class="gridline" x1={left + at * slot} x2={left + at * slot} y1={8} y2={HEIGHT - 30} />
              {slot > 50 && <text class="tick" x={left + (at + 0.5) * slot} y={HEIGHT - 16} text-anchor="middle">{seconds(doc.bursts[burst]?.time ?? 0)}</text>}
            </g>
          ))}
          {points.offset.map((offset, at) => <circle key={at} class={points.store[at] ? "store" : "load"} cx={x(at)} cy={y.at(offset)} r={1.7} />)}
          <text class="tick" x={left} y={HEIGHT - 3}>bursts, each in the order of its accesses</text>
        </svg>
        <SaveDrawing svg={svg} name="access-pattern" />
      </div>
      <p class="legend"><i class="read" /> load <i class="write" /> store</p>
      <Notes notes={doc.notes} />
    </>
  );
}
