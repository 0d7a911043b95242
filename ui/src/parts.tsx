// Small parts that views share.

import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { amountIn, bound, digits, figure, isUnseen, NONE, provenance, shortName, uncertainty } from "./format";
import { save, savePng, svgText } from "./save";
import { getState, update } from "./state";
import type { Metric, Table } from "./types";

/** A figure, how sure it is, and a mark for how it came to be; `Explained` tells the rest. */
export function Value({ metric, badge = true }: { metric: Metric | undefined; badge?: boolean }) {
  const why = provenance(metric);
  if (metric?.value === undefined) return <span class="value none" role="note" tabIndex={0} title={why} data-why={why}>n/a</span>;
  const [ends, shown] = [uncertainty(metric), figure(metric)];
  return (
    <span class="value" role="note" tabIndex={0} title={why} data-why={why}>
      <span class={shown.includes(" to ") ? undefined : "amount"}>{shown}</span>
      {ends && <>{" "}<span class={ends.startsWith("±") ? "between" : "between ends"}>{ends}</span></>}
      {badge && metric.evidence && <>{" "}<Badge evidence={metric.evidence} /></>}
    </span>
  );
}

/** A figure in a cell of a table, with its interval below it. The chosen row tells the ends. */
export function CellValue({ metric, bare = false, signed = false }: { metric: Metric; bare?: boolean; signed?: boolean }) {
  const why = provenance(metric);
  if (metric.value === undefined) return <span class="none" title={why}>n/a</span>;
  if (isUnseen(metric)) return <span class="value" title={why}>{NONE}</span>;
  // There is no scale from 0 to twice nothing: what it is at most says more.
  const none = metric.value === 0 && !signed && metric.low === 0 && metric.high ? metric.high : undefined;
  const shownIn = none === undefined ? amountIn : bound;
  // Also where both ends read as the figure does: without a bar it would seem exact.
  const unsure = none === undefined && (metric.low ?? metric.value) !== (metric.high ?? metric.value);
  return (
    <span class="value" title={why}>
      {signed && metric.value > 0 && "+"}{none ? "≤ " : ""}{bare ? digits(none ?? metric.value) : shownIn(getState().units, none ?? metric.value, metric.unit)}
      {unsure && <Interval metric={metric} />}
    </span>
  );
}

/** On a scale from 0 to twice the figure, which is in the middle: so a small figure shows how sure it is as well as a large one. An end
 * that is not known is at the edge. */
function Interval({ metric: { value = 0, low = -Infinity, high = Infinity } }: { metric: Metric }) {
  const at = (place: number) => Math.min(100, Math.max(0, 50 + ((place - value) / (Math.abs(value) || 1)) * 50));
  return <span class="interval" aria-hidden="true"><i style={{ left: `${at(low)}%`, width: `${Math.max(2, at(high) - at(low))}%` }} /><b /></span>;
}

/** What the lines below figures are. */
export const INTERVALS = "The bar below a figure is its 95 % interval, from 0 to twice the figure.";

/** A share as the part of a bar that it fills, with its interval. */
export function Part({ share, low, high }: { share: number; low: number; high: number }) {
  const at = (place: number) => `${Math.min(1, Math.max(0, place)) * 100}%`;
  return (
    <span class="parts" aria-hidden="true">
      <i style={{ width: at(share) }} />
      {high > low && <span class="error" style={{ left: at(low), width: at(high - low) }} />}
    </span>
  );
}

/** Tells what a figure that has the focus, or was clicked or touched, is made of: tooltips need a mouse. */
export function Explained() {
  const [why, setWhy] = useState<string>();
  useEffect(() => {
    const of = (target: EventTarget | null): string | undefined => {
      if (!(target instanceof Element)) return undefined;
      const found = target.closest("[data-why], .explained");
      return found instanceof HTMLElement ? found.dataset.why : (found?.querySelector("title")?.textContent ?? undefined);
    };
    const onFocus = (event: Event) => setWhy(of(event.target));
    const onKey = (event: KeyboardEvent) => event.key === "Escape" && setWhy(undefined);
    document.addEventListener("focusin", onFocus);
    document.addEventListener("click", onFocus);
    document.addEventListener("keydown", onKey);
    return () => {
      document.removeEventListener("focusin", onFocus);
      document.removeEventListener("click", onFocus);
      document.removeEventListener("keydown", onKey);
    };
  }, []);
  return <div class={why ? "why" : "why empty"} role="status" aria-live="polite">{why && <Prose text={why} />}</div>;
}

export function Badge({ evidence }: { evidence: string }) {
  return <abbr class={`badge ${evidence}`} title={evidence}>{evidence.slice(0, 1).toUpperCase() + evidence.slice(1, 3)}</abbr>;
}

/** A sentence of the reports: what stands between backticks is to be typed. */
export function Prose({ text }: { text: string }) {
  return <>{text.split("`").map((part, at) => (at % 2 === 1 ? <code key={at}>{part}</code> : part))}</>;
}

export function Notes({ notes }: { notes: string[] }) {
  if (notes.length === 0) return null;
  return <ul class="notes">{notes.map((note) => <li key={note}><Prose text={note} /></li>)}</ul>;
}

export function Failed({ error }: { error: string }) {
  return <p class="failed" role="alert"><Prose text={error} /></p>;
}

/** Why a table has no rows. */
export function Empty({ table: { empty, notes } }: { table: Table }) {
  return <p class="empty"><Prose text={empty ?? `There is nothing of this in the result${notes.length > 0 ? ":" : "."}`} /></p>;
}

/** Instead of a table that was asked for no thread. */
export function NoThread() {
  return <p class="empty">This selection leaves no thread.</p>;
}

export function Waiting() {
  return <p class="waiting" role="status">Computing ...</p>;
}

export function Card({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

/** A name that leads to its source. */
export function FunctionLink({ name, file, line }: { name: string; file?: string | null; line?: number | null }) {
  if (!file) return <span class="code" title={name}>{shortName(name)}</span>;
  const open = () => update({ view: "source", file, line: line ?? undefined });
  return <button class="link code" title={`${name}, ${file}${line ? `:${line}` : ""}`} onClick={open}>{shortName(name)}</button>;
}

/** The width of what fills the page, guessed: asking for it would lay the page out. Margins and borders are those of `main` and `.lanes` in the style sheet. */
export function fullWidth(): number {
  return window.innerWidth - 26;
}

/** `of`: the drawing, or several that stand below each other. */
export function SaveDrawing({ svg, of, name }: { svg?: RefObject<SVGSVGElement | null>; of?: () => (SVGSVGElement | null)[]; name: string }) {
  const drawings = () => (of ? of() : [svg?.current ?? null]).filter((one): one is SVGSVGElement => one !== null);
  return (
    <span class="save">
      <button onClick={() => { if (drawings().length > 0) save(`${name}.svg`, svgText(drawings()), "image/svg+xml"); }}>SVG</button>
      <button onClick={() => { if (drawings().length > 0) savePng(`${name}.png`, drawings()); }}>PNG</button>
    </span>
  );
}

/** Width of an element as it changes: a callback for its `ref`, and the width inside of it. A good guess saves drawing twice. */
export function useWidth<T extends Element>(guess = 800): [(element: T | null) => void, number] {
  const [element, setElement] = useState<T | null>(null);
  const [width, setWidth] = useState(guess);
  useLayoutEffect(() => {
    if (!element) return;
    const measure = () => setWidth(Math.max(200, Math.floor(element.clientWidth)));
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, [element]);
  return [setElement, width];
}
