// 5 Assembly next to the source: the machine code of one function with the CPU time of each instruction, and what bursts saw
// of its accesses. It is from the module's file where that is there, else what bursts ran; so it works without any source.

import { useMemo, useState } from "preact/hooks";
import { shortName } from "../format";
import { mode, useDoc } from "../data";
import { Grid, ROW, type GridColumn } from "../grid";
import { CellValue, Notes, Prose, Waiting } from "../parts";
import { unfollowed } from "../selection";
import type { Choice, Stacks } from "../stacks";
import { shareOf } from "./calls";
import { update, useShown } from "../state";
import { DocTable, RowSays } from "../table";
import { isMetric, textOf, valueOf, type AssemblyDocument, type AssemblyRow, type Figure, type Metric, type Row, type Table } from "../types";

/** Functions to choose from. */
const MOST = 60;

interface Candidate {
  fn: number;
  name: string;
  module: string;
}

/** Functions by CPU time, of one file where there is one; first the one that has the chosen line. */
function candidates(stacks: Stacks, choice: Choice, file: string | undefined, line: number | undefined): Candidate[] {
  const time = stacks.doc.figures.find((figure) => figure.key === "cpu_time");
  if (!time) return [];
  const sums = stacks.byInnermost(time, choice, file, line);
  return [...sums].sort((a, b) => b[1] - a[1]).slice(0, MOST).map(([fn]) => ({ fn, name: stacks.functionName(fn), module: stacks.moduleOf(fn) }));
}

interface Props {
  stacks: Stacks;
  choice: Choice;
  accesses: Table | undefined;
  file: string | undefined;
  line: number | undefined;
  height: number;
  /** What is shown is not what was chosen. */
  says?: string;
}

export function AssemblyPane({ stacks, choice, accesses, file, line, height, says }: Props) {
  const shown = useShown();
  const all = useMemo(() => candidates(stacks, choice, file, undefined), [stacks, file, choice.key]);
  const here = useMemo(() => candidates(stacks, choice, file, line)[0], [stacks, file, line, choice.key]);
  const chosen = all.find((one) => one.name === shown.code) ?? here ?? all[0];
  const question = chosen && `assembly?function=${encodeURIComponent(chosen.name)}&module=${encodeURIComponent(chosen.module)}`;
  const { value: code, error, waiting } = useDoc<AssemblyDocument>(question ?? null);
  const time = stacks.doc.figures.find((figure) => figure.key === "cpu_time");
  const whole = code && unfollowed(shown, [], "CPU times of instructions", false);
  return (
    <aside class={file ? "pane code-pane" : "pane code-pane alone"} aria-label="Assembly">
      <div class="bar">
        <h2>Assembly</h2>
        {chosen && (
          <select aria-label="Function" value={chosen.name} onChange={(event) => update({ code: event.currentTarget.value })}>
            {[...new Map([...(here ? [here] : []), ...all].map((one) => [one.name, one])).values()].map((one) => <option key={one.name} value={one.name}>{shortName(one.name)} ({one.module})</option>)}
          </select>
        )}
      </div>
      {[says, whole].map((one) => one && <p key={one} class="quiet"><Prose text={one} /></p>)}
      {!chosen && <p class="empty">No function with samples is in this selection.</p>}
      {chosen && code && !waiting && <Code code={code} time={time} accesses={accesses} file={file} line={line} height={height - 60} />}
      {chosen && waiting && <Waiting />}
      {chosen && error && (
        <>
          <p class="quiet" role="status">{mode() === "file" ? "This page carries the code of the hottest functions that bursts ran or whose file was there; not of this one." : error}</p>
          <Traced accesses={accesses} file={file} line={line} height={height} />
        </>
      )}
    </aside>
  );
}

