// Numbers for people.

import type { Metric } from "./types";

const STEPS: [number, string][] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];

/** Three significant digits. */
export function digits(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 99.95 && size < 1e6) return Math.round(value).toLocaleString("en");
  if (size >= 1e-3 && size < 1e6) return String(Number(value.toPrecision(3)));
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
  const [factor, unit] = STEPS.find(([least]) => Math.abs(value) >= least) ?? STEPS[3]!;
  return `${digits(value / factor)} ${unit}`;
}

/** A date and a time of this machine's clock, from seconds since 1970. */
export function dateOf(since: number): string {
  const date = new Date(since * 1000);
  const two = (number: number) => String(number).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

export function percent(value: number): string {
  return Math.abs(value) < 0.05 && value !== 0 ? "<0.1 %" : `${value.toFixed(1)} %`;
}

export function amount(value: number, unit: string): string {
  switch (unit) {
    case "s": return seconds(value);
    case "bytes": return bytes(value);
    case "percent": return percent(value);
    case "count": return count(value);
    case "ratio": case "": return digits(value);
    case "count/s": return count(value) + "/s";
    default: return `${digits(value)} ${unit}`;
  }
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
