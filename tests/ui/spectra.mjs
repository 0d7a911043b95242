// The pane of an object whose documents are written by hand: the spectrum of reuse, and the order that is suggested for the members of
// a struct.
//
//   node tests/ui/spectra.mjs CHROMIUM ADDRESS          (of a file: crates/web/tests/plots.rs)

import assert from "node:assert/strict";
import { readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { open, replaced } from "./harness.mjs";

const { address, page, step, view, run } = await open();
const html = readFileSync(fileURLToPath(address), "utf8");
const file = `${fileURLToPath(address)}.other.html`;
const metric = (value, low, high, unit = "percent") => ({ value, low, high, unit, evidence: "estimated", samples: 9 });
const table = (rows, columns) => (before) => ({ ...before, cells: undefined, empty: undefined, notes: [], rows, columns: columns ?? before.columns });
const NAME = "records";

/** Opens the pane of an object with these members: name, offset, bytes, and share of all accesses. */
async function opened(members, size) {
  const row = { object: NAME, object_kind: "heap", loads: metric(1000, 900, 1100, "count") };
  const of = `struct ${NAME}`;
  const fields = Object.fromEntries(members.map(([name, offset, bytes]) => [`${of}.${name}`, [of, size, offset, bytes]]));
  const miss = (size, ...ends) => [{ key: `miss_${size}`, label: size, unit: "percent" }, metric(...ends)];
  const misses = [miss("16k", 80, 70, 90), miss("256k", 30, 25, 35), miss("8m", 5, 2, 9)];
  let text = replaced(html, "objects?limit=250", table([row]));
  text = replaced(text, "objects?group=object,function&limit=250", table([{ ...row, function: "look_up", module: "a" }]));
  text = replaced(text, "reuse?limit=60", table([{ function: "look_up", ...Object.fromEntries(misses.map(([{ key }, cell]) => [key, cell])) }], [{ key: "function", label: "Function", unit: null }, ...misses.map(([column]) => column)]));
  text = replaced(text, "objects?group=object,field&limit=400", table(members.map(([name, , , share]) => ({ object: NAME, field: `${of}.${name}`, access_percent: metric(share, share, share) }))));
  text = replaced(text, "layout", (before) => ({ ...before, fields }));
  writeFileSync(file, text);
  await page.goto("about:blank");
  await page.goto(`file://${file}#view=objects`);
  await view.getByRole("heading", { name: "Reuse in look_up" }).waitFor();
  unlinkSync(file);
}
const suggestion = () => view.locator("p.legend", { hasText: /its accesses/ }).allInnerTexts();

step("a spectrum of reuse has what each size of cache adds, and the rest", async () => {
  await opened([["only", 0, 8, 100]], 8);
  const bars = view.getByRole("group", { name: "Share of its accesses", exact: true }).getByRole("img");
  // What is hit in a size and not in the one before; ends that are furthest apart, for how two of them vary together is not known.
  assert.deepEqual(await bars.evaluateAll((all) => all.map((one) => one.getAttribute("aria-label"))), [
    "16 KiB: 20.0 %, 95 % interval 10.0 to 30.0 %",
    "256 KiB: 50.0 %, 95 % interval 35.0 to 65.0 %",
    "8 MiB: 25.0 %, 95 % interval 16.0 to 33.0 %",
    ">8 MiB: 5.0 %, 95 % interval 2.0 to 9.0 %",
  ]);
});
step("a struct of one member, or within a line, has no other order", async () => {
  assert.deepEqual(await suggestion(), []);
  await opened([["key", 0, 8, 60], ["value", 56, 8, 40]], 64);
  assert.deepEqual(await suggestion(), []);
});
step("the most accessed members come first, and the largest alignments of them", async () => {
  // Three have 92 %: `flags` of four bytes goes behind the other two, though it is accessed more than `value`.
  await opened([["key", 0, 8, 40], ["flags", 64, 4, 30], ["value", 128, 8, 22], ["name", 192, 32, 8]], 256);
  assert.deepEqual(await suggestion(), ["Suggested order: key, value, flags first. They have 92.0 % of its accesses and lie in 3 cache lines; next to each other they lie in 1, if values begin at a line. That helps where they are used together, which is not known here."]);
});
step("a member that crosses a line counts in both, and where nothing is gained that is said", async () => {
  await opened([["key", 60, 8, 50], ["value", 128, 8, 45], ["name", 192, 32, 5]], 256);
  assert.match((await suggestion())[0], /^Suggested order: value, key first\. They have 95\.0 % of its accesses and lie in 3 cache lines; next to each other they lie in 1,/);
  await opened([["key", 64, 8, 50], ["value", 72, 8, 45], ["name", 192, 32, 5]], 256);
  assert.deepEqual(await suggestion(), ["95.0 % of its accesses are to members in one cache line: no other order needs fewer."]);
});

await run();
