// Ask: SQL over the tables of the result. What runs it is in `engine`.
//
// What not: figures of its own. An answer shows intervals where it has the columns `X`, `X_low` and `X_high`, and a unit where its
// values are those of a column of that name in a table that it names: what was computed is a plain number.

import { useEffect, useRef, useState } from "preact/hooks";
import { MOST_ROWS, run, stop } from "../engine/engine";
import type { Found, Plain } from "../engine/messages";
import { SAVED } from "../engine/saved";
import { SOURCES, load, named, stored, type Loaded, type Source } from "../engine/tables";
import { mode, resultName } from "../data";
import { counted } from "../format";
import { Failed, Notes, Prose, Waiting } from "../parts";
import { unfollowed } from "../selection";
import { listOf, update, useShown } from "../state";
import { DocTable } from "../table";
import type { Cell, Column, Metric, Row, Table } from "../types";

const KEY = "fathom-asked";
/** Questions that the browser keeps. */
const KEPT = 20;

function asked(): string[] {
  try {
    return listOf(localStorage.getItem(KEY) ?? "");
  } catch {
    // A browser may refuse that to a page from disk.
    return [];
  }
}

function keep(sql: string): void {
  try {
    localStorage.setItem(KEY, JSON.stringify([sql, ...asked().filter((one) => one !== sql)].slice(0, KEPT)));
  } catch {
    // Then it is in the address only.
  }
}

/** What was typed, while another view is shown. */
let draft: string | undefined;

interface Answered {
  sql: string;
  table?: Table;
  error?: string;
}

/** The answer, while another view is shown. */
let last: Answered | undefined;

/** What is computed, also while another view is shown: one question at a time. */
let current: Promise<Answered> | undefined;

function answerTo(sql: string, all: Source[]): Promise<Answered> {
  const found = async (): Promise<Answered> => {
    try {
      const tables = await Promise.all(named(sql, all).map(load));
      const table = tableOf(await run(sql, tables), tables);
      if (SAVED.every((one) => one.sql !== sql)) keep(sql);
      return { sql, table };
    } catch (error) {
      return { sql, error: error instanceof Error ? error.message : String(error) };
    }
  };
  current = found().then((answer) => {
    current = undefined;
    return (last = answer);
  });
  return current;
}

/** What a column of an answer is called, and its unit: those of the column of this name whose values all of it are. */
function originOf(name: string, values: Plain[], tables: Loaded[]): { label?: string; unit?: string } {
  for (const { units, labels, columns, rows } of tables) {
    const at = columns.indexOf(name);
    if (at < 0) continue;
    const known = new Set(rows.map((row) => row[at]));
    if (values.every((value) => known.has(value ?? null))) return { label: labels.get(name), unit: units.get(name) };
  }
  return {};
}

/** An answer as a table of the page: four columns of a figure are one again. */
function tableOf({ columns, rows, more }: Found, tables: Loaded[]): Table {
  // A name may be there twice, and is a key of rows.
  const keys = columns.map((name, at) => (columns.indexOf(name) === at ? name : `${name} (${at + 1})`));
  const place = new Map(keys.map((key, at) => [key, at]));
  const hasEnds = (key: string) => place.has(`${key}_low`) && place.has(`${key}_high`);
  const isPart = (key: string) => /_(low|high|evidence)$/.test(key) && hasEnds(key.replace(/_(low|high|evidence)$/, "")) && place.has(key.replace(/_(low|high|evidence)$/, ""));
  const shown = keys.filter((key) => !isPart(key)).map((key): Column & { made: (row: Plain[]) => Cell } => {
    const at = place.get(key)!;
    const values = rows.map((row) => row[at] ?? null);
    const { label = key, unit } = originOf(key, values, tables);
    const numeric = values.every((value) => value === null || typeof value === "number") && values.some((value) => value !== null);
    if (unit === undefined && !(hasEnds(key) && numeric)) return { key, label, unit: numeric ? "" : null, ...(numeric ? { plain: true as const } : {}), made: (row) => row[at] ?? null };
    const part = (row: Plain[], end: string): Plain => row[place.get(key + end) ?? -1] ?? null;
    const number = (value: Plain) => (typeof value === "number" ? value : undefined);
    const made = (row: Plain[]): Cell => {
      const metric = { unit: unit ?? "", samples: 0, value: number(row[at] ?? null), low: number(part(row, "_low")), high: number(part(row, "_high")), evidence: (part(row, "_evidence") ?? undefined) as Metric["evidence"] };
      return metric.value === undefined ? { unit: metric.unit, samples: 0, note: "NULL: the table has no figure here" } : metric;
    };
    return { key, label, unit: unit ?? "", made };
  });
  const notes = tables.flatMap(({ name, cut, empty }) => [...(cut ? [`\`${name}\` has ${cut}: sums over it may be too small.`] : []), ...(empty ? [`\`${name}\` has no rows: ${empty}`] : [])]);
  if (more) notes.push(`There are more rows: the first ${MOST_ROWS.toLocaleString("en")} are shown.`);
  return { view: "ask", result: resultName(), columns: shown, rows: rows.map((row) => Object.fromEntries(shown.map(({ key, made }) => [key, made(row)])) as Row), total: {}, notes, empty: "No row matches." };
}

