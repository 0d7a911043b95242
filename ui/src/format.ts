// Numbers for people.

import type { Metric } from "./types";

type Steps = [least: number, name: string][];
const TIMES: Steps = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const COUNTS: Steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const RATES: Steps = [[1, "G"], [1e-3, "M"], [1e-6, "k"], [1e-9, ""]];

/** Three significant digits, as the terminal has them (crates/report/src/text/format.rs): `13.0`, not `13`. What is more than
 * nothing does not read as nothing. Of a million on with an exponent. */
export function digits(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.005) return `${value < 0 ? ">-" : "<"}0.01`;
  if (size >= 1e6) return value.toExponential(2);
  if (size >= 99.95) return Math.round(value).toLocaleString("en");
  return value.toFixed(size >= 9.995 ? 1 : 2);
}

/** The same without zeros that say nothing: for axes. */
export const plain = (format: (value: number) => string) => (value: number): string => format(value).replace(/(\.\d*?)0+(?!\d)/, "$1").replace(/\.(?!\d)/, "");

export function bytes(value: number): string {
  let [scaled, at] = [Math.abs(value), 0];
  for (; scaled >= 1024 && at < 5; at++) scaled /= 1024;
  const name = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][at]!;
  const shown = at === 0 || Math.abs(scaled - Math.round(scaled)) < 0.05 ? String(Math.round(scaled)) : scaled.toFixed(1);
  return `${value < 0 ? "-" : ""}${shown} ${name}`;
}

/** Sizes along an axis with as many decimals as steps of this length need, in the unit of the largest. */
export function bytesOf(step: number, largest: number): (value: number) => string {
  const at = Math.min(5, Math.max(0, Math.floor(Math.log2(Math.max(1, largest)) / 10)));
  const decimals = Math.max(0, Math.min(6, Math.ceil(-Math.log10(Math.max(step, 1) / 1024 ** at) - 1e-9)));
  return (value) => `${(value / 1024 ** at).toFixed(decimals)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][at]!}`;
}

/** All digits up to 9,999, then k, M, G, T. */
export function count(value: number): string {
  const size = Math.abs(value);
  if (size < 9999.5) return Math.round(value).toLocaleString("en");
  const [factor, unit] = stepOf(value, COUNTS);
  return `${digits(value / factor)} ${unit}`;
}

export function seconds(value: number): string {
  if (value === 0) return "0 s";
  const [factor, unit] = stepOf(value, TIMES);
  return `${digits(value / factor)} ${unit}`;
}

/** A point in time with as many digits as steps of this length need, in the unit of the largest: `12.34562 s`. */
export function timesOf(step: number, largest: number): (value: number) => string {
  const [factor, unit] = stepOf(largest, TIMES);
  const decimals = Math.max(0, Math.min(9, Math.ceil(-Math.log10(Math.max(step, 1e-12) / factor) - 1e-9)));
  return (value) => `${(value / factor).toFixed(decimals)} ${unit}`;
}

/** From when to when, so that the ends differ in what is written. */
export function timeSpan(from: number, to: number): string {
  const label = plain(timesOf(Math.max(to - from, 1e-6) / 100, to));
  return `${label(from)} to ${label(to)}`;
}

/** What would print as 1000 belongs to the next larger one. */
function stepOf(value: number, steps: Steps): Steps[0] {
  return steps.find(([least]) => Math.abs(value) >= least * 0.9995) ?? steps.at(-1)!;
}

/** A rate that is given in `GB/s` or `GFLOP/s`, with the prefix that suits it: `850 kB/s`. */
export function rate(value: number, unit: "GB/s" | "GFLOP/s"): string {
  if (value === 0) return `0 ${unit}`;
  const [factor, prefix] = stepOf(value, RATES);
  return `${digits(value / factor)} ${prefix}${unit.slice(1)}`;
}

