// 6 Roofline: arithmetic against traffic with memory, under the roofs of this machine. Both axes are logarithmic.

import { useRef, useState } from "preact/hooks";
import { useDoc, withFilters } from "../data";
import { digits, rate, shortName } from "../format";
import type { Summary } from "../generated";
import { Failed, SaveDrawing, Waiting, useWidth } from "../parts";
import { Axes, logarithmic } from "../plot";
import { filters, useShown } from "../state";
import { DocTable } from "../table";
import { textOf, valueOf, type Row, type Table } from "../types";

const HEIGHT = 380;

export function RooflineView({ height }: { height: number }) {
  const shown = useShown();
  const { value: table, error } = useDoc<Table>(withFilters("roofline?limit=100", filters(shown)));
  const { value: summary } = useDoc<Summary>("summary");
  const [chosen, setChosen] = useState<Row>();
  if (error) return <Failed error={error} />;
  if (!table) return <Waiting />;
  return (
    <>
      {summary && <Drawing table={table} summary={summary} chosen={chosen} choose={setChosen} />}
      <DocTable table={table} height={Math.max(200, height - HEIGHT - 120)} selected={(row) => row === chosen} onSelect={setChosen}
        keys={["function", "flop_percent", "flop_rate", "roof", "bound", "dram_intensity", "intensity", "flops", "file", "line", "module"]} />
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
      <svg ref={svg} width={width} height={HEIGHT} role="img" aria-label={`Roofline: ${rate(flops, "GFLOP/s")}, ${rate(bandwidth, "GB/s")}, ${points.length} functions`}>
        <Axes width={width} height={HEIGHT} x={x} y={y} left={60} bottom={40} xLabel="FLOP per byte from memory" yLabel="GFLOP/s">
          <polyline class="roof" points={`${x.at(low)},${y.at(low * bandwidth)} ${x.at(ridge)},${y.at(flops)} ${x.at(high)},${y.at(flops)}`} />
          <text class="tick" x={x.at(Math.sqrt(low * ridge)) - 8} y={y.at(Math.sqrt(low * ridge) * bandwidth) - 8} text-anchor="end">DRAM {rate(bandwidth, "GB/s")}</text>
          <text class="tick" x={x.at(high) - 4} y={y.at(flops) - 6} text-anchor="end">peak {rate(flops, "GFLOP/s")}</text>
          {points.map((point) => (
            <g key={textOf(point.row.function) + textOf(point.row.module)} class={point.row === chosen ? "point chosen" : "point"} role="button" tabindex={0}
              aria-label={textOf(point.row.function)} onClick={() => choose(point.row)} onKeyDown={(event) => event.key === "Enter" && choose(point.row)}>
              <title>{`${textOf(point.row.function)}: ${digits(point.intensity)} FLOP/byte, ${rate(point.speed, "GFLOP/s")}`}</title>
              <circle class="dot" cx={x.at(point.intensity)} cy={y.at(point.speed)} r={4 + Math.sqrt(point.share)} />
              <text class="tick" x={x.at(point.intensity) + 8 + Math.sqrt(point.share)} y={y.at(point.speed) + 4}>{cut(shortName(textOf(point.row.function)))}</text>
            </g>
          ))}
        </Axes>
      </svg>
      <SaveDrawing svg={svg} name="roofline" />
      {points.length === 0 && <p class="empty">No function has both measured arithmetic and measured traffic with memory.</p>}
    </div>
  );
}
