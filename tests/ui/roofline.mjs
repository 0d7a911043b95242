// The roofline of points and roofs that are drawn at random, many of them close together: no name covers another name or a point.
// And of four points that are given: what is above a roof says why, and what takes hardly any time is not drawn.
//
//   node tests/ui/roofline.mjs CHROMIUM file:///PAGE.html          (crates/web/tests/plots.rs makes the page)
//
// SEED=N draws others. What not: where a roofline's figures come from.

import assert from "node:assert/strict";
import { readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { open, replaced } from "./harness.mjs";

const { address, page, step, view, run } = await open();
const html = readFileSync(fileURLToPath(address), "utf8");
const [DRAWS, WIDTHS] = [16, [1440, 400]];
const seed = Number(process.env.SEED ?? 1);

/** Numbers from 0 to 1 (mulberry32). */
function drawing(from) {
  let state = from >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const roof = (name, threads, rate, unit, precision = null) => ({ roof: name, threads, like: null, precision, rate: { value: rate, low: rate, high: rate, unit, evidence: "calibrated", samples: 9 } });

/** The page with these points under these roofs. */
function made(rows, roofs) {
  const text = replaced(html, "roofline?group=loop&limit=100", (table) => ({ ...table, cells: undefined, rows, empty: undefined, notes: [] }));
  return replaced(text, "summary", (summary) => ({ ...summary, machine: { ...summary.machine, roofs } }));
}

/** A page with so many points: in a few heaps, under roofs that may be close to each other. */
function drawn(number) {
  const random = drawing(seed * 1000 + number);
  const metric = (value, unit) => ({ value, low: value * (0.6 + 0.4 * random()), high: value * (1 + random()), unit, evidence: "estimated", samples: 9 });
  const between = (low, high) => low * (high / low) ** random();
  const heaps = Array.from({ length: 1 + Math.floor(random() * 4) }, () => [between(0.02, 20), between(0.1, 40)]);
  const names = ["loop", "main", "a_function_with_a_long_name_of_its_own", "ns::Grid<double, 3>::step<4>(int, long)", "f"];
  const rows = Array.from({ length: 1 + Math.floor(random() * 40) }, (_, at) => {
    const [x, y] = heaps[Math.floor(random() * heaps.length)];
    const level = () => metric(x * between(0.5, 2), "FLOP/byte");
    return {
      part: "loop in 1", function: `${names[at % names.length]}${at}`, file: "a.c", line: 10 + at, module: "a", self_percent: metric(between(0.4, 40), "percent"), flop_rate: metric(y * between(0.8, 1.25), "GFLOP/s"),
      dram_intensity: level(), l3_intensity: level(), l2_intensity: level(), intensity: level(), flops: metric(1e9, "count"), double_percent: metric(100, "percent"), above: null, bound: "L2", roof: metric(50, "GFLOP/s"),
    };
  });
  const base = between(5, 60);
  const roofs = [1, 2 + Math.floor(random() * 8)].flatMap((threads) => [
    ...["DRAM", "L3", "L2", "L1"].map((name, at) => roof(name, threads, base * threads ** 0.8 * between(1, 1.6) ** at, "GB/s")),
    roof("scalar", threads, 4 * threads, "GFLOP/s", "double"), roof("vector", threads, 4 * threads * between(1.02, 8), "GFLOP/s", "double"),
  ]);
  return { text: made(rows, roofs), points: rows.length };
}

/** Runs in the page: names that cover each other, a point, or the edge. */
function covered() {
  const svg = document.querySelector("#view svg[aria-label^=Roofline]");
  const frame = svg.getBoundingClientRect();
  const names = [...svg.querySelectorAll("text")].map((text) => ({ text, quad: window.quadOf(text) }));
  const dots = [...svg.querySelectorAll("circle")].map((dot) => {
    const { left, right, top, bottom } = dot.getBoundingClientRect();
    return [[left + 1, top + 1], [right - 1, top + 1], [right - 1, bottom - 1], [left + 1, bottom - 1]];
  });
  const found = [];
  for (const [at, one] of names.entries()) {
    const name = one.text.textContent;
    if (one.quad.some(([x, y]) => !(x >= frame.left - 1 && x <= frame.right + 1 && y >= frame.top - 1 && y <= frame.bottom + 1))) found.push(`${name} ends beyond the drawing`);
    for (const other of names.slice(at + 1)) if (window.quadsMeet(one.quad, other.quad)) found.push(`${name} and ${other.text.textContent}`);
    if (dots.some((dot) => window.quadsMeet(one.quad, dot))) found.push(`${name} and a point`);
  }
  return { found, named: svg.querySelectorAll(".point text").length, chosen: svg.querySelector(".point.chosen text")?.textContent, points: svg.querySelectorAll(".point").length };
}

const file = join(tmpdir(), `fathom-roofline-${process.pid}.html`);
for (const width of WIDTHS) {
  step(`${DRAWS} drawn rooflines, ${width} pixels wide`, async () => {
    await page.setViewportSize({ width, height: 900 });
    let [named, points] = [0, 0];
    for (let number = 0; number < DRAWS; number++) {
      writeFileSync(file, drawn(number).text);
      await page.goto("about:blank");
      await page.goto(`file://${file}#view=roofline`);
      await view.locator("svg[aria-label^=Roofline] .point").first().waitFor();
      const seen = await page.evaluate(covered);
      assert.deepEqual(seen.found, [], `drawing ${number}`);
      [named, points] = [named + seen.named, points + seen.points];
    }
    unlinkSync(file);
    // Most have a name where there is room.
    if (width > 1000) assert.ok(named > points * 0.5, `${named} of ${points} points have a name`);
  });
}
step("a point above its roof says why, and one with less than half a percent of the time is left out", async () => {
  const exact = (value, unit) => ({ value, low: value, high: value, unit, evidence: "estimated", samples: 9 });
  const point = (name, line, share, above) => ({
    part: "loop in 1", function: name, file: "a.c", line, module: "a", self_percent: exact(share, "percent"), flop_rate: exact(2 + line, "GFLOP/s"), dram_intensity: exact(1, "FLOP/byte"), l3_intensity: exact(1, "FLOP/byte"),
    l2_intensity: exact(1, "FLOP/byte"), intensity: exact(1, "FLOP/byte"), flops: exact(1e9, "count"), double_percent: exact(100, "percent"), above, bound: "DRAM", roof: exact(10, "GFLOP/s"),
  });
  const rows = [point("most", 1, 60, null), point("fast", 20, 30, "most of its bytes come from L3"), point("least", 3, 0.5, null), point("rare", 30, 0.49, "nobody knows why")];
  writeFileSync(file, made(rows, [roof("DRAM", 1, 10, "GB/s"), roof("vector", 1, 50, "GFLOP/s", "double")]));
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto("about:blank");
  await page.goto(`file://${file}#view=roofline`);
  const drawing = view.locator("svg[aria-label^=Roofline]");
  const names = () => drawing.locator(".point").evaluateAll((all) => all.map((one) => `${one.getAttribute("aria-label")}${one.classList.contains("above") ? " above" : ""}`));
  await view.getByText("1 point with less than 0.5 % of the time left out.", { exact: true }).waitFor();
  assert.match(await drawing.getAttribute("aria-label"), /; 3 points$/);
  assert.deepEqual(await names(), ["most:1", "fast:20 above", "least:3"]);
  const reasons = () => view.locator(".legend", { hasText: "is above its roof" }).allTextContents();
  assert.deepEqual(await reasons(), ["fast:20 is above its roof: most of its bytes come from L3."]);
  // Who chooses its row wants to see it.
  await view.locator(".grid .body [role=row]", { hasText: "rare" }).click({ position: { x: 300, y: 12 } });
  await drawing.locator(".point.chosen").waitFor();
  await view.getByText("left out", { exact: false }).waitFor({ state: "detached" });
  assert.deepEqual(await names(), ["most:1", "fast:20 above", "least:3", "rare:30 above"]);
  assert.equal((await reasons())[1], "rare:30 is above its roof: nobody knows why.");
  unlinkSync(file);
});

await run();
