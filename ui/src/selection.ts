// The selection: what counts, one for all views. Names are taken in or left out, several of each kind; and a span of time.
// Which figures of a view do not follow it, the view says with `unfollowed`.

import { mode } from "./data";
import type { State } from "./state";
import type { StacksDocument } from "./types";

export type Kind = "process" | "thread" | "module" | "function" | "object" | "region";
export const KINDS: Kind[] = ["process", "thread", "module", "function", "object", "region"];
export type Names = Partial<Record<Kind, string[]>>;

/** What a view may follow. */
export type Aspect = Kind | "time";
/** What threads that wait, or share lines, are known by. */
export const OF_THREADS: Aspect[] = ["time", "process", "thread"];
/** All that call stacks know. */
export const OF_STACKS: Aspect[] = ["time", "process", "thread", "module", "function"];

/** The selection with a name of this kind alone, taken in besides others, left out, or neither. */
export function withName(state: State, kind: Kind, name: string, how: "only" | "also" | "without" | "any"): Pick<State, "only" | "without"> {
  const others = (names: Names) => (names[kind] ?? []).filter((one) => one !== name);
  const set = (names: Names, list: string[]): Names => ({ ...names, [kind]: list.length > 0 ? list : undefined });
  return {
    only: set(state.only, how === "only" ? [name] : how === "also" ? [...others(state.only), name] : others(state.only)),
    without: set(state.without, how === "without" ? [...others(state.without), name] : others(state.without)),
  };
}

export function nothingChosen({ from, to, only, without }: State): boolean {
  return (from === undefined || to === undefined) && KINDS.every((kind) => !only[kind] && !without[kind]);
}

/** Whether threads and processes let this one in. */
export function hasThread({ only, without }: Pick<State, "only" | "without">, { label, process }: { label: string; process: string }): boolean {
  const lets = (names: string[] | undefined, name: string) => !names || names.includes(name);
  return lets(only.thread, label) && lets(only.process, process) && !without.thread?.includes(label) && !without.process?.includes(process);
}

/** Whether threads and processes let none in. */
export function noThreadLeft(shown: State, threads: StacksDocument["threads"] | undefined): boolean {
  return threads !== undefined && threads.length > 0 && !threads.some((thread) => hasThread(shown, thread));
}

/** `the thread`, `the processes`. */
const named = (kind: Kind, names: string[]): string => `the ${kind}${names.length === 1 ? "" : kind === "process" ? "es" : "s"}`;

/** The parts of the selection that are chosen, in words. */
function chosen(shown: State): { part: Aspect; out: boolean; says: string }[] {
  const found: { part: Aspect; out: boolean; says: string }[] = [];
  if (shown.from !== undefined && shown.to !== undefined) found.push({ part: "time", out: false, says: "the time" });
  for (const kind of KINDS) {
    if (shown.only[kind]) found.push({ part: kind, out: false, says: `${named(kind, shown.only[kind])} taken in` });
    if (shown.without[kind]) found.push({ part: kind, out: true, says: `${named(kind, shown.without[kind])} left out` });
  }
  return found;
}

/** Whether the server's tables can follow: it knows names to take in, of threads and processes also those to leave out. */
const isKnownToServer = (part: Aspect, out: boolean): boolean => !out || part === "thread" || part === "process";

/** Regions are times of each thread, which only a server cuts; it does so wherever it cuts time. */
const followsRegion = (out: boolean, follows: readonly Aspect[], tables: boolean): boolean => !out && mode() === "server" && (follows.includes("region") || (tables && follows.includes("time")));

/** The parts of the selection that figures do not follow. */
const leftOf = (shown: State, follows: readonly Aspect[], tables: boolean) =>
  chosen(shown).filter(({ part, out }) => {
    if (part === "region") return !followsRegion(out, follows, tables);
    // Which figures are not of an object is unknown.
    return (part === "object" && out) || !follows.includes(part) || (tables && (mode() === "file" || !isKnownToServer(part, out)));
  });

/** Whether figures follow any part of the selection. */
export const followsAny = (shown: State, follows: readonly Aspect[], tables: boolean): boolean => leftOf(shown, follows, tables).length < chosen(shown).length;

/** One sentence on the parts of the selection that figures do not follow; nothing where they follow all of it. `tables`: figures
 * come as tables, which a page on its own carries for the whole run only. */
export function unfollowed(shown: State, follows: readonly Aspect[], what: string, tables: boolean): string | undefined {
  const left = leftOf(shown, follows, tables);
  if (left.length === 0) return undefined;
  const hint = mode() === "file" && (tables || left.some(({ part }) => part === "region")) ? "; `fathom open` filters them by more" : "";
  const whole = followsAny(shown, follows, tables) ? "" : " are of the whole run: they";
  return `${what}${whole} do not follow ${left.map(({ says }) => says).join(", ")}${hint}.`;
}

/** The selection in the server's words, as far as these parts go. Threads to leave out become those that are left. */
export function filtersOf(shown: State, follows: readonly Aspect[], threads: StacksDocument["threads"] | undefined): [string, string][] {
  const found: [string, string][] = [];
  if (follows.includes("time") && shown.from !== undefined && shown.to !== undefined) found.push(["time", `${shown.from}..${shown.to}`]);
  if (follows.includes("time")) found.push(...(shown.only.region ?? []).map((name): [string, string] => ["region", name]));
  for (const kind of ["module", "function", "object"] as const) {
    if (follows.includes(kind)) found.push(...(shown.only[kind] ?? []).map((name): [string, string] => [kind, name]));
  }
  if (!follows.includes("thread")) return found;
  const { only, without } = shown;
  if (!without.thread && !without.process && !(only.thread && only.process)) {
    for (const kind of ["process", "thread"] as const) found.push(...(only[kind] ?? []).map((name): [string, string] => [kind, name]));
  } else {
    const left = (threads ?? []).filter((thread) => hasThread(shown, thread)).map((thread) => thread.label);
    // Where none is left, or threads are not known yet, no filter at all would show the figures of all threads.
    found.push(...(left.length > 0 ? left : ["(no thread is left)"]).map((name): [string, string] => ["thread", name]));
  }
  return found;
}
