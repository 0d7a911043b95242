// 6 Scaling: speed-up and traffic over the number of threads, as `fathom scale` measured them.

import { useRef } from "preact/hooks";
import { useDoc } from "../data";
import { interval, provenance } from "../format";
import { Failed, Notes, SaveDrawing, Value, Waiting, useWidth } from "../parts";
import { Axes, Whisker, linear } from "../plot";
import { DocTable } from "../table";
import { isMetric, valueOf, type Metric, type Sweep, type Table } from "../types";

const HEIGHT = 280;

export function ScalingView({ height }: { height: number }) {
  const { value: sweep, error } = useDoc<Sweep>("scale");
  if (error) return <Failed error={error} />;
  if (!sweep) return <Waiting />;
  return (
    <>
      <h2 class="code">{sweep.command.join(" ")}</h2>
      <p>
        {sweep.saturation.value === undefined ? `The saturation point is unknown (${sweep.saturation.note ?? "no reason is known"}).`
          : <>More threads do not help from <Value metric={sweep.saturation} /> {threads(sweep.saturation)} on{between(sweep.saturation)}.</>}{" "}
        {sweep.bandwidth_saturation.value === undefined ? `The thread count that saturates the bandwidth is unknown (${sweep.bandwidth_saturation.note ?? "no reason is known"}).`
          : <>The traffic with memory is at its largest from <Value metric={sweep.bandwidth_saturation} /> {threads(sweep.bandwidth_saturation)} on.</>}
        {sweep.next && <> With one more thread, {sweep.next.threads} in all, it would take <Value metric={sweep.next.elapsed} />{between(sweep.next.elapsed)}.</>}
      </p>
      <div class="cards">
        <Curve table={sweep.table} figure="speedup" label="Speed-up" ideal />
        <Curve table={sweep.table} figure="dram_bandwidth" label="Traffic with memory, GB/s" />
      </div>
      <DocTable table={{ ...sweep.table, view: "scale", result: sweep.result }} height={Math.max(200, height - HEIGHT - 200)} label="Runs by number of threads" />
      <Notes notes={sweep.notes} />
    </>
  );
}

const threads = ({ value }: Metric) => (value === 1 ? "thread" : "threads");

function between(metric: Metric): string {
  const found = interval(metric);
  return found ? ` (${found})` : "";
}

function Curve({ table, figure, label, ideal }: { table: Table; figure: string; label: string; ideal?: boolean }) {
  const svg = useRef<SVGSVGElement>(null);
  const [box, width] = useWidth<HTMLDivElement>();
  const points = table.rows.flatMap((row) => {
    const [threads, cell] = [Number(isMetric(row.threads) ? row.threads.value : row.threads), row[figure]];
    const value = valueOf(cell);
    return Number.isFinite(threads) && value !== undefined && isMetric(cell) ? [{ threads, value, cell, low: cell.low ?? value, high: cell.high ?? value }] : [];
  });
  if (points.length === 0) return null;
  const says = ({ threads, cell }: (typeof points)[number]) => `${threads} ${threads === 1 ? "thread" : "threads"}: ${provenance(cell)}`;
  const most = Math.max(...points.map((point) => point.threads));
  const top = Math.max(...points.map((point) => point.high), ideal ? most : 0);
  const all = linear(0, most * 1.05, 48, width - 12);
  // There is no half of a thread.
  const x = { ...all, ticks: all.ticks.filter(Number.isInteger) };
  const y = linear(0, top * 1.05, HEIGHT - 36, 10, 5);
  return (
    <div class="card plot">
      <h2>{label}</h2>
      <div ref={box}>
        <svg ref={svg} width={width} height={HEIGHT} role="group" aria-label={label}>
          <Axes width={width} height={HEIGHT} x={x} y={y} left={48} bottom={36} xLabel="threads" yLabel="">
            {ideal && <line class="peak" x1={x.at(0)} y1={y.at(0)} x2={x.at(most)} y2={y.at(most)}><title>as many times as threads</title></line>}
            {ideal && <text class="tick" x={x.at(most) - 8} y={y.at(most) - 6} text-anchor="end">as many times as threads</text>}
            <polyline class="curve" points={points.map((point) => `${x.at(point.threads)},${y.at(point.value)}`).join(" ")} />
            {points.map((point) => (
              <g key={point.threads} class="explained" role="img" tabindex={0} aria-label={says(point)}>
                <title>{says(point)}</title>
                {point.low < point.high && <Whisker x={[x.at(point.threads), x.at(point.threads)]} y={[y.at(point.low), y.at(point.high)]} />}
                <circle class="dot" cx={x.at(point.threads)} cy={y.at(point.value)} r={4} />
              </g>
            ))}
          </Axes>
        </svg>
      </div>
      <SaveDrawing svg={svg} name={`scaling-${figure}`} />
    </div>
  );
}
