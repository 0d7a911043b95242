// Draws 200 selections and compares how much of the CPU time each view says is chosen with the report's figure; views without CPU
// time must ask for what is chosen.
//
//   node tests/ui/selections.mjs CHROMIUM ADDRESS          (of a server: crates/web/tests/selections.rs)
//
// The report's words choose threads, times and frames that are taken in. What is left out follows from two of its figures:
// all of it, less what is in the frames that are left out.

import assert from "node:assert/strict";
import { open } from "./harness.mjs";

const { address, page, step, run } = await open();
const DRAWN = 200;
/** Figures in JSON have six digits. */
const CLOSE = 1e-5;

let state = 20261124;
const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
const some = (list, most) => [...list].sort(() => random() - 0.5).slice(0, 1 + Math.floor(random() * most));

const ask = async (question) => (await fetch(address + "api/" + question)).json();
const filter = (kind, names) => names.map((name) => `&filter=${encodeURIComponent(`${kind}=${name}`)}`).join("");
const totalOf = async (filters) => {
  const { total, absent } = await ask(`hotspots?limit=1${filters}`);
  return absent ? 0 : (total.total_time.value ?? 0);
};

/** A selection as the page has it in its address, and what the report says of it. */
async function drawn(stacks) {
  const fields = [];
  let filters = "";
  if (random() < 0.6) {
    const [from, to] = [random(), random()].map((part) => Number((part * stacks.elapsed).toPrecision(4))).sort((a, b) => a - b);
    if (from < to) {
      fields.push(["from", from], ["to", to]);
      filters += `&filter=time%3D${from}..${to}`;
    }
  }
  let threads = stacks.threads;
  const kind = random();
  if (kind < 0.3) {
    const names = some(threads.map((one) => one.label), 3);
    fields.push(...names.map((name) => ["thread", name]));
    threads = threads.filter((one) => names.includes(one.label));
  } else if (kind < 0.55) {
    const names = some(threads.map((one) => one.label), 3);
    fields.push(...names.map((name) => ["not-thread", name]));
    threads = threads.filter((one) => !names.includes(one.label));
  } else if (kind < 0.75) {
    const [name] = some(threads.map((one) => one.process), 1);
    const out = random() < 0.5;
    fields.push([out ? "not-process" : "process", name]);
    threads = threads.filter((one) => (one.process === name) !== out);
  }
  if (threads.length < stacks.threads.length) filters += filter("thread", threads.map((one) => one.label));
  if (random() < 0.35) {
    const names = some(stacks.regions.map((one) => one.name), 2);
    fields.push(...names.map((name) => ["region", name]));
    filters += filter("region", names);
  }
  const frames = random();
  let expected;
  if (frames < 0.35) {
    for (const [of, list] of [["function", stacks.functions.name], ["module", stacks.modules]]) {
      if (random() < 0.6) {
        const names = some([...new Set(list)], 2);
        fields.push(...names.map((name) => [of, name]));
        filters += filter(of, names);
      }
    }
    expected = await totalOf(filters);
  } else if (frames < 0.7) {
    const [of, list] = random() < 0.5 ? ["function", stacks.functions.name] : ["module", stacks.modules];
    const names = some([...new Set(list)], 2);
    fields.push(...names.map((name) => [`not-${of}`, name]));
    expected = (await totalOf(filters)) - (await totalOf(filters + filter(of, names)));
  } else expected = await totalOf(filters);
  // A report of no threads is none.
  const none = threads.length === 0;
  return { fields, none, expected: none ? 0 : expected, ofTables: none ? 0 : await totalOf(filters), whole: stacks.figures[0].whole.value };
}

const stacks = await ask("stacks");
let asked = [];
page.on("request", (request) => request.url().includes("/api/") && asked.push(request.url()));
/** Views of tables: the question, and what of the selection it has. */
const AT = ["time", "thread", "process", "region"];
const QUESTIONS = { objects: ["objects?", [...AT, "function", "module"]], roofline: ["roofline?", [...AT, "function", "module"]], regions: ["regions?", AT] };
for (let at = 0; at < DRAWN; at++) {
  const { fields, none, expected, ofTables, whole } = await drawn(stacks);
  step(`${at}: ${fields.map(([key, value]) => `${key} ${value}`).join(", ") || "all"}`, async () => {
    if (at === 0) await page.goto(address);
    for (const view of ["bottom-up", "top-down", "flame", "summary", "tables", "objects", "roofline", "regions"]) {
      asked = [];
      const hash = "#" + new URLSearchParams([...fields.map(([key, value]) => [key, String(value)]), ...(view === "regions" ? [["view", "tables"], ["table", "regions?limit=200"]] : [["view", view]])]);
      await page.evaluate((next) => { location.hash = next; dispatchEvent(new PopStateEvent("popstate")); }, hash);
      if (view === "tables") {
        await page.locator("#view :is(.grid, .empty, .failed)").first().waitFor();
        // What is left out by frames the table says not to follow.
        const says = await page.locator("#view > p.quiet").count();
        assert.equal(says > 0, fields.some(([key]) => key === "not-function" || key === "not-module"), "the table says what it does not follow");
        // What was asked before is not asked again.
        for (const url of none ? [] : asked.filter((url) => url.includes("api/hotspots?")).slice(-1)) {
          const { total } = await (await fetch(url)).json();
          assert.ok(Math.abs(total.total_time.value - ofTables) <= CLOSE * whole, `the table is of ${total.total_time.value}, the report of ${ofTables}`);
        }
        continue;
      }
      if (QUESTIONS[view]) {
        const [begins, follows] = QUESTIONS[view];
        await page.locator("#view :is(.grid, .empty, .failed)").first().waitFor();
        await page.waitForFunction(() => !document.querySelector("#view .waiting"));
        const left = fields.filter(([key]) => key.startsWith("not-") ? key === "not-function" || key === "not-module" : !["from", "to", ...follows].includes(key));
        assert.equal((await page.locator("#view p.quiet", { hasText: "follow" }).count()) > 0, left.length > 0, `${view} says what it does not follow`);
        // What was asked before is not asked again.
        const found = asked.filter((url) => url.includes(`api/${begins}`)).at(-1);
        if (!found || none) continue;
        const has = new URL(found).searchParams.getAll("filter");
        for (const [key, value] of fields.filter(([key]) => follows.includes(key) && !["thread", "process"].includes(key))) assert.ok(has.includes(`${key}=${value}`), `${view} asks ${has} without ${key} ${value}`);
        assert.equal(has.some((one) => one.startsWith("time=")), fields.some(([key]) => key === "from"), `${view} asks for the time`);
        assert.equal(has.some((one) => /^(thread|process)=/.test(one)), fields.some(([key]) => /thread|process/.test(key)), `${view} asks for the threads`);
        continue;
      }
      const isAll = fields.length === 0;
      if (view === "summary" && isAll) continue;
      await page.waitForFunction(([value, close]) => {
        const taken = document.querySelector("#view .taken");
        const shown = taken ? Number(taken.getAttribute("value")) : document.querySelector("#view .empty") ? 0 : NaN;
        return Math.abs(shown - value) <= close;
      }, [expected, CLOSE * whole], { timeout: 10_000 }).catch(async () => {
        const shown = await page.locator("#view .taken").getAttribute("value", { timeout: 100 }).catch(() => "nothing");
        assert.fail(`${view} says ${shown}, the report ${expected}`);
      });
    }
  });
}

await run();