function Code({ code, time, accesses, file, line, height }: { code: AssemblyDocument; time: Figure | undefined; accesses: Table | undefined; file: string | undefined; line: number | undefined; height: number }) {
  const traced = useMemo(() => {
    const rows = (accesses?.rows ?? []).filter((row) => row.module === code.module);
    return new Map(rows.map((row) => [textOf(row.offset), row]));
  }, [accesses, code]);
  const most = code.rows.reduce((best, row) => Math.max(best, row.cpu_time), 1e-30);
  const hottest = code.rows.findIndex((row) => row.cpu_time === most);
  const mine = (row: AssemblyRow) => line !== undefined && row.line === line && row.file === file;
  const first = code.rows.findIndex(mine);
  // Of a line with several instructions the one that was chosen.
  const [own, setOwn] = useState<AssemblyRow>();
  const at = own && code.rows.includes(own) && (mine(own) || !own.line) ? code.rows.indexOf(own) : first;
  const row = code.rows[at];
  const timeOf = ({ cpu_time: amount }: AssemblyRow) => (amount > 0 && time ? shareOf(time, amount, time.whole.value ?? 1) : undefined);
  const accessesOf = ({ offset }: AssemblyRow) => { const cell = traced.get(offset)?.access_percent; return isMetric(cell) ? cell : undefined; };
  const cell = (metric: Metric | undefined) => (metric ? <CellValue metric={metric} /> : "");
  const figures = row ? [["CPU time", timeOf(row)], ["accesses", accessesOf(row)]].filter((one): one is [string, Metric] => one[1] !== undefined) : [];
  const stride = (row: AssemblyRow) => { const of: Row | undefined = traced.get(row.offset); return of ? <span title={textOf(of.stride)}>{textOf(of.stride)}</span> : ""; };
  const columns: GridColumn<AssemblyRow>[] = [
    { key: "offset", label: "Offset", title: "offset in the module's file", width: "58px", cell: (row) => <span class="quiet code">{row.offset}</span> },
    { key: "line", label: "Line", number: true, width: "34px", cell: (row) => <span class="quiet">{row.line ?? ""}</span> },
    { key: "text", label: "Instruction", width: "minmax(140px,1fr)", cell: (row) => <code title={row.function ?? undefined}>{row.text}</code> },
    { key: "self", label: "CPU time", title: "samples at this instruction, of the whole run", number: true, width: "60px", cell: (row) => cell(timeOf(row)) },
  ];
  if (code.rows.some((row) => traced.has(row.offset))) {
    columns.push({ key: "accesses", rank: 2, label: "Accesses", title: "share of all traced accesses", number: true, width: "62px", cell: (row) => cell(accessesOf(row)) });
    columns.push({ key: "stride", rank: 3, label: "Stride", width: "58px", cell: stride });
  }
  const heat = (one: AssemblyRow) => {
    const part = one.cpu_time / most;
    const step = part > 0.6 ? 4 : part > 0.3 ? 3 : part > 0.1 ? 2 : part > 0 ? 1 : 0;
    return `row heat${step}${mine(one) || one === row ? " selected" : ""}`;
  };
  const choose = (row: AssemblyRow) => { setOwn(row); if (row.file && row.line) update({ file: row.file, line: row.line, code: code.function }); };
  return (
    <>
      <Grid label={`Assembly of ${code.function}`} columns={columns} rows={code.rows} height={height - ROW} selected={at} reveal={first >= 0 ? first : hottest}
        onSelect={choose} rowProps={(row) => ({ class: heat(row) })} />
      <RowSays name={row?.offset} figures={figures} />
      <Notes notes={code.notes} />
    </>
  );
}

/** Where no machine code is known, the accesses of its instructions may be. */
function Traced({ accesses, file, line, height }: { accesses: Table | undefined; file: string | undefined; line: number | undefined; height: number }) {
  const table = useMemo(() => {
    if (!accesses || !file) return undefined;
    const rows = accesses.rows.filter((row) => row.file === file).sort((a, b) => (valueOf(a.line) ?? 0) - (valueOf(b.line) ?? 0));
    return { ...accesses, rows, notes: [] };
  }, [accesses, file]);
  if (!table || table.rows.length === 0) return <p class="empty">No memory access of this file was traced.</p>;
  return <DocTable table={table} height={height - 190} keys={["line", "offset", "kind", "access_bytes", "access_percent", "stride", "line_use_percent"]}
    selected={(row) => valueOf(row.line) === line} onSelect={(row) => update({ line: valueOf(row.line) })} label="Traced instructions" />;
}