export function AskView({ height }: { height: number }) {
  const shown = useShown();
  const [sql, setSql] = useState(draft ?? (shown.sql || SAVED[0]!.sql));
  const [answer, setAnswer] = useState(last);
  const [running, setRunning] = useState(false);
  const [facts, setFacts] = useState<Source[]>([]);
  const [failed, setFailed] = useState<string>();
  const field = useRef<HTMLTextAreaElement>(null);
  const says = unfollowed(shown, [], "Tables here", false);
  const change = (text: string) => {
    draft = text;
    setSql(text);
  };
  const follow = async (found: Promise<Answered>) => {
    setRunning(true);
    setAnswer(await found);
    setRunning(false);
  };
  const ask = (text: string) => {
    if (current) return;
    update({ sql: text });
    void follow(answerTo(text, [...SOURCES, ...facts]));
  };
  useEffect(() => {
    if (current) void follow(current);
    void stored().catch((error: Error) => (setFailed(error.message), [])).then((found) => {
      setFacts(found);
      // A link to a question shows its answer; without one, the first of those that are offered has one.
      const first = shown.sql || (last ? "" : SAVED[0]!.sql);
      if (first && !current && last?.sql !== first) void follow(answerTo(first, [...SOURCES, ...found]));
    });
  }, []);
  const insert = (name: string) => {
    const area = field.current;
    if (!area) return;
    area.focus();
    area.setRangeText(name, area.selectionStart, area.selectionEnd, "end");
    change(area.value);
  };
  const choose = (text: string) => {
    if (!text) return;
    change(text);
    ask(text);
  };
  const served = mode() === "server";
  const before = asked();
  return (
    <>
      {says && <p class="quiet"><Prose text={says} /></p>}
      <div class="split">
        <div class="main">
          <div class="bar">
            <label>Questions{" "}
              <select value={SAVED.find((one) => one.sql === sql)?.sql ?? ""} onChange={(event) => choose(event.currentTarget.value)}>
                <option value="">your own, below</option>
                {SAVED.filter((one) => served || !one.served).map((one) => <option key={one.asks} value={one.sql}>{one.asks}</option>)}
              </select>
            </label>
            {before.length > 0 && <label>Asked before{" "}
              <select value="" onChange={(event) => { choose(event.currentTarget.value); event.currentTarget.value = ""; }}>
                <option value="">choose one</option>
                {before.map((one) => <option key={one} value={one}>{one.replaceAll(/\s+/g, " ").slice(0, 90)}</option>)}
              </select>
            </label>}
          </div>
          <textarea ref={field} class="code sql" aria-label="SQL" rows={Math.min(12, Math.max(5, sql.split("\n").length + 1))} spellcheck={false} value={sql} onInput={(event) => change(event.currentTarget.value)}
            onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(sql); } }} />
          <div class="bar">
            <button disabled={running} title="Ctrl+Enter" onClick={() => ask(sql)}>Run</button>
            {running && <button onClick={() => stop("stopped")}>Stop</button>}
            <span class="quiet" role="status">{running ? "Running ..." : "Ctrl+Enter runs it. SQLite reads these tables; nothing is changed and nothing leaves the page."}</span>
          </div>
          {answer?.error !== undefined ? <Failed error={`No answer: ${answer.error}.`} /> : !answer?.table ? running && <Waiting /> : <DocTable key={answer.sql} table={answer.table} height={Math.max(200, height - 330)} label="Answer" everyColumn />}
        </div>
        <section class="pane" aria-label="Tables">
          <h2>Tables</h2>
          <p class="quiet">{"A figure X has the columns X_low, X_high (its 95 % interval) and X_evidence. What is not known is NULL."}</p>
          {SOURCES.map((one) => <Columns key={one.name} source={one} insert={insert} />)}
          <h3>Stored facts</h3>
          {!served ? <p class="quiet"><Prose text="This file does not carry them: `fathom open` has them." /></p> : failed ? <Notes notes={[failed]} /> : facts.map((one) => <Columns key={one.name} source={one} insert={insert} />)}
        </section>
      </div>
    </>
  );
}

/** A table with its columns, which are known when it is opened. */
function Columns({ source, insert }: { source: Source; insert: (name: string) => void }) {
  const [table, setTable] = useState<Loaded>();
  const [error, setError] = useState<string>();
  const open = () => void load(source).then(setTable, (failed: Error) => setError(failed.message));
  const units = (key: string) => table?.units.get(key);
  const isEnd = (key: string) => /_(low|high|evidence)$/.test(key) && units(key.replace(/_(low|high|evidence)$/, "")) !== undefined;
  return (
    <details class="asked" onToggle={(event) => { if (event.currentTarget.open && !table) open(); }}>
      <summary><span class="code">{source.name}</span></summary>
      <p class="quiet">{source.says}{table && `; ${table.cut ?? counted(table.rows.length, "row")}`}{table?.empty && `: ${table.empty}`}</p>
      {error && <p class="quiet">{error}</p>}
      {table && <p><button class="link code" onClick={() => insert(source.name)}>{source.name}</button>{": "}
        {table.columns.filter((key) => !isEnd(key)).map((key, at) => (
          <span key={key}>{at > 0 && ", "}<button class="link code" onClick={() => insert(key)}>{key}</button>{units(key) ? <span class="quiet"> {units(key)}</span> : ""}</span>
        ))}</p>}
    </details>
  );
}
