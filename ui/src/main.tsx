// The page: tabs, the filter that all views share, keys. A view that fails says so and leaves the others alone.

import { Component, render, type ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { answered, ask, cutOff, load, whole, type Data } from "./data";
import { shortName, timeSpan } from "./format";
import { firstPart } from "./long";
import { Explained, Failed } from "./parts";
import { stacksOf } from "./stacks";
import { KINDS, nothingChosen } from "./selection";
import { USUAL, choose, getState, update, useShown } from "./state";
import { chooseTheme, restoreTheme, theme } from "./theme";
import type { StacksDocument } from "./types";
import { AskView } from "./views/ask";
import { AroundView, CallsView } from "./views/calls";
import { CompareView } from "./views/compare";
import { FlameView } from "./views/flame";
import { FleetView } from "./views/fleet";
import { ObjectsView } from "./views/objects";
import { PlatformView } from "./views/platform";
import { RooflineView } from "./views/roofline";
import { ScalingView } from "./views/scaling";
import { SourceView } from "./views/source";
import { SummaryView } from "./views/summary";
import { TablesView } from "./views/tables";
import { TimelineView } from "./views/timeline";
import "./style.css";

const VIEWS: [key: string, label: string][] = [
  ["summary", "Summary"],
  ["bottom-up", "Bottom-up"],
  ["top-down", "Top-down"],
  ["around", "Callers and callees"],
  ["flame", "Flame graph"],
  ["objects", "Memory objects"],
  ["timeline", "Timeline"],
  ["source", "Source"],
  ["roofline", "Roofline"],
  ["platform", "Platform"],
  ["tables", "Tables"],
  ["ask", "Ask"],
];

function View({ view, height }: { view: string; height: number }) {
  switch (view) {
    case "bottom-up": return <CallsView direction="bottom-up" height={height} key="bottom-up" />;
    case "top-down": return <CallsView direction="top-down" height={height} key="top-down" />;
    case "around": return <AroundView height={height} />;
    case "flame": return <FlameView height={height} />;
    case "objects": return <ObjectsView height={height} />;
    case "timeline": return <TimelineView height={height} />;
    case "source": return <SourceView height={height} />;
    case "roofline": return <RooflineView height={height} />;
    case "platform": return <PlatformView />;
    case "tables": return <TablesView height={height} />;
    case "ask": return <AskView height={height} />;
    case "scaling": return <ScalingView height={height} />;
    case "compare": return <CompareView height={height} />;
    default: return <SummaryView />;
  }
}

/** Keeps a fault in one view from taking the page. */
class Guard extends Component<{ children: ComponentChildren }, { error?: string }> {
  override state: { error?: string } = {};
  static override getDerivedStateFromError(error: unknown) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
  render() {
    if (this.state.error === undefined) return this.props.children;
    return <Failed error={`This view cannot be shown: the result is damaged, or this is a bug (${this.state.error}).`} />;
  }
}

/** Views of whole runs; the others say themselves which of their figures do not follow the selection. */
const OF_WHOLE_RUNS = new Set(["compare", "scaling"]);

/** A kind and a name of which the name is shortened as everywhere. */
const shortened = (says: string) => says.replace(/^(.*?: )(.*)$/s, (_, kind: string, name: string) => kind + shortName(name));

function Filters() {
  const shown = useShown();
  if (nothingChosen(shown)) return null;
  const chip = (key: string, says: string, remove: () => void) => <button key={key} class="chip" title={`remove: ${says}`} onClick={remove}>{says.length > 66 ? shortened(says) : says} ✕</button>;
  return (
    <div class="filters" role="group" aria-label="Filters">
      {shown.from !== undefined && shown.to !== undefined && chip("time", `time: ${timeSpan(shown.from, shown.to)}`, () => update({ from: undefined, to: undefined }))}
      {KINDS.flatMap((kind) => [
        ...(shown.only[kind] ?? []).map((name) => chip(`${kind} ${name}`, `${kind}: ${name}`, () => choose(kind, name, "any"))),
        ...(shown.without[kind] ?? []).map((name) => chip(`not ${kind} ${name}`, `without ${kind}: ${name}`, () => choose(kind, name, "any"))),
      ])}
      <button onClick={() => update({ from: undefined, to: undefined, only: {}, without: {} })}>Clear all</button>
      {OF_WHOLE_RUNS.has(shown.view) && <span class="quiet">All figures of this view are of whole runs: they do not follow the selection.</span>}
    </div>
  );
}

/** Documents that several views begin with, the largest first. */
const AHEAD = ["stacks", "timeline?group=thread&limit=60", "timeline?limit=400", "bandwidth"];

/** Reads them while nobody waits for an answer, one in each pause; then makes the trees that are looked at first. */
function readAhead(rest: string[]): void {
  const next = rest.shift();
  if (next !== undefined) requestIdleCallback(() => void answered().then(() => ask(next)).then(() => readAhead(rest)));
  else requestIdleCallback(() => void ask("stacks").then(({ value }) => value !== undefined && stacksOf(value as StacksDocument).makeAhead(USUAL.figure, USUAL.group)));
}

function App({ data }: { data: Data }) {
  const shown = useShown();
  const [height, setHeight] = useState(window.innerHeight - 90);
  const [, repaint] = useState(0);
  const [broken, setBroken] = useState<string>();
  const views = [...VIEWS];
  if (data.compares) views.push(["compare", "Compare"]);
  if (data.scales) views.push(["scaling", "Scaling"]);
  useEffect(() => {
    void whole.then(() => {
      setBroken(cutOff());
      // A server makes the table of objects for seconds, and keeps it.
      readAhead(data.mode === "server" ? [...AHEAD, firstPart("objects")] : [...AHEAD]);
    });
  }, []);
  useEffect(() => {
    const onResize = () => setHeight(window.innerHeight - 90);
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName)) return;
      const view = views[Number(event.key) - 1];
      if (view) update({ view: view[0] });
      else if (event.key === "/") {
        event.preventDefault();
        document.querySelector<HTMLInputElement>("main input[type=search]")?.focus();
      }
    };
    window.addEventListener("resize", onResize);
    window.addEventListener("keydown", onKey);
    return () => {
      window.removeEventListener("resize", onResize);
      window.removeEventListener("keydown", onKey);
    };
  }, []);
  // On a narrow screen the tabs scroll.
  useEffect(() => document.getElementById(`tab-${shown.view}`)?.scrollIntoView({ block: "nearest", inline: "nearest" }), [shown.view]);
  const onTabs = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    const at = views.findIndex(([key]) => key === getState().view);
    const next = views[(at + step + views.length) % views.length]!;
    update({ view: next[0] });
    document.getElementById(`tab-${next[0]}`)?.focus();
  };
  return (
    <>
      <header>
        <h1>Fathom <span class="code">{data.result}</span></h1>
        <nav role="tablist" aria-label="Views" onKeyDown={onTabs}>
          {views.map(([key, label], at) => (
            <button key={key} id={`tab-${key}`} role="tab" aria-selected={shown.view === key} aria-controls="view" tabIndex={shown.view === key ? 0 : -1}
              title={at < 9 ? `${label} (key ${at + 1})` : label} onClick={() => update({ view: key })}>{label}</button>
          ))}
        </nav>
        <Theme onChange={() => repaint((count) => count + 1)} />
      </header>
      <Filters />
      {broken && <Failed error={broken} />}
      {data.problems.length > 0 && <div class="failed" role="alert">This result is damaged in part; what could be read is shown. {data.problems.join(" ")}</div>}
      <main>
        <div id="view" role="tabpanel" aria-labelledby={`tab-${shown.view}`}>
          <Guard key={shown.view}><View view={shown.view} height={height} /></Guard>
        </div>
      </main>
      <Explained />
    </>
  );
}

/** The page of a dataset has one view. */
function Fleet({ data }: { data: Data }) {
  const [, repaint] = useState(0);
  const [broken, setBroken] = useState<string>();
  useEffect(() => void whole.then(() => setBroken(cutOff())), []);
  return (
    <>
      <header>
        <h1>Fathom <span class="code">{data.result}</span></h1>
        <Theme onChange={() => repaint((count) => count + 1)} />
      </header>
      {broken && <Failed error={broken} />}
      <main><div id="view"><Guard><FleetView /></Guard></div></main>
      <Explained />
    </>
  );
}

function Theme({ onChange }: { onChange: () => void }) {
  return <button class="theme" aria-label="Light or dark" title="Light or dark" onClick={() => { chooseTheme(theme() === "dark" ? "light" : "dark"); onChange(); }}>◐</button>;
}

const root = document.getElementById("app");
if (root) {
  root.textContent = "";
  restoreTheme();
  try {
    const data = load();
    render(data.fleet ? <Fleet data={data} /> : <App data={data} />, root);
  } catch (error) {
    render(<Failed error={`${error instanceof Error ? error.message : String(error)}. Make it anew: fathom html RESULT -o report.html`} />, root);
  }
}
