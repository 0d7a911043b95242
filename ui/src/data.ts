// Where documents come from: the page itself, or the server that gave it. What is here already is given at once, so that
// a view is drawn once and not twice.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Glance } from "./types";

export interface Data {
  mode: "file" | "server";
  result: string;
  problems: string[];
  /** Which side the other result is, where there is one. */
  compares: "base" | "new" | false;
  scales: boolean;
  /** It is of a dataset: many results. */
  fleet?: boolean;
  run?: Glance;
}

let current: Data = { mode: "file", result: "", problems: [], compares: false, scales: false };

/** Reads what the page says of itself. Throws when it was cut off before that. */
export function load(): Data {
  const element = document.getElementById("fathom-data");
  if (!element) throw new Error("this page was cut off: it carries no result");
  let data: Partial<Data> | null;
  try {
    data = JSON.parse(element.textContent ?? "") as Partial<Data> | null;
  } catch (error) {
    throw new Error(`this page is damaged: what it carries cannot be read (${String(error)})`);
  }
  if (typeof data?.result !== "string") throw new Error("this page is damaged: it does not say of which result it is");
  current = { ...current, ...data, problems: Array.isArray(data.problems) ? data.problems : [] };
  return current;
}

/** When the browser has read all of the page: documents follow this program, so that it is on the screen first. */
export const whole: Promise<void> = new Promise((resolve) => {
  if (document.readyState !== "loading") resolve();
  else document.addEventListener("DOMContentLoaded", () => resolve());
});

/** What is wrong with a page that has been read to its end. */
export function cutOff(): string | undefined {
  return document.getElementById("fathom-end") ? undefined : "This page was cut off: what is missing says so. Make it anew: fathom html RESULT -o report.html";
}

export interface Answer<T> {
  value?: T;
  error?: string;
  waiting: boolean;
}

const done = new Map<string, Answer<unknown>>();
const asked = new Map<string, Promise<Answer<unknown>>>();
/** Answers that are kept; an answer to a selection may take megabytes. */
const KEPT = 40;

export function mode(): Data["mode"] {
  return current.mode;
}

/** What the user calls the result. */
export function resultName(): string {
  return current.result;
}

/** What the page is of. */
export function glance(): Glance | undefined {
  return current.run;
}

/** When every question that was asked until then has its answer: a server computes what is waited for first. */
export async function answered(): Promise<void> {
  while (asked.size > 0) await Promise.allSettled(asked.values());
}

/** What a page on its own says of a question that it has no answer to. */
export const NOT_HERE =
  "This page does not carry that: figures for another selection are computed by `fathom open`, which serves the same page.";

function check(text: () => unknown): Answer<unknown> {
  try {
    const value = text();
    if (typeof value !== "object" || value === null) return { error: "the answer is damaged", waiting: false };
    const { error, absent } = value as { error?: unknown; absent?: unknown };
    const says = error ?? absent;
    return typeof says === "string" ? { error: says, waiting: false } : { value, waiting: false };
  } catch {
    return { error: DAMAGED, waiting: false };
  }
}

const DAMAGED = "What the page carries of this cannot be read: it was cut off or damaged.";

/** What was packed into letters (crates/web/src/pack.rs). Fails where it was cut off or damaged. */
export function unzipped(letters: string): Response {
  const packed = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")));
}

/** A table as the page carries it: rows are positions of cells, one for each column (crates/web/src/compact.rs). */
interface Packed {
  columns: { key: string }[];
  cells: unknown[];
  rows: number[][];
}

/** A document as everybody else knows it. */
function unpacked(document: unknown): unknown {
  const { columns, cells, rows } = document as Packed;
  if (!Array.isArray(cells)) return document;
  const keys = columns.map((column) => column.key);
  const row = (places: number[]) => Object.fromEntries(keys.map((key, at) => [key, cells[places[at]!]]));
  return { ...(document as Packed), cells: undefined, rows: rows.map(row) };
}

function keep(question: string, answer: Answer<unknown>): Answer<unknown> {
  done.set(question, answer);
  const oldest = done.keys().next().value;
  if (done.size > KEPT && oldest !== undefined) done.delete(oldest);
  return answer;
}

const carriedAs = (question: string) => document.getElementById(`doc ${question}`) as HTMLScriptElement | null;
const isPacked = ({ type }: HTMLScriptElement) => type === "application/gzip";

/** The answer, where it needs no waiting: it was asked before, or the page carries it as it is. */
function known(question: string): Answer<unknown> | undefined {
  const before = done.get(question);
  if (before) {
    // Kept longest are those that are asked for.
    done.delete(question);
    done.set(question, before);
    return before;
  }
  const element = carriedAs(question);
  // The text of an element may be a part while the page is being read; what follows it was read after it.
  if (!element || isPacked(element) || (document.readyState === "loading" && !element.nextElementSibling)) return undefined;
  return keep(question, check(() => unpacked(JSON.parse(element.textContent ?? ""))));
}

async function fetched(question: string): Promise<Answer<unknown>> {
  await whole;
  const carried = known(question);
  if (carried) return carried;
  const packed = carriedAs(question);
  if (packed) {
    const text = await Promise.resolve(packed.textContent ?? "").then((letters) => unzipped(letters).text()).catch(() => "");
    return keep(question, check(() => unpacked(JSON.parse(text))));
  }
  if (current.mode === "file") return { error: NOT_HERE, waiting: false };
  let answer: unknown;
  try {
    answer = await (await fetch("api/" + question)).json();
  } catch {
    // What failed may work the next time.
    return { error: "the server does not answer: is `fathom open` still running?", waiting: false };
  }
  return keep(question, check(() => answer));
}

/** Asks a question such as `hotspots?group=function`. */
export function ask(question: string): Promise<Answer<unknown>> {
  const before = asked.get(question);
  if (before) return before;
  const answer = fetched(question).finally(() => asked.delete(question));
  asked.set(question, answer);
  return answer;
}

/** The answer to a question, `null` for none; the previous answer stays while the next is awaited. */
export function useDoc<T>(question: string | null): Answer<T> {
  const [, again] = useState(0);
  const last = useRef<Answer<T>>({ waiting: true });
  const failed = useRef<{ of: string; answer: Answer<T> } | undefined>(undefined);
  const here = question === null ? undefined : (known(question) as Answer<T> | undefined);
  useEffect(() => {
    if (question === null || here) return;
    let alive = true;
    ask(question).then((answer) => {
      if (!alive) return;
      failed.current = { of: question, answer: answer as Answer<T> };
      again((count) => count + 1);
    });
    return () => {
      alive = false;
    };
  }, [question, here === undefined]);
  if (question === null) return { waiting: false };
  const answer = here ?? (failed.current?.of === question ? failed.current.answer : undefined);
  if (!answer) return { value: last.current.value, waiting: true };
  last.current = answer;
  return answer;
}

/** Filters of the selection, as the server takes them; nothing where the page is on its own. */
export function withFilters(question: string, filters: [string, string][]): string {
  if (current.mode === "file" || filters.length === 0) return question;
  const more = filters.map(([key, value]) => "filter=" + encodeURIComponent(`${key}=${value}`)).join("&");
  return question + (question.includes("?") ? "&" : "?") + more;
}
