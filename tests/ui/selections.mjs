// Draws 60 selections, or FATHOM_DRAWN. For each, every view must have the report's figures of the same selection, or say which parts of it they do
// not follow: what a view does not say, it must follow.
//
//   node tests/ui/selections.mjs CHROMIUM ADDRESS          (of a server: crates/web/tests/selections.rs)
//
// The report's words choose threads, times and what is taken in. What frames leave out follows from two of its figures:
// all of it, less what is in the frames that are left out. Of tables, the page must ask the report's own question.

import assert from "node:assert/strict";
import { open } from "./harness.mjs";

const { address, page, step, view, run } = await open();
// 200 take five minutes.
const DRAWN = Number(process.env.FATHOM_DRAWN ?? 60);
/** Figures in JSON have six digits. */
const CLOSE = 1e-5;

let state = 20261124;
const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
const some = (list, most) => [...list].sort(() => random() - 0.5).slice(0, 1 + Math.floor(random() * most));
const one = (list) => some(list, 1)[0];

const ask = async (question) => (await fetch(address + "api/" + question)).json();
const stacks = await ask("stacks");
const objects = (await ask("objects?limit=250")).rows.map((row) => row.object);
const tables = ["threads?limit=200", "faults?limit=200", "accesses?limit=300", "bandwidth?group=module,function&limit=250", "latency?group=source-line&limit=400", "sharing?limit=100", "working-set", "reuse?limit=60", "findings", "allocations?group=function&limit=250"];
const labels = stacks.threads.map((thread) => thread.label);
const processes = [...new Set(stacks.threads.map((thread) => thread.process))];
const NAMES = { thread: labels, process: processes, function: [...new Set(stacks.functions.name)], module: stacks.modules, object: objects, region: stacks.regions.map((region) => region.name) };
assert.ok(Object.values(NAMES).every((names) => names.length > 1));

/** A selection as the page has it in its address: `time`, or a kind with `not-` in front of what is left out, each with its values. */
function drawn() {
  const fields = new Map();
  const draw = (part, key, most) => { if (random() < part) fields.set(key, some(NAMES[key.replace("not-", "")], most)); };
  if (random() < 0.6) {
    const [from, to] = [random(), random()].map((share) => Number((share * stacks.elapsed).toPrecision(4))).sort((a, b) => a - b);
    if (from < to) fields.set("time", [from, to]);
  }
  draw(0.25, one(["thread", "not-thread"]), 3);
  draw(0.25, one(["process", "not-process"]), 2);
  draw(0.25, "region", 2);
  draw(0.1, "not-region", 2);
  draw(0.2, "object", 2);
  draw(0.1, "not-object", 2);
  // What is left out is a difference of two figures: no frame is taken in then, and one kind is left out.
  if (random() < 0.5) ["function", "module"].forEach((kind) => draw(0.6, kind, 2));
  else draw(0.6, one(["not-function", "not-module"]), 2);
  return fields;
}

/** Threads that these parts let in. */
const threadsOf = (fields) => stacks.threads.filter(({ label, process }) =>
  [["thread", label], ["process", process]].every(([kind, name]) => (fields.get(kind)?.includes(name) ?? true) && !fields.get(`not-${kind}`)?.includes(name)));
/** The parts without these. */
const less = (fields, ...keys) => new Map([...fields].filter(([key]) => !keys.includes(key)));
/** The same in the report's words, each threads by name. */
function filters(fields) {
  const found = ["region", "module", "function", "object"].flatMap((kind) => (fields.get(kind) ?? []).map((name) => `${kind}=${name}`));
  if (fields.has("time")) found.push(`time=${fields.get("time").join("..")}`);
  const threads = threadsOf(fields);
  return threads.length < labels.length ? [...found, ...threads.map(({ label }) => `thread=${label}`)] : found;
}
const filtered = (question, fields) => question + filters(fields).map((text, at) => `${at > 0 || question.includes("?") ? "&" : "?"}filter=${encodeURIComponent(text)}`).join("");
/** The same text for questions that choose the same, in whatever words and order. */
function canonical(question) {
  const { pathname, searchParams } = new URL(question, "http://page/");
  const fields = new Map();
  for (const text of searchParams.getAll("filter")) {
    const [kind, value] = [text.slice(0, text.indexOf("=")), text.slice(text.indexOf("=") + 1)];
    fields.set(kind, kind === "time" ? value.split("..") : [...(fields.get(kind) ?? []), value]);
  }
  // No thread is asked for by a name that none has.
  const left = [...searchParams].filter(([key]) => key !== "filter").map((pair) => pair.join("="));
  return [pathname, ...left.sort(), ...filters(fields).sort()].join(" ");
}

