// 5 Source: the text with figures per line, a minimap of the hot lines, and the assembly next to it.
// Works without the text: lines with figures are shown by number.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { mode, useDoc, withFilters } from "../data";
import { amount, provenance } from "../format";
import { Grid, ROW, type GridColumn } from "../grid";
import { CellValue, Failed, INTERVALS, Notes, Waiting } from "../parts";
import { OF_STACKS, filtersOf, unfollowed, type Aspect } from "../selection";
import { update, useShown } from "../state";
import { textOf, valueOf, isMetric, type Figure, type Metric, type Row, type Table } from "../types";
import { FigureChoice, Taken, amountOf, shareOf, useChosen, useStacks } from "./calls";
import { AssemblyPane } from "./assembly";

interface Line {
  number: number;
  text: string;
  self: number;
  total: number;
  read?: Metric;
  written?: Metric;
  latency?: Metric;
  /** The loops that begin here, the innermost last. */
  loops: Row[];
}

/** Rows of one file by line, of one object where that is chosen. */
function byLine(table: Table | undefined, file: string, objects?: string[]): Map<number, Row> {
  const rows = (table?.rows ?? []).filter((row) => row.file === file && (!objects || objects.includes(textOf(row.object))));
  return new Map(rows.map((row) => [valueOf(row.line) ?? 0, row]));
}

/** The loops of one file by their first line, the innermost of a line last. */
function loopsByLine(table: Table | undefined, file: string): Map<number, Row[]> {
  const found = new Map<number, Row[]>();
  for (const row of table?.rows ?? []) {
    const number = valueOf(row.line);
    if (row.file !== file || number === undefined || !isMetric(row.iteration_time) || row.iteration_time.value === null) continue;
    found.set(number, [...(found.get(number) ?? []), row]);
  }
  found.forEach((rows) => rows.sort((one, other) => (valueOf(one.depth) ?? 0) - (valueOf(other.depth) ?? 0)));
  return found;
}

/** Native time of an iteration; of several loops of a line that of the innermost, all of them when pointed at. */
function Iteration({ loops }: { loops: Row[] }) {
  const innermost = loops[loops.length - 1]?.iteration_time;
  if (!isMetric(innermost)) return null;
  const says = loops.map((row) => isMetric(row.iteration_time) && `${textOf(row.function)}: ${amount(row.iteration_time.value ?? 0, "s")} an iteration, by ${textOf(row.odometer)}`);
  return <span title={says.filter(Boolean).join("\n")}><CellValue metric={innermost} /></span>;
}

/** A line of code; what it is indented by takes less room where there is little. */
function Code({ text }: { text: string }) {
  const words = text.trimStart();
  return <code title={words.trimEnd()}><span class="indent">{text.slice(0, text.length - words.length)}</span>{words}</code>;
}

