// What the colours of the timeline mean.

import { STATES } from "./states";

/** Kinds of drawing with their names, in the order in which they are listed. */
const LANES: [string, string][] = [["user", "program"], ["kernel", "kernel"], ["read", "read"], ["write", "written"], ["peakline", "what such a mix reaches"], ["uncertain", "95 % interval"]];
const SAMPLED: [string, string][] = [["life", "alive, not sampled"], ["faults", "page faults"]];
const BURST: [string, string] = ["burst", "burst of translated code"];
const PAUSED: [string, string] = ["hatched", "paused: nothing was observed"];

/** `traffic`, `bursts`, `pauses`: there are lanes and marks of them. */
export function Legend({ states, traffic, bursts, pauses }: { states: boolean; traffic: boolean; bursts: boolean; pauses: boolean }) {
  const entries = (all: [string, string][]) => all.map(([kind, label]) => <span key={label}><i class={kind} /> {label}</span>);
  const lanes = traffic ? LANES : [...LANES.slice(0, 2), LANES.at(-1)!];
  const ofThreads = STATES.map(([, kind, label]): [string, string] => [kind, label]);
  const marks = [...(bursts ? [BURST] : []), ...(pauses ? [PAUSED] : [])];
  if (states) return <><p class="legend">Threads: {entries([...ofThreads, ...marks])}</p><p class="legend">Lanes: {entries(lanes)}</p></>;
  return <p class="legend">{entries([...lanes.slice(0, 2), ...SAMPLED, ...marks, ...lanes.slice(2)])}</p>;
}