/** What the report has of a selection by call stacks: `sum` asks for one amount. */
async function reported(fields, sum) {
  if (threadsOf(fields).length === 0) return 0;
  const out = ["function", "module"].find((kind) => fields.has(`not-${kind}`));
  const all = await sum(fields);
  return out ? all - (await sum(new Map([...fields, [out, fields.get(`not-${out}`)]]))) : all;
}
const cpuTime = async (fields) => {
  const { total, absent } = await ask(filtered("hotspots?limit=1", fields));
  return absent ? 0 : (total.total_time.value ?? 0);
};
/** The view of faults takes no objects, and that of objects all of them. */
const faults = async (fields) => (await ask(filtered(fields.has("object") ? "objects?limit=1000" : "faults?limit=1000", fields))).rows?.reduce((sum, row) => sum + (row.page_faults.value ?? 0), 0) ?? 0;

/** What is chosen, in the page's words. */
const MANY = { process: "processes" };
const saysOf = ([key, values]) => {
  const kind = key.replace("not-", "");
  return key === "time" ? "the time" : `the ${values.length > 1 ? (MANY[kind] ?? `${kind}s`) : kind} ${key === kind ? "taken in" : "left out"}`;
};
/** By the figures that a view names, the parts that they do not follow. */
async function said(fields) {
  const text = await view.innerText();
  const found = [...text.matchAll(/([A-Z][^.\n]*?)(?: are of the whole run: they)? do not follow (the [^.;\n]*)/g)].map(([, what, parts]) => {
    const keys = parts.split(", ").map((part) => [...fields].find((field) => saysOf(field) === part)?.[0]);
    assert.ok(!keys.includes(undefined), `"${parts}" is not chosen`);
    return [what, keys.sort()];
  });
  return new Map(found);
}
const among = (fields, ...keys) => [...fields.keys()].filter((key) => keys.includes(key)).sort();

const asked = new Map();
let lately = [];
page.on("request", (request) => {
  const [, question] = request.url().split("/api/");
  if (question === undefined) return;
  asked.set(canonical(question), question);
  lately.push(question);
});
async function show(fields, more) {
  lately = [];
  const pairs = [...fields].flatMap(([key, values]) => (key === "time" ? [["from", String(values[0])], ["to", String(values[1])]] : values.map((value) => [key, value])));
  await page.evaluate((next) => { location.hash = next; dispatchEvent(new PopStateEvent("popstate")); }, "#" + new URLSearchParams([...pairs, ...more]));
}
const settled = () => page.waitForFunction(() => document.querySelector("#view")?.textContent && !document.querySelector("#view .waiting"));

/** Views of call stacks: how much of a figure they say is chosen. */
async function takes(name, fields, expected, close, unfollowed, what) {
  await page.waitForFunction(([value, close]) => {
    const taken = document.querySelector("#view .taken");
    const shown = taken ? Number(taken.getAttribute("value")) : document.querySelector("#view .empty") ? 0 : NaN;
    return Math.abs(shown - value) <= close;
  }, [expected, close], { timeout: 10_000 }).catch(async () => {
    const shown = await view.locator(".taken").getAttribute("value", { timeout: 100 }).catch(() => "nothing");
    assert.fail(`${name} says ${shown}, the report ${expected}`);
  });
  assert.deepEqual((await said(fields)).get(what) ?? [], unfollowed, `${name} says what ${what} do not follow`);
}

/** What the server's tables cannot follow. */
const OUT = ["not-function", "not-module", "not-region", "not-object"];
/** Views of tables: a question that each has asked, of which figures it says what they do not follow, what they cannot follow, and which part
 * of the selection is a row of the view and not a filter. */
