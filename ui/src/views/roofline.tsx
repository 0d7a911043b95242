// 6 Roofline: arithmetic against traffic with memory, under the roofs of this machine. Both axes are logarithmic.

import { useRef, useState } from "preact/hooks";
import { useDoc, withFilters } from "../data";
import { counted, provenance, rate, shortName } from "../format";
import type { Summary } from "../generated";
import { Failed, SaveDrawing, Waiting, useWidth } from "../parts";
import { Axes, Whisker, logarithmic, type Scale } from "../plot";
import { OF_STACKS, filtersOf, unfollowed } from "../selection";
import { useShown } from "../state";
import { DocTable } from "../table";
import { useStacks } from "./calls";
import { isMetric, textOf, valueOf, type Metric, type Row, type Table } from "../types";

const HEIGHT = 380;

export function RooflineView({ height }: { height: number }) {
  const shown = useShown();
  const { stacks } = useStacks();
  const { value: table, error } = useDoc<Table>(withFilters("roofline?limit=100", filtersOf(shown, OF_STACKS, stacks?.doc.threads)));
  const says = unfollowed(shown, OF_STACKS, "Figures here", true);
  const { value: summary } = useDoc<Summary>("summary");
  const [chosen, setChosen] = useState<Row>();
  if (error) return <Failed error={error} />;
  if (!table) return <Waiting />;
  return (
    <>
      {says && <p class="quiet">{says}</p>}
      {summary && <Drawing table={table} summary={summary} chosen={chosen} choose={setChosen} />}
      <DocTable table={table} height={Math.max(200, height - HEIGHT - 120)} selected={(row) => row === chosen} onSelect={setChosen}
        keys={["function", "flop_percent", "flop_rate", "roof", "bound", "dram_intensity", "intensity", "flops", "file", "line", "module"]} />
    </>
  );
}

/** The intervals of a point, across and upright. */
function Ends({ x, y, row }: { x: Scale; y: Scale; row: Row }) {
  const [across, upright] = [row.dram_intensity, row.flop_rate];
  if (!isMetric(across) || !isMetric(upright) || !across.value || !upright.value) return null;
  const of = ({ value = 0, low = value, high = value }: Metric): [number, number] => [Math.max(low, value / 1000), high];
  const [[left, right], [bottom, top]] = [of(across), of(upright)];
  const [middle, level] = [x.at(across.value), y.at(upright.value)];
  return (
    <>
      {left < right && <Whisker x={[x.at(left), x.at(right)]} y={[level, level]} />}
      {bottom < top && <Whisker x={[middle, middle]} y={[y.at(bottom), y.at(top)]} />}
    </>
  );
}

/** A name next to its point. */
const cut = (name: string) => (name.length > 32 ? `${name.slice(0, 31)}…` : name);

function Drawing({ table, summary, chosen, choose }: { table: Table; summary: Summary; chosen: Row | undefined; choose: (row: Row) => void }) {
  const svg = useRef<SVGSVGElement>(null);
  const [box, width] = useWidth<HTMLDivElement>();
  const bandwidth = summary.machine.dram_bandwidth_peak.value;
  // Peaks may come in FLOP/s or GFLOP/s; rates are in GFLOP/s.
  const peak = summary.machine.flops_peak;
  const flops = peak.value === undefined ? undefined : peak.unit === "FLOP/s" ? peak.value / 1e9 : peak.value;
  const points = table.rows.flatMap((row) => {
    const [intensity, speed] = [valueOf(row.dram_intensity), valueOf(row.flop_rate)];
    return intensity && speed ? [{ row, intensity, speed, share: valueOf(row.flop_percent) ?? 0 }] : [];
  });
  if (bandwidth === undefined || flops === undefined) return <p class="empty">The peaks of this machine are unknown: run `fathom machine`, then record again.</p>;
  const ridge = flops / bandwidth;
  const low = Math.min(ridge / 30, ...points.map((point) => point.intensity / 2));
  const high = Math.max(ridge * 10, ...points.map((point) => point.intensity * 2));
  const bottom = Math.min(low * bandwidth, ...points.map((point) => point.speed / 2));
  const x = logarithmic(low, high, 60, width - 16);
  const y = logarithmic(bottom, flops * 2, HEIGHT - 40, 12);
  return (
    <div class="plot" ref={box}>
      <svg ref={svg} width={width} height={HEIGHT} role="group" aria-label={`Roofline: ${rate(flops, "GFLOP/s")}, ${rate(bandwidth, "GB/s")}, ${counted(points.length, "function")}`}>
        <Axes width={width} height={HEIGHT} x={x} y={y} left={60} bottom={40} xLabel="FLOP per byte from memory" yLabel="GFLOP/s">
          <polyline class="roof" points={`${x.at(low)},${y.at(low * bandwidth)} ${x.at(ridge)},${y.at(flops)} ${x.at(high)},${y.at(flops)}`} />
          <text class="tick" x={x.at(Math.sqrt(low * ridge)) - 8} y={y.at(Math.sqrt(low * ridge) * bandwidth) - 8} text-anchor="end">DRAM {rate(bandwidth, "GB/s")}</text>
          <text class="tick" x={x.at(high) - 4} y={y.at(flops) - 6} text-anchor="end">peak {rate(flops, "GFLOP/s")}</text>
          {points.map((point) => (
            <g key={textOf(point.row.function) + textOf(point.row.module)} class={point.row === chosen ? "point explained chosen" : "point explained"} role="button" tabindex={0}
              aria-label={textOf(point.row.function)} onClick={() => choose(point.row)} onKeyDown={(event) => event.key === "Enter" && choose(point.row)}>
              <title>{`${textOf(point.row.function)}: ${provenance(point.row.dram_intensity as Metric)}; ${provenance(point.row.flop_rate as Metric)}`}</title>
              <Ends x={x} y={y} row={point.row} />
              <circle class="dot" cx={x.at(point.intensity)} cy={y.at(point.speed)} r={4 + Math.sqrt(point.share)} />
              <text class="tick" x={x.at(point.intensity) + 6 + Math.sqrt(point.share)} y={y.at(point.speed) - 7}>{cut(shortName(textOf(point.row.function)))}</text>
            </g>
          ))}
        </Axes>
      </svg>
      <SaveDrawing svg={svg} name="roofline" />
      {points.length === 0 && <p class="empty">No function has both measured arithmetic and measured traffic with memory.</p>}
    </div>
  );
}
