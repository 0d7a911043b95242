// Bandwidth utilisation: how long the program moved data at which rate, with bands that can be dragged.
// The figures behind it do not change with the bands; the shares of time are summed up from the histogram.

import { useRef, useState } from "preact/hooks";
import { digits, rate, seconds, withInterval } from "../format";
import type { Summary } from "../generated";
import type { Metric } from "../types";
import { Axes, Whisker, linear } from "../plot";
import { Card, SaveDrawing, Value, useWidth } from "../parts";

const HEIGHT = 190;
const LEFT = 52;

export function Bands({ summary }: { summary: Summary }) {
  const { histogram, medium_from, high_from, average, observed_max } = summary.dram_bandwidth;
  const svg = useRef<SVGSVGElement>(null);
  const [box, width] = useWidth<HTMLDivElement>();
  const peak = summary.dram_bandwidth.reachable.value;
  const most = Math.max(peak ?? 0, ...histogram.map((bar) => bar.to), 1e-9);
  const [bounds, setBounds] = useState<[number, number]>([medium_from ?? most * 0.3, high_from ?? most * 0.7]);
  const [dragged, setDragged] = useState<number>();
  // Why nothing is known is among the unknown figures.
  if (histogram.length === 0) return null;
  const x = linear(0, most * 1.02, LEFT, width - 8);
  const longest = Math.max(...histogram.map((bar) => Math.max(bar.time.value ?? 0, bar.time.high ?? 0)), 1e-12);
  const y = linear(0, longest, HEIGHT - 34, 10, 3);
  const all = histogram.reduce((sum, bar) => sum + (bar.time.value ?? 0), 0) || 1;
  const kind = (at: number) => (at >= bounds[1] ? "high" : at >= bounds[0] ? "medium" : "low");
  const sum = (end: (time: Metric) => number | undefined, inBand: (band: string) => boolean) =>
    histogram.reduce((sum, bar) => sum + (inBand(kind((bar.from + bar.to) / 2)) ? end(bar.time) ?? 0 : 0), 0);
  // What is surely in one band is in no other, and what can be in no other is surely in this one.
  const share = (band: string): Metric => {
    const own = (one: string) => one === band, other = (one: string) => one !== band;
    const low = Math.max(sum((time) => time.low, own), all - sum((time) => time.high, other));
    const high = Math.min(sum((time) => time.high, own), all - sum((time) => time.low, other));
    const part = (seconds: number) => Math.min(100, Math.max(0, seconds / all * 100));
    const value = part(sum((time) => time.value, own));
    const note = "time in steps of the rate, whose intervals say which bands it can be in";
    const { evidence, samples } = average;
    return { evidence, samples, unit: "percent", value, low: Math.min(part(low), value), high: Math.max(part(high), value), note };
  };
  const reached = `what so many threads reach on this machine: ${withInterval(summary.dram_bandwidth.reachable)}`;
  const set = (index: number, at: number) => {
    const [medium, high] = bounds;
    setBounds(index === 0 ? [Math.min(Math.max(0, at), high), high] : [medium, Math.max(Math.min(most, at), medium)]);
  };
  const rateAt = (event: PointerEvent) => {
    const left = svg.current?.getBoundingClientRect().left ?? 0;
    return ((event.clientX - left - x.at(0)) / (x.at(most) - x.at(0))) * most;
  };
  return (
    <Card title="DRAM bandwidth utilisation">
      <p>
        Mean <Value metric={average} />, largest <Value metric={observed_max} />. Of the time
        {["low", "medium", "high"].map((band) => [" ", <span key={band} class={`band ${band}`}>{band} <Value metric={share(band)} /></span>])}
      </p>
      <div class="plot" ref={box}>
        <svg ref={svg} width={width} height={HEIGHT} role="group" aria-label="Time at each bandwidth, with movable bands"
          onPointerMove={(event) => dragged !== undefined && set(dragged, rateAt(event))} onPointerUp={() => setDragged(undefined)}
          onPointerLeave={() => setDragged(undefined)}>
          <Axes width={width} height={HEIGHT} x={x} y={y} left={LEFT} bottom={34} xLabel="time at so many GB/s" yLabel="" formatY={seconds}>
            {histogram.map((bar) => {
              const { value = 0, low = value, high = value } = bar.time;
              const [top, middle] = [y.at(value), x.at((bar.from + bar.to) / 2)];
              const says = `${digits(bar.from)} to ${digits(bar.to)} GB/s: ${withInterval(bar.time)}`;
              return (
                <g key={bar.from} class="explained" role="img" tabindex={0} aria-label={says}>
                  <title>{says}</title>
                  <rect class={`bar ${kind((bar.from + bar.to) / 2)}`} x={x.at(bar.from) + 0.5} y={top} width={Math.max(1, x.at(bar.to) - x.at(bar.from) - 1)} height={HEIGHT - 34 - top} />
                  {low < high && <Whisker x={[middle, middle]} y={[y.at(low), y.at(high)]} />}
                </g>
              );
            })}
            {peak !== undefined && (
              <g class="explained" role="img" tabindex={0} aria-label={reached}><title>{reached}</title><line class="peak" x1={x.at(peak)} x2={x.at(peak)} y1={8} y2={HEIGHT - 34} /></g>
            )}
            {/* In SVG the name of an attribute has its case: `tabIndex` would be none. */}
            {bounds.map((bound, index) => (
              <g key={index} class="handle" role="slider" tabindex={0} aria-label={index === 0 ? "from here on medium" : "from here on high"}
                aria-valuemin={0} aria-valuemax={most} aria-valuenow={bound} aria-valuetext={rate(bound, "GB/s")}
                onPointerDown={(event) => { event.preventDefault(); setDragged(index); }}
                onKeyDown={(event) => {
                  if (event.key === "ArrowLeft") set(index, bound - most / 50);
                  if (event.key === "ArrowRight") set(index, bound + most / 50);
                }}>
                <line x1={x.at(bound)} x2={x.at(bound)} y1={8} y2={HEIGHT - 34} />
                <rect x={x.at(bound) - 5} y={8} width={10} height={16} rx={2} />
              </g>
            ))}
          </Axes>
        </svg>
        <SaveDrawing svg={svg} name="bandwidth-utilisation" />
      </div>
    </Card>
  );
}
