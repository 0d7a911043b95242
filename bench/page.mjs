// How fast a page is and how much memory it takes: first paint, the time of each interaction, the heap of the page.
//
//   node bench/page.mjs CHROMIUM file:///tmp/large.html     (made by `cargo run --release -p web --example large`)

import { createRequire } from "node:module";

const require = createRequire(new URL("../ui/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const [executablePath, address] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--enable-precise-memory-info"] });
const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
page.on("pageerror", (error) => console.log("error:", String(error)));

const began = Date.now();
await page.goto(address);
await page.locator(".verdict").waitFor();
console.log(`summary on screen ${Date.now() - began} ms after the address was given`);
const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
console.log(`first contentful paint ${Math.round(paint)} ms`);

// From the click to the frame in which its effect is drawn.
async function timed(name, act, shown) {
  const ms = await page.evaluate(async ({ act, shown }) => {
    const before = performance.now();
    new Function(act)();
    const deadline = before + 20_000;
    for (;;) {
      await new Promise(requestAnimationFrame);
      if (document.querySelector(shown) || performance.now() > deadline) break;
    }
    await new Promise(requestAnimationFrame);
    return performance.now() - before;
  }, { act, shown });
  console.log(`${name}: ${Math.round(ms)} ms`);
}
const tab = (key) => `document.getElementById("tab-${key}").click()`;
await timed("bottom-up, first time", tab("bottom-up"), "[role=treegrid] .body .row");
await timed("top-down", tab("top-down"), "[role=treegrid] .body .row");
await timed("flame graph", tab("flame"), ".flame canvas");
await timed("timeline", tab("timeline"), ".lanes svg polygon");
await timed("select half of the time", `const p = new URLSearchParams(location.hash.slice(1)); p.set("from", "40"); p.set("to", "90"); location.hash = "#" + p; dispatchEvent(new PopStateEvent("popstate"))`, ".filters");
await timed("bottom-up of it", tab("bottom-up"), "[role=treegrid] .body .row");
await timed("open a row", `document.querySelector("[role=treegrid] .twist:is(button)").click()`, "[aria-level='2']");
await timed("by thread", `const s = document.querySelectorAll("main select")[1]; s.value = "thread,function"; s.dispatchEvent(new Event("change", { bubbles: true }))`, "[role=treegrid] .body .row");
await timed("search", `const i = document.querySelector("main input[type=search]"); i.value = "function_17"; i.dispatchEvent(new Event("input", { bubbles: true }))`, "[role=treegrid]");
await timed("source", tab("source"), ".grid");
await timed("tables", tab("tables"), ".grid .body .row");
const session = await page.context().newCDPSession(page);
await session.send("HeapProfiler.collectGarbage");
const heap = await page.evaluate(() => performance.memory.usedJSHeapSize);
console.log(`heap of the page ${(heap / 1e6).toFixed(0)} MB`);
await browser.close();
