// Numbers for people.

import type { Metric } from "./types";

type Steps = [least: number, name: string][];
const TIMES: Steps = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const RATES: Steps = [[1, "G"], [1e-3, "M"], [1e-6, "k"], [1e-9, ""]];

/** Three significant digits; a millionth and less, and a million and more, with an exponent. */
export function digits(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 99.95 && size < 1e6) return Math.round(value).toLocaleString("en");
  if (size >= 1e-6 && size < 1e6) return String(Number(value.toPrecision(3)));
  return value.toExponential(2);
}

function scaled(value: number, base: number, names: string[]): string {
  let at = 0;
  while (Math.abs(value) >= base && at + 1 < names.length) {
    value /= base;
    at += 1;
  }
  if (at === 0) return `${digits(value)} ${names[0]}`.trim();
  // 64.0 KiB is 64 KiB, and 1000 of them are not 1.00e+3.
  const shown = Math.abs(value) >= 999.5 ? String(Math.round(value)) : value.toPrecision(3);
  return `${Number(shown) === Math.round(value) && base === 1024 ? Math.round(value) : shown} ${names[at]}`;
}

export function bytes(value: number): string {
  return scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
}

export function count(value: number): string {
  return scaled(value, 1000, ["", "k", "M", "G", "T"]);
}

export function seconds(value: number): string {
  if (value === 0) return "0 s";
  const [factor, unit] = stepOf(value, TIMES);
  return `${digits(value / factor)} ${unit}`;
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
    default: return `${digits(value)} ${unit}`;
  }
}

/** `0 to 10.9 GB/s`, where there is an interval and its ends do not read alike. */
export function interval({ low, high, unit, value }: Metric): string | undefined {
  if (value === undefined || low === undefined || high === undefined || low >= high) return undefined;
  const [from, to] = [amount(low, unit), amount(high, unit)];
  return from === to ? undefined : `${from} to ${to}`;
}

/** A figure in words. Of a share whose interval is wide and reaches nothing or all there is, the ends say more than the middle:
 * `0.0 % to 28.8 %`. So does the terminal (crates/report/src/text/format.rs). */
export function figure(metric: Metric): string {
  const { value = 0, low = value, high = value, unit } = metric;
  const half = Math.max(high - value, value - low);
  const atEnd = (from: number, to: number) => from < 0.05 || to > 99.95;
  const wide = unit === "percent" && high - low >= 1 && (atEnd(low, high) || atEnd(value - half, value + half));
  return (wide ? interval(metric) : undefined) ?? amount(value, unit);
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
export function provenance(metric: Metric): string {
  if (metric.value === undefined) return `not available: ${metric.note ?? "no reason is known"}`;
  const parts = [amount(metric.value, metric.unit)];
  if (metric.low !== undefined && metric.high !== undefined && metric.low < metric.high) {
    parts.push(`95 % between ${amount(metric.low, metric.unit)} and ${amount(metric.high, metric.unit)}`);
  }
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
