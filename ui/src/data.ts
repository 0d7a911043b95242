// Where documents come from: the page itself, or the server that gave it.

import { useEffect, useState } from "preact/hooks";

export interface Data {
  mode: "file" | "server";
  result: string;
  problems: string[];
  compares: boolean;
  scales: boolean;
  docs: Record<string, unknown>;
}

/** Reads what the page carries. Throws when the page was cut off. */
export function load(): Data {
  const element = document.getElementById("fathom-data");
  if (!element) throw new Error("this page was cut off: it carries no result");
  let data: Data;
  try {
    data = JSON.parse(element.textContent ?? "") as Data;
  } catch (error) {
    throw new Error(`this page is damaged: what it carries cannot be read (${String(error)})`);
  }
  if (typeof data.docs !== "object" || data.docs === null) throw new Error("this page is damaged: it carries no views");
  current = data;
  return data;
}

let current: Data = { mode: "file", result: "", problems: [], compares: false, scales: false, docs: {} };
const asked = new Map<string, Promise<unknown>>();
/** Answers that are kept; an answer to a selection may take megabytes. */
const KEPT = 40;

export function mode(): Data["mode"] {
  return current.mode;
}

/** What a page on its own says of a question that it has no answer to. */
export const NOT_HERE =
  "This page does not carry that: figures for another selection are computed by `fathom open`, which serves the same page.";

function check(value: unknown): unknown {
  if (typeof value !== "object" || value === null) throw new Error("the answer is damaged");
  const error = (value as { error?: unknown }).error;
  if (typeof error === "string") throw new Error(error);
  return value;
}

/** Asks a question such as `hotspots?group=function`. */
export function ask<T>(question: string): Promise<T> {
  const known = asked.get(question);
  if (known) return known as Promise<T>;
  const answer = (async () => {
    const carried = current.docs[question];
    if (carried !== undefined) return check(carried);
    if (current.mode === "file") throw new Error(NOT_HERE);
    let response: Response;
    try {
      response = await fetch("api/" + question);
    } catch {
      throw new Error("the server does not answer: is `fathom open` still running?");
    }
    return check(await response.json());
  })();
  asked.set(question, answer);
  const oldest = asked.keys().next().value;
  if (asked.size > KEPT && oldest !== undefined) asked.delete(oldest);
  // What failed may work the next time.
  answer.catch(() => asked.delete(question));
  return answer as Promise<T>;
}

export interface Answer<T> {
  value?: T;
  error?: string;
  waiting: boolean;
}

/** The answer to a question, `null` for none; the previous answer stays while the next is awaited. */
export function useDoc<T>(question: string | null): Answer<T> {
  const [answer, setAnswer] = useState<Answer<T> & { of: string | null }>({ waiting: true, of: null });
  useEffect(() => {
    if (question === null) return;
    let alive = true;
    setAnswer((before) => ({ ...before, waiting: true, error: undefined }));
    ask<T>(question).then(
      (value) => alive && setAnswer({ value, waiting: false, of: question }),
      (error: unknown) => alive && setAnswer({ error: error instanceof Error ? error.message : String(error), waiting: false, of: question }),
    );
    return () => {
      alive = false;
    };
  }, [question]);
  return question === null ? { waiting: false } : answer;
}

/** Filters of the selection, as the server takes them; nothing where the page is on its own. */
export function withFilters(question: string, filters: [string, string][]): string {
  if (current.mode === "file" || filters.length === 0) return question;
  const more = filters.map(([key, value]) => "filter=" + encodeURIComponent(`${key}=${value}`)).join("&");
  return question + (question.includes("?") ? "&" : "?") + more;
}