const QUESTIONS = [
  { name: "objects", question: "objects?count=100&from=0", what: "Figures of objects", cannot: OUT, rows: "object" },
  { name: "roofline", question: "roofline?group=loop&limit=100", what: "Figures here", cannot: ["object", ...OUT] },
  { name: "source", question: "accesses?limit=300", what: "Figures of accesses and traffic", cannot: OUT },
  ...["hotspots?group=function&limit=400", "regions?limit=200", undefined].map((question) => ({ name: "tables", question, what: "Figures of this table" })),
];
async function asks({ name, question = one(tables), what, cannot, rows }, fields) {
  await show(fields, name === "tables" ? [["view", name], ["table", question]] : [["view", name]]);
  await view.locator(":is(.grid, .empty, .failed, .verdict)").first().waitFor();
  await settled();
  const left = (await said(fields)).get(what) ?? [];
  if (cannot) assert.deepEqual(left, among(fields, ...cannot), `${name} says what it does not follow`);
  if (threadsOf(fields).length === 0 && !left.some((key) => /thread|process/.test(key))) return;
  const follows = less(fields, ...left, rows ?? "");
  const wanted = canonical(filtered(question, follows));
  for (let wait = 0; !asked.has(wanted) && wait < 100; wait++) await page.waitForTimeout(20);
  assert.ok(asked.has(wanted), `${name} never asked ${wanted}; lately ${lately.map(decodeURIComponent)}`);
  if (name !== "tables") return;
  const { rows: found = [] } = await ask(asked.get(wanted));
  await page.waitForFunction((count) => Number(document.querySelector("#view .grid")?.getAttribute("aria-rowcount") ?? 1) === count + 1, found.length);
}

for (let at = 0; at < DRAWN; at++) {
  const fields = drawn();
  step(`${at}: ${[...fields].map((field) => field.join(" ")).join(", ") || "all"}`, async () => {
    if (at === 0) await page.goto(address);
    const whole = stacks.figures[0].whole.value;
    // CPU time knows no objects.
    const [time, elsewhere] = [less(fields, "object", "not-object", "not-region"), among(fields, "object", "not-object", "not-region")];
    const expected = await reported(time, cpuTime);
    for (const name of ["bottom-up", "top-down", "flame", "around", "source", "summary"]) {
      await show(fields, [["view", name]]);
      // Where it follows nothing, the summary has no figure of it.
      if (name !== "summary" || fields.size > elsewhere.length) await takes(name, fields, expected, CLOSE * whole, elsewhere, "Figures of CPU time");
    }
    // The report's faults of a function are those in its own code.
    const ofFaults = less(fields, "function", "not-function", "module", "not-module");
    await show(ofFaults, [["view", "bottom-up"], ["figure", "page_faults"]]);
    await takes("bottom-up of page faults", ofFaults, await reported(ofFaults, faults), CLOSE * stacks.figures[1].whole.value, among(fields, "not-object", "not-region"), "Figures of page faults");

    // The timeline draws a selected time and does not cut it.
    await show(fields, [["view", "timeline"]]);
    await settled();
    const drawn = await reported(less(time, "time", "region"), cpuTime);
    const sum = () => page.evaluate(() => [...document.querySelectorAll("#view text.lane title")].map((title) => /^.*\(\d+\): ([\d.]+) (ms|s|µs) of CPU time/.exec(title.textContent)).filter(Boolean)
      .reduce((sum, [, number, unit]) => sum + Number(number) * { s: 1, ms: 1e-3, "µs": 1e-6 }[unit], 0));
    // Three digits of each lane.
    for (let wait = 0; Math.abs((await sum()) - drawn) > 0.005 * whole && wait < 100; wait++) await page.waitForTimeout(20);
    assert.ok(Math.abs((await sum()) - drawn) <= 0.005 * whole, `lanes have ${await sum()}, the report ${drawn}`);
    const lanes = await said(fields);
    assert.deepEqual(lanes.get("Figures here") ?? [], among(fields, "object", "not-object", "region", "not-region"));
    assert.deepEqual(lanes.get("DRAM bandwidth and resident memory") ?? [], among(fields, ...["thread", "process", "function", "module"].flatMap((kind) => [kind, `not-${kind}`])));

    // Of each kind one in turn: three minutes are enough.
    for (const list of [QUESTIONS.slice(0, 3), QUESTIONS.slice(3)]) await asks(list[at % list.length], fields);
    for (const [name, what] of [[["platform", "Figures here"], ["ask", "Tables here"]][at % 2]]) {
      await show(fields, [["view", name]]);
      await settled();
      if (fields.size > 0) await view.getByText("do not follow").first().waitFor();
      assert.deepEqual((await said(fields)).get(what) ?? [], [...fields.keys()].sort(), `${name} is of the whole run`);
    }
  });
}

await run();