export function SourceView({ height }: { height: number }) {
  const shown = useShown();
  const { stacks, figure, choice, error, notes } = useChosen();
  const { stacks: all_ } = useStacks();
  const filters = (follows: Aspect[]) => filtersOf(shown, follows, all_?.doc.threads);
  const object = filters(["object"]);
  const byObject = object.length > 0;
  const { value: traffic } = useDoc<Table>(byObject ? withFilters("objects?group=object,source-line&limit=400", filters([...OF_STACKS, "object"])) : withFilters("bandwidth?group=source-line&limit=400", filters(OF_STACKS)));
  const { value: latency } = useDoc<Table>(byObject ? null : withFilters("latency?group=source-line&limit=400", filters(OF_STACKS)));
  const { value: accesses } = useDoc<Table>(withFilters("accesses?limit=300", filters([...OF_STACKS, "object"])));
  const { value: paces } = useDoc<Table>(byObject ? null : "pace?limit=200");
  const files = useMemo(() => (stacks && figure ? stacks.files(figure, choice) : []), [stacks, figure, choice.key]);
  const taken = useMemo(() => (stacks && figure ? stacks.sum(figure, choice) : 0), [stacks, figure, choice.key]);
  const others = useMemo(() => [...new Set((traffic?.rows ?? []).map((row) => textOf(row.file)).filter(Boolean))], [traffic]);
  const file = shown.file ?? files[0]?.file ?? others[0];
  const { value: source, error: missing } = useDoc<{ file: string; text: string }>(file ? `text?file=${encodeURIComponent(file)}` : null);
  const known = source && source.file === file ? source.text : undefined;
  const lines = useMemo(() => {
    if (!stacks || !file) return [];
    const sums = figure ? stacks.lines(figure, choice, file) : new Map<number, { self: number; total: number }>();
    const moved = byLine(traffic, file, shown.only.object);
    const timed = byObject ? moved : byLine(latency, file);
    const loops = loopsByLine(byObject ? undefined : paces, file);
    const metric = (row: Row | undefined, key: string) => { const cell = row?.[key]; return isMetric(cell) ? cell : undefined; };
    const line = (number: number, text: string): Line => ({
      number, text, self: sums.get(number)?.self ?? 0, total: sums.get(number)?.total ?? 0,
      read: metric(moved.get(number), "dram_read"), written: metric(moved.get(number), "dram_write"), latency: metric(timed.get(number), "latency"),
      loops: loops.get(number) ?? [],
    });
    if (known !== undefined) return known.split("\n").map((text, at) => line(at + 1, text.replaceAll("\t", "    ").replace("\r", "").slice(0, 400)));
    return [...new Set([...sums.keys(), ...moved.keys(), ...timed.keys(), ...loops.keys()])].sort((a, b) => a - b).map((number) => line(number, ""));
  }, [stacks, figure, file, known, traffic, latency, paces, shown.only.object, choice.key]);
  if (error) return <Failed error={error} />;
  if (!stacks) return <Waiting />;
  const says = unfollowed(shown, [...OF_STACKS, "object"], "Figures of accesses and traffic", true);
  const ofLoops = lines.some((line) => line.loops.length > 0) ? unfollowed(shown, [], "Times of iterations", true) : undefined;
  if (!file) {
    return (
      <>
        <Notes notes={notes} />
        <p class="empty">No source file: the program has no debug information (-g), or its debug file was not found.</p>
        {figure && <p class="quiet"><Taken figure={figure} taken={taken} choice={choice} /></p>}
        <AssemblyPane stacks={stacks} choice={choice} accesses={accesses} file={undefined} line={undefined} height={height - 100} says={says} />
      </>
    );
  }

  const most = Math.max(...lines.map((line) => line.self), 1e-30);
  const whole = figure?.whole.value ?? 1;
  const hottest = lines.reduce((best, line, at) => (line.self > (lines[best]?.self ?? 0) ? at : best), 0);
  const wanted = shown.line !== undefined ? lines.findIndex((line) => line.number === shown.line) : hottest;
  const columns: GridColumn<Line>[] = [
    { key: "line", label: "Line", number: true, width: "44px", cell: (line) => <span class="quiet">{line.number}</span> },
    { key: "text", label: known === undefined ? "Text (not here)" : "Text", width: known === undefined ? "minmax(90px,1fr)" : "minmax(160px,1fr)", cell: (line) => <Code text={line.text} /> },
    { key: "percent", label: "Self", title: `${figure?.label ?? ""} in the line itself`, number: true, width: "60px", cell: (line) => (line.self > 0 && figure ? <CellValue metric={shareOf(figure, line.self, whole)} /> : "") },
    { key: "total", rank: 2, label: "Total", number: true, width: "60px", cell: (line) => (line.total > 0 && figure ? <CellValue metric={shareOf(figure, line.total, whole)} /> : "") },
    { key: "read", rank: 3, label: "Read", title: "DRAM read", number: true, width: "74px", cell: (line) => line.read && <CellValue metric={line.read} /> },
    { key: "written", rank: 5, label: "Written", title: "DRAM written", number: true, width: "74px", cell: (line) => line.written && <CellValue metric={line.written} /> },
    { key: "latency", rank: 4, label: "Latency", number: true, width: "60px", cell: (line) => line.latency && <CellValue metric={line.latency} /> },
    { key: "iteration", rank: 6, label: "Iteration", title: "Native time of an iteration of the machine's loop that begins at the line", number: true, width: "70px", cell: (line) => <Iteration loops={line.loops} /> },
  ];
  // Columns of which nothing is known take room from the text.
  const empty = (key: "read" | "written" | "latency") => lines.every((line) => line[key] === undefined);
  const noLoops = lines.every((line) => line.loops.length === 0);
  const used = columns.filter(({ key }) => (key === "iteration" ? !noLoops : !(key === "read" || key === "written" || key === "latency") || !empty(key)));
  const all = [...new Set([...files.map((one) => one.file), ...others, file])];
  return (
    <>
      <div class="bar">
        <label>File{" "}
          <select value={file} onChange={(event) => update({ file: event.currentTarget.value, line: undefined, code: undefined })}>
            {all.map((one) => <option key={one} value={one}>{one}</option>)}
          </select>
        </label>
        <FigureChoice stacks={stacks} />
        <button onClick={() => update({ line: lines[hottest]?.number })}>Hottest line</button>
      </div>
      <Notes notes={[...notes, ...[says, ofLoops].filter((one) => one !== undefined)]} />
      {missing && <p class="quiet" role="status">{mode() === "file" ? "This page does not carry the text of this file: it was not found, or others have more of the time." : missing} Lines are shown by number.</p>}
      <div class="split codes">
        <div class="main source">
          <div class="table"><Grid label={`Source of ${file}`} columns={used} rows={lines} height={height - 130} selected={wanted} reveal={wanted}
            onSelect={(line) => update({ line: line.number, code: undefined })} rowProps={(line) => ({ class: heat(line, most, line.number === lines[wanted]?.number) })} /></div>
          <Minimap lines={lines} most={most} height={Math.min(height - 130 - ROW, lines.length * ROW)} />
        </div>
        <AssemblyPane stacks={stacks} choice={choice} accesses={accesses} file={file} line={shown.line} height={height - 110} says={says} />
      </div>
      {figure && <p class="quiet" aria-live="polite">{lineSays(lines[wanted], figure)} <Taken figure={figure} taken={taken} choice={choice} /> {INTERVALS}</p>}
    </>
  );
}

