// Small parts that views share.

import type { ComponentChildren, RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { amount, digits, figure, provenance, shortName } from "./format";
import { save, savePng, svgText } from "./save";
import { update } from "./state";
import type { Metric, Table } from "./types";

/** A figure with a mark for how it came to be, for which cells of tables have no room; hovering tells its interval. */
export function Value({ metric, badge = true, bare = false }: { metric: Metric | undefined; badge?: boolean; bare?: boolean }) {
  if (!metric) return <span class="none">n/a</span>;
  const why = provenance(metric);
  if (metric.value === undefined) return <span class="none" title={why}>n/a</span>;
  return (
    <span class="value" title={why}>
      {bare ? digits(metric.value) : badge ? figure(metric) : amount(metric.value, metric.unit)}
      {badge && metric.evidence && <>{" "}<Badge evidence={metric.evidence} /></>}
    </span>
  );
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

export function SaveDrawing({ svg, name }: { svg: RefObject<SVGSVGElement | null>; name: string }) {
  const drawing = () => svg.current;
  return (
    <span class="save">
      <button onClick={() => { const of = drawing(); if (of) save(`${name}.svg`, svgText(of), "image/svg+xml"); }}>SVG</button>
      <button onClick={() => { const of = drawing(); if (of) savePng(`${name}.png`, of); }}>PNG</button>
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
