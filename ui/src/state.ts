// What is shown, all of it in the address: a link shows the same to somebody else.

import { useEffect, useState } from "preact/hooks";

export interface State {
  view: string;
  figure: string;
  group: string;
  from?: number;
  to?: number;
  function?: string;
  thread?: string;
  module?: string;
  object?: string;
  file?: string;
  line?: number;
  /** Function whose machine code is shown. */
  code?: string;
  search: string;
  table: string;
  flame: string;
}

/** What is shown where the address does not say. */
export const USUAL: State = { view: "summary", figure: "cpu_time", group: "function", search: "", table: "hotspots?group=function&limit=400", flame: "" };
const NUMBERS = new Set(["from", "to", "line"]);

function read(): State {
  const fields: Record<string, unknown> = { ...USUAL };
  for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
    if (!NUMBERS.has(key)) fields[key] = value;
    else if (Number.isFinite(Number(value))) fields[key] = Number(value);
  }
  return fields as unknown as State;
}

let state = read();
const listeners = new Set<() => void>();

export function getState(): State {
  return state;
}

/** Changes what is shown. Steps that one wants to go back over make an entry in the history. */
export function update(change: Partial<State>): void {
  const next = { ...state, ...change };
  const fields = new URLSearchParams();
  for (const [key, value] of Object.entries(next)) {
    if (value !== undefined && value !== "" && value !== (USUAL as unknown as Record<string, unknown>)[key]) fields.set(key, String(value));
  }
  const hash = "#" + fields.toString();
  const step = change.view !== undefined && change.view !== state.view;
  state = next;
  // Not pushState by address: a page from disk has none of its own.
  if (step) history.pushState(null, "", hash);
  else history.replaceState(null, "", hash);
  listeners.forEach((listener) => listener());
}

window.addEventListener("popstate", () => {
  state = read();
  listeners.forEach((listener) => listener());
});

export function useShown(): State {
  const [, again] = useState(0);
  useEffect(() => {
    const listener = () => again((count) => count + 1);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return state;
}

/** The filters that views have in common, in the words of the command line. */
export function filters(shown: State, keys: readonly string[] = ["function", "thread", "module", "time"]): [string, string][] {
  const found: [string, string][] = [];
  for (const key of keys) {
    if (key === "time") {
      if (shown.from !== undefined && shown.to !== undefined) found.push(["time", `${shown.from}..${shown.to}`]);
    } else {
      const value = shown[key as "function"];
      if (value) found.push([key, value]);
    }
  }
  return found;
}
