// SQLite in a worker: takes tables, answers SQL over them. vite.config.js builds it into ui/dist/engine.txt, with the WebAssembly
// of sql.js next to it.
//
// What not: which tables there are (tables.ts), starting and stopping (engine.ts). There is no file and no network here. A question
// changes no table: `query_only` is on while it runs, so that a later answer is of the same figures.

import initSqlJs, { type Database, type Value } from "sql.js";
import type { Found, Message } from "./messages";

const scope = self as unknown as { onmessage: (event: { data: Message }) => void; postMessage: (message: unknown) => void };
let database: Database;

/** Any text as a name of SQL. */
const named = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** Ends what a question began and did not end, or a table that could not be loaded. */
function rollback(): void {
  try {
    database.run("ROLLBACK");
  } catch {
    // There was no transaction.
  }
}

function load(name: string, columns: string[], rows: Value[][]): void {
  database.run("PRAGMA query_only = 0; BEGIN");
  database.run(`CREATE TABLE ${named(name)} (${columns.map(named).join(", ")})`);
  const insert = database.prepare(`INSERT INTO ${named(name)} VALUES (${columns.map(() => "?").join(", ")})`);
  for (const row of rows) insert.run(row);
  insert.free();
  database.run("COMMIT");
}

const shown = (value: Value): Found["rows"][0][0] => (value instanceof Uint8Array ? Array.from(value, (byte) => byte.toString(16).padStart(2, "0")).join("") : value);

/** What the last statement with columns finds, at most so many rows. */
function answer(sql: string, most: number): Found {
  let found: Found = { columns: [], rows: [], more: false };
  database.run("PRAGMA query_only = 1");
  for (const statement of database.iterateStatements(sql)) {
    const columns = statement.getColumnNames();
    const rows: Found["rows"] = [];
    let more = false;
    while (statement.step() && !(more = rows.length === most)) rows.push(statement.get().map(shown));
    if (columns.length > 0) found = { columns, rows, more };
  }
  return found;
}

let before: Promise<void> = Promise.resolve();
scope.onmessage = ({ data }) => {
  before = before.then(async () => {
    try {
      if ("wasm" in data) database = new (await initSqlJs({ wasmBinary: data.wasm })).Database();
      else if ("load" in data) load(data.load, data.columns, data.rows);
      scope.postMessage("sql" in data ? answer(data.sql, data.most) : {});
    } catch (error) {
      scope.postMessage({ error: error instanceof Error ? error.message : String(error) });
    } finally {
      if (!("wasm" in data)) rollback();
    }
  });
};