/** All figures of the chosen line, with their intervals. */
function lineSays(line: Line | undefined, figure: Figure): string {
  if (!line) return "";
  const parts = [line.self > 0 && `self ${provenance(amountOf(figure, line.self))}`, line.total > 0 && `total ${provenance(amountOf(figure, line.total))}`,
    line.read && `read ${provenance(line.read)}`, line.written && `written ${provenance(line.written)}`, line.latency && `latency ${provenance(line.latency)}`,
    ...line.loops.map(({ iteration_time: time, odometer }) => isMetric(time) && `an iteration of the loop here ${provenance(time)}, by ${textOf(odometer)}`)];
  return `Line ${line.number}: ${parts.filter(Boolean).join("; ") || "no figure"}.`;
}

function heat(line: Line, most: number, chosen: boolean): string {
  const part = line.self / most;
  const step = part > 0.6 ? 4 : part > 0.3 ? 3 : part > 0.1 ? 2 : part > 0 ? 1 : 0;
  return `row heat${step}${chosen ? " selected" : ""}`;
}

/** Where the hot lines are in the file; a click goes there. */
function Minimap({ lines, most, height }: { lines: Line[]; most: number; height: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    [element.width, element.height] = [18, Math.max(1, height)];
    context.clearRect(0, 0, 18, height);
    lines.forEach((line, at) => {
      if (line.self <= 0) return;
      context.fillStyle = "#D55E00";
      context.globalAlpha = 0.25 + 0.75 * Math.sqrt(line.self / most);
      context.fillRect(0, (at / lines.length) * height, 18, Math.max(2, height / lines.length));
    });
  }, [lines, most, height]);
  const go = (event: MouseEvent) => {
    const rect = canvas.current?.getBoundingClientRect();
    const line = rect && lines[Math.floor(((event.clientY - rect.top) / rect.height) * lines.length)];
    if (line) update({ line: line.number });
  };
  return <canvas class="minimap" ref={canvas} aria-hidden="true" style={{ height: `${Math.max(1, height)}px` }} onClick={go} />;
}
