// The SQL engine of the view Ask: started in a worker when it is first asked, so that no question, however long, stops the page.
//
// What not: SQL itself (worker.ts). The engine is a document of the page, `engine`: the script of the worker and its WebAssembly,
// packed (vite.config.js). A worker made of our own text has this page's policy: it contacts nobody.

import { ask, unzipped } from "../data";
import type { Found, Given, Message } from "./messages";

/** Rows that an answer has at most: more are for files, not for people. */
export const MOST_ROWS = 10_000;
/** Seconds after which a question is given up. */
const LONGEST = 30;

interface Running {
  worker: Worker;
  loaded: Set<string>;
  /** Ends what is awaited of it. */
  fail?: (why: Error) => void;
}

let running: Running | undefined;

/** The script of the worker and the WebAssembly: four bytes say how long the script is. */
async function unpacked(): Promise<{ script: Blob; wasm: ArrayBuffer }> {
  const { value, error } = await ask("engine");
  if (error !== undefined) throw new Error(error);
  const all = await unzipped((value as { engine: string }).engine).arrayBuffer();
  const length = new DataView(all).getUint32(0);
  return { script: new Blob([all.slice(4, 4 + length)], { type: "text/javascript" }), wasm: all.slice(4 + length) };
}

function tell<T>(to: Running, message: Message): Promise<T> {
  return new Promise((resolve, reject) => {
    to.fail = reject;
    to.worker.onmessage = ({ data }: MessageEvent<T & { error?: string }>) => (data.error === undefined ? resolve(data) : reject(new Error(data.error)));
    to.worker.onerror = (event) => reject(new Error(`the SQL engine does not start in this browser (${event.message || "no reason given"})`));
    to.worker.postMessage(message);
  });
}

async function started(): Promise<Running> {
  if (running) return running;
  const { script, wasm } = await unpacked();
  const address = URL.createObjectURL(script);
  const next: Running = { worker: new Worker(address), loaded: new Set() };
  running = next;
  try {
    await tell(next, { wasm });
  } catch (error) {
    stop("");
    throw error;
  } finally {
    URL.revokeObjectURL(address);
  }
  return next;
}

/** Ends the engine with all that it computes; the next question starts another. */
export function stop(why: string): void {
  running?.worker.terminate();
  running?.fail?.(new Error(why));
  running = undefined;
}

/** The answer to a question over these tables, one question at a time. Throws what SQLite says. */
export async function run(sql: string, tables: Given[]): Promise<Found> {
  const engine = await started();
  for (const { name, columns, rows } of tables) {
    if (engine.loaded.has(name)) continue;
    await tell(engine, { load: name, columns, rows });
    engine.loaded.add(name);
  }
  const given = setTimeout(() => stop(`given up after ${LONGEST} s: it may never end, or join too many rows`), LONGEST * 1000);
  try {
    return await tell<Found>(engine, { sql, most: MOST_ROWS });
  } finally {
    clearTimeout(given);
  }
}
