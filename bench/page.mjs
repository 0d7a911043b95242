// How fast a page is and how much memory it takes: first paint, the time of each interaction, the memory of the process
// that the page runs in. Medians of several runs, each in a browser of its own.
//
//   node bench/page.mjs CHROMIUM file:///tmp/large.html [RUNS]      (made by `cargo run --release -p web --example large`)
//   node bench/page.mjs CHROMIUM http://127.0.0.1:... [RUNS]        (printed by `... --example large serve`)
//
// Of each interaction two figures: from the click to the frame in which its effect is on the screen, as a user feels it on
// this machine with all that else runs on it; and the CPU time of the page's main thread.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(new URL("../ui/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const [executablePath, address, runs = "5"] = process.argv.slice(2);
const served = address.startsWith("http:");

const figures = new Map();
const note = (name, ...values) => figures.set(name, [...(figures.get(name) ?? []), values]);
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

async function run() {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--enable-precise-memory-info"] });
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.on("pageerror", (error) => console.log("error:", String(error)));
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const cpu = async () => (await session.send("Performance.getMetrics")).metrics.find((one) => one.name === "ThreadTime")?.value ?? NaN;

  const began = Date.now();
  await page.goto(address, { waitUntil: "commit" });
  await page.locator(".verdict").waitFor();
  note("summary on screen", Date.now() - began);
  note("first contentful paint", await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime));
  await page.waitForLoadState("load");
  // The largest document is read when the page is idle.
  await page.waitForTimeout(2500);

  async function timed(name, act, shown) {
    const before = await cpu();
    const ms = await page.evaluate(async ({ act, shown }) => {
      const before = performance.now();
      new Function(act)();
      const deadline = before + 20_000;
      const there = new Function(`return ${shown}`);
      for (;;) {
        await new Promise(requestAnimationFrame);
        if (there() || performance.now() > deadline) break;
      }
      await new Promise(requestAnimationFrame);
      return performance.now() - before;
    }, { act, shown: shown.startsWith("(") ? shown : `document.querySelector(${JSON.stringify(shown)})` });
    note(name, ms, ((await cpu()) - before) * 1000);
  }
  const tab = (key) => `document.getElementById("tab-${key}").click()`;
  const type = (selector, text) => `const i = document.querySelector(${JSON.stringify(selector)}); i.value = ${JSON.stringify(text)}; i.dispatchEvent(new Event("input", { bubbles: true }))`;
  const move = (fields) => `const p = new URLSearchParams(location.hash.slice(1)); for (const [k, v] of ${JSON.stringify(fields)}) p.set(k, v); location.hash = "#" + p; dispatchEvent(new PopStateEvent("popstate"))`;
  const rows = "[role=treegrid] .body .row";
  await timed("bottom-up, first time", tab("bottom-up"), rows);
  await timed("top-down", tab("top-down"), rows);
  await timed("flame graph", tab("flame"), ".flame canvas");
  await timed("flame graph, inverted", `document.querySelector("main input[type=checkbox]").click()`, ".flame canvas");
  await timed("flame graph of DRAM bytes", `const s = document.querySelector("main select"); s.value = "dram_bytes"; s.dispatchEvent(new Event("change", { bubbles: true }))`, ".notes li");
  await timed("timeline, first time", move([["view", "timeline"], ["figure", "cpu_time"]]), ".lanes svg .area");
  await timed("selection of half of the time", move([["from", "40"], ["to", "90"]]), ".filters");
  await timed("bottom-up of it", tab("bottom-up"), rows);
  await timed("open a row", `document.querySelector("[role=treegrid] .twist:is(button)").click()`, "[aria-level='2']");
  await timed("by thread", `const s = document.querySelectorAll("main select")[1]; s.value = "thread,function"; s.dispatchEvent(new Event("change", { bubbles: true }))`, rows);
  await timed("search", type("main input[type=search]", "function_17"), "[role=treegrid]");
  await timed("source", tab("source"), ".grid");
  await timed("tables", tab("tables"), ".grid .body .row");
  await timed("roofline, first time", tab("roofline"), "#view svg[aria-label^=Roofline], #view .empty");
  // The selected time has no burst, and objects follow it.
  await page.getByRole("button", { name: "Clear all" }).click();
  await timed("objects, first time", tab("objects"), ".grid .body .row");
  // Until the first row is another one: what is asked of a server takes its time.
  const first = `document.querySelector(".grid .body [role=gridcell]")?.textContent`;
  const another = `(${first} !== undefined && ${first} !== window.before)`;
  const search = (text) => `window.before = ${first}; ${type("main input[type=search]", text)}`;
  await timed("objects, sorted by name", `window.before = ${first}; [...document.querySelectorAll(".grid .head button")].find((b) => b.textContent.startsWith("Object")).click()`, another);
  await timed("objects, searched", search("make_17"), another);
  await timed("objects, search given up", search(""), another);
  await timed("objects, scrolled to the end", `const b = document.querySelector(".grid"); b.scrollTop = b.scrollHeight`, `(document.querySelector(".grid .body .row:last-child [role=gridcell]"))`);
  note("rows of objects", await page.locator(".grid").first().getAttribute("aria-rowcount"));
  await timed("ask, first time", tab("ask"), "[aria-label=Answer] .body .row");
  const headed = (name) => `([...document.querySelectorAll("[aria-label=Answer] .head [role=columnheader]")].some((one) => one.textContent.trim() === ${JSON.stringify(name)}))`;
  const query = async (name, sql, column) => {
    await page.getByLabel("SQL", { exact: true }).fill(sql);
    await timed(name, `[...document.querySelectorAll("#view button")].find((one) => one.textContent === "Run").click()`, headed(column));
  };
  await query("ask: a join of two tables", "SELECT h.function, h.cpu_time, h.cpu_time_low, h.cpu_time_high, b.loads AS joined FROM hotspots_by_function h JOIN bandwidth_by_module_function b USING (function) ORDER BY h.cpu_time DESC", "joined");
  await query("ask: the same again", "SELECT h.function, h.cpu_time, h.cpu_time_low, h.cpu_time_high, b.loads AS again FROM hotspots_by_function h JOIN bandwidth_by_module_function b USING (function) ORDER BY h.cpu_time DESC", "again");

  await session.send("HeapProfiler.collectGarbage");
  note("JavaScript heap, MB", (await page.evaluate(() => performance.memory.usedJSHeapSize)) / 1e6);
  const all = await (await browser.newBrowserCDPSession()).send("SystemInfo.getProcessInfo");
  const sizes = all.processInfo.filter((one) => one.type === "renderer").map(({ id }) => {
    const rollup = readFileSync(`/proc/${id}/smaps_rollup`, "utf8");
    const kib = (key) => Number(new RegExp(`^${key}: +(\\d+) kB`, "m").exec(rollup)?.[1] ?? NaN);
    return [kib("Rss") / 1000, kib("Pss") / 1000, (kib("Private_Clean") + kib("Private_Dirty")) / 1000];
  });
  // A spare process for the next page is there too; the larger is ours.
  note("process of the page, MB resident, proportional, private", ...sizes.sort((a, b) => b[0] - a[0])[0]);
  await browser.close();
}

for (let at = 0; at < Number(runs); at++) await run();
const load = readFileSync("/proc/loadavg", "utf8").split(" ")[0];
console.log(`${runs} runs, ${served ? "served" : "file"}, load ${load}; median (largest)`);
for (const [name, values] of figures) {
  const parts = values[0].map((_, at) => values.map((one) => Number(one[at])));
  console.log(`${name}: ${parts.map((one) => `${Math.round(median(one))} (${Math.round(Math.max(...one))})`).join(", ")}`);
}