/** A date and a time of this machine's clock, from seconds since 1970. */
export function dateOf(since: number): string {
  const date = new Date(since * 1000);
  const two = (number: number) => String(number).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

export function percent(value: number): string {
  if (value !== 0 && Math.abs(value) < 0.05) return value < 0 ? ">-0.1 %" : "<0.1 %";
  return `${value.toFixed(1)} %`;
}

export function amount(value: number, unit: string): string {
  switch (unit) {
    case "s": return seconds(value);
    case "bytes": return bytes(value);
    case "percent": return percent(value);
    case "count": return count(value);
    case "ratio": case "": return digits(value);
    case "GB/s": case "GFLOP/s": return rate(value, unit);
    case "count/s": return count(value) + "/s";
    case "ns": return seconds(value * 1e-9);
    default: return `${digits(value)} ${unit}`;
  }
}

/** `0 to 10.9 GB/s`: a unit that both ends have is there once; of one end only, `at least 1.2 GB/s`. Nothing where there is no
 * interval, or its ends read alike. */
export function interval({ low, high, unit, value }: Metric): string | undefined {
  if (value !== undefined && high === undefined && low !== undefined && low < value) return amount(low, unit).startsWith("<") ? "above 0" : `at least ${amount(low, unit)}`;
  if (value !== undefined && low === undefined && high !== undefined && high > value) return `at most ${amount(high, unit)}`;
  if (value === undefined || low === undefined || high === undefined || low >= high) return undefined;
  const [from, to] = [low === 0 && !["percent", "count"].includes(unit) ? "0" : amount(low, unit), amount(high, unit)];
  if (from === to) return undefined;
  const [of, end] = [from.lastIndexOf(" "), to.lastIndexOf(" ")];
  return of > 0 && from.slice(of) === to.slice(end) ? `${from.slice(0, of)} to ${to}` : `${from} to ${to}`;
}

/** The shorter side of an interval is at least this part of the longer one where `±` stands for both. */
const LOPSIDED = 0.75;

/** What follows a figure to say how sure it is: `±1.2` of a share, as in the terminal; of others, and where `±` would claim a
 * good part beyond one end, the ends of the interval. */
export function uncertainty(metric: Metric): string | undefined {
  const { value, low, high, unit } = metric;
  const ends = interval(metric);
  if (value === undefined || ends === undefined || ends === figure(metric)) return undefined;
  if (low === undefined || high === undefined) return ends;
  const [half, shorter] = [Math.max(high - value, value - low), Math.min(high - value, value - low)];
  if (unit !== "percent" || (half >= 1 && shorter < half * LOPSIDED)) return ends;
  return half >= 999.95 ? "±>999" : `±${half.toFixed(1)}`;
}

/** Nothing of it was in what was observed, and no upper end follows from that: then `0` would say too much. */
export const isUnseen = ({ value, high, note }: Metric): boolean => value === 0 && !high && (note?.startsWith("none of ") ?? false);
export const NONE = "none seen";

/** A figure in words. Of a share whose interval is wide and reaches nothing or all there is, the ends say more than the middle:
 * `0.0 % to 28.8 %`. So does the terminal (crates/report/src/text/format.rs). */
export function figure(metric: Metric): string {
  if (isUnseen(metric)) return NONE;
  const { value = 0, low = value, high = value, unit } = metric;
  const half = Math.max(high - value, value - low);
  const atEnd = (from: number, to: number) => from < 0.05 || to > 99.95;
  const wide = unit === "percent" && high - low >= 1 && (atEnd(low, high) || atEnd(value - half, value + half));
  return (wide ? interval(metric) : undefined) ?? amount(value, unit);
}

/** What an amount is at most; sizes without decimals that would be cut off, rounded up. */
export function bound(units: string, value: number, unit: string): string {
  const text = amountIn(units, value, unit);
  return unit !== "bytes" ? text : text.replace(/^(\d{3,})\.(\d)/, (_, whole: string, tenth: string) => String(Number(whole) + (tenth === "0" ? 0 : 1)));
}

/** A figure in a sentence, with its interval. */
export function withInterval(metric: Metric): string {
  const [middle, ends] = [figure(metric), interval(metric)];
  return ends === undefined || ends === middle ? middle : `${middle} (${ends})`;
}

/** A gain in words where its sign is not sure, or it is a loss; as in the terminal (`gain` of crates/report/src/findings.rs). */
export function saving({ value, low, high }: Metric): string | undefined {
  if (value === undefined || low === undefined || high === undefined || low >= 0) return undefined;
  if (high <= 0) return `costs ${seconds(-value)} (${seconds(-high)} to ${seconds(-low)})`;
  if (value <= 0) return `may cost up to ${seconds(-low)} or save up to ${seconds(high)}`;
  return `may save ${seconds(value)} (up to ${seconds(high)}) or cost up to ${seconds(-low)}`;
}

/** Longer names of functions are shortened where many stand below each other. */
const LONG = 66;

/** A function's name without its parameters, and without what stands between the outermost angle brackets, if it is long. */
export function shortName(name: string): string {
  if (name.length <= LONG) return name;
  const short = elided(elided(name, "(", ")"), "<", ">");
  if (short.length <= LONG) return short;
  // The end of a name says more than its namespaces.
  return `${short.slice(0, LONG * 0.4)}…${short.slice(1 - LONG * 0.6)}`;
}

/** `…` in the place of what stands between these; the text itself where they do not match up, or where it begins with one. */
function elided(text: string, open: string, close: string): string {
  let [out, depth] = ["", 0];
  for (let at = 0; at < text.length; at++) {
    const letter = text[at]!;
    if (letter === open) {
      if (at === 0) return text;
      if (depth++ === 0) out += text[at + 1] === close ? open : `${open}…`;
    } else if (letter === close) {
      if (depth-- === 0) return text;
      if (depth === 0) out += close;
    } else if (depth === 0) out += letter;
  }
  return depth === 0 ? out : text;
}

/** What hovering over a figure tells. */
export function provenance(metric: Metric | undefined): string {
  if (!metric) return "not in this result";
  if (metric.value === undefined) return `not available: ${metric.note ?? "no reason is known"}`;
  const parts = [amount(metric.value, metric.unit)];
  const ends = interval(metric);
  if (ends) parts.push(`95 % interval ${ends}`);
  if (metric.evidence) parts.push(metric.evidence);
  if (metric.samples > 1) parts.push(`${count(metric.samples)} observations`);
  if (metric.lost) parts.push(`${count(metric.lost)} lost`);
  if (metric.note) parts.push(metric.note);
  return parts.join(", ");
}

/** `1 row`, `2 rows`. */
export const counted = (count: number, what: string) => `${count} ${what}${count === 1 ? "" : "s"}`;

/** The first letter as at the beginning of a sentence. */
export const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

const FIXED: Record<string, number> = { s: 1, ms: 1e-3, "µs": 1e-6, ns: 1e-9, GiB: 2 ** 30, MiB: 2 ** 20, KiB: 2 ** 10, B: 1, G: 1e9, M: 1e6, k: 1e3, "1": 1 };

/** The units that were chosen, as the address has them: `s:ms,bytes:MiB`. */
export function fixedUnits(text: string): Partial<Record<string, string>> {
  return Object.fromEntries(text.split(",").map((part) => part.split(":")).filter(([kind, name]) => kind && name && FIXED[name] !== undefined));
}

/** An amount in the unit that was chosen for its kind, else as suits it. */
export function amountIn(units: string, value: number, unit: string): string {
  const [kind, seconds] = unit === "ns" ? ["s", value * 1e-9] as const : [unit, value] as const;
  const name = units === "" ? undefined : fixedUnits(units)[kind];
  if (name === undefined) return amount(value, unit);
  const scaled = seconds / FIXED[name]!;
  const size = Math.abs(scaled);
  if (size === 0) return name === "1" ? "0" : `0 ${name}`;
  const shown = size >= 100 ? Math.round(scaled).toLocaleString("en") : name === "B" || name === "1" ? (size > 0 && size < 0.5 ? "<1" : String(Math.round(scaled))) : size > 0 && size < 0.0005 ? (scaled < 0 ? ">-0.001" : "<0.001") : scaled.toFixed(size >= 10 ? 1 : size >= 1 ? 2 : 3);
  return name === "1" ? shown : `${shown} ${name}`;
}
