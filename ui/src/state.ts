// What is shown, all of it in the address: a link shows the same to somebody else.

import { useEffect, useState } from "preact/hooks";
import { KINDS, type Kind, type Names, withName } from "./selection";

export interface State {
  view: string;
  figure: string;
  group: string;
  from?: number;
  to?: number;
  /** Names that are taken in, and those that are left out. */
  only: Names;
  without: Names;
  file?: string;
  line?: number;
  /** Function whose machine code is shown. */
  code?: string;
  search: string;
  table: string;
  flame: string;
  /** Keys of the figures that stand next to the first in trees. */
  further: string;
  /** Units of tables: `s:ms,bytes:MiB`. */
  units: string;
  /** What is asked in SQL. */
  sql: string;
  /** What Compare shows: tables where nothing is said. */
  compare: string;
  /** Lanes of the timeline that are pinned, and those that are folded or not against custom: lists of ids as JSON. */
  pins: string;
  folds: string;
  /** Marks on it, as JSON. */
  marks: string;
}

/** What is shown where the address does not say. */
export const USUAL: State = { view: "summary", figure: "cpu_time", group: "function", only: {}, without: {}, search: "", table: "hotspots?group=function&limit=400", flame: "", further: "", units: "", sql: "", compare: "", pins: "", folds: "", marks: "" };
const NUMBERS = new Set(["from", "to", "line"]);

/** In the address names that are left out have this in front of their kind. */
const NOT = "not-";

function read(): State {
  const fields: Record<string, unknown> = { ...USUAL };
  const [only, without]: [Names, Names] = [{}, {}];
  Object.assign(fields, { only, without });
  for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
    const kind = KINDS.find((one) => key === one || key === NOT + one);
    if (kind) {
      const names = key === kind ? only : without;
      names[kind] = [...(names[kind] ?? []), value];
    } else if (key === "only" || key === "without") continue;
    else if (!NUMBERS.has(key)) fields[key] = value;
    else if (Number.isFinite(Number(value))) fields[key] = Number(value);
  }
  return fields as unknown as State;
}

/** A list of texts in the address, which anybody may have written. */
export function listOf(text: string): string[] {
  try {
    const found: unknown = JSON.parse(text || "[]");
    return Array.isArray(found) ? found.filter((one): one is string => typeof one === "string") : [];
  } catch {
    return [];
  }
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
  for (const kind of KINDS) {
    for (const name of next.only[kind] ?? []) fields.append(kind, name);
    for (const name of next.without[kind] ?? []) fields.append(NOT + kind, name);
  }
  for (const [key, value] of Object.entries(next)) {
    if (typeof value !== "object" && value !== undefined && value !== "" && value !== (USUAL as unknown as Record<string, unknown>)[key]) fields.set(key, String(value));
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

/** Takes a name in alone or besides others, leaves it out, or neither. */
export function choose(kind: Kind, name: string, how: "only" | "also" | "without" | "any"): void {
  update(withName(state, kind, name, how));
}

/** A name that is clicked is taken in alone; with Ctrl besides others, with Alt it is left out; a second time it is not chosen. */
export function chooseBy(event: MouseEvent | KeyboardEvent, kind: Kind, name: string): void {
  const how = event.altKey ? "without" : event.ctrlKey || event.metaKey ? "also" : "only";
  choose(kind, name, state.only[kind]?.includes(name) || state.without[kind]?.includes(name) ? "any" : how);
}

/** The one object that is shown besides all others, if there is one. */
export function objectOf(shown: State): string | undefined {
  return shown.only.object?.length === 1 ? shown.only.object[0] : undefined;
}
