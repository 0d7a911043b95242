// The page of a dataset: sums by day and by host or label, functions, changes, and how each result is opened. The figures are those
// that `crates/cli/tests/across.rs` wrote by hand.
//
//   node tests/ui/fleet.mjs CHROMIUM ADDRESS

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { open } from "./harness.mjs";

const axe = readFileSync(createRequire(new URL("../../ui/package.json", import.meta.url)).resolve("axe-core/axe.min.js"), "utf8");
const { address, page, step, view, run } = await open();
const by = view.locator(".bar select").first();
const table = (name) => view.getByRole("grid", { name });
/** Cells of a row, without their intervals. */
const cells = (name, row) => table(name).getByRole("row").filter({ hasText: row }).first().getByRole("gridcell").allTextContents();

step("the sentence counts complete results, and sums up", async () => {
  await page.goto(address);
  // 3 of `mem`, 4 of `fn`, 16 of `tr`.
  assert.match(await view.locator(".verdict .sentence").textContent(), /^23 results of 3 programs on 2 hosts, 2026-11-11 to 2026-11-25$/);
  const figures = await view.locator(".verdict .figures dd").allTextContents();
  assert.match(figures[0], /^75/, "20 + 10 + 5 s of `mem`, 40 s of `fn`");
  assert.match(figures[1], /^9/, "8 s and 1 s");
  assert.match(figures[2], /^30/, "9 of 30 s");
  await view.getByText("It is known of 2 of these results", { exact: false }).waitFor();
  await view.getByText("1 result more is incomplete", { exact: false }).waitFor();
});
step("groups are hosts, programs and labels", async () => {
  assert.match((await cells("By host", "a")).join(" "), /8(\.0+)? s/);
  await by.selectOption("unit");
  const rows = await table("By label unit").getByRole("row").allTextContents();
  assert.ok(rows.some((row) => row.includes("web.service")) && rows.some((row) => row.includes("(unknown)")), rows.join());
  assert.equal(await view.getByRole("img", { name: /^2026-11-20: .*web\.service 8(\.0+)? s/ }).count(), 1);
  assert.equal(await view.getByRole("img", { name: /^2026-11-21: 0 results/ }).count(), 1, "days without results have their place");
  await page.reload();
  assert.equal(await by.inputValue(), "unit", "the address keeps it");
});
step("changes and functions are those of the questions", async () => {
  await view.getByText(/tr takes more time from 2026-11-15 on/).waitFor();
  assert.match((await cells("Functions", "f(int)")).join(" "), /6(\.0+)? s/);
});
step("a result says how it is opened", async () => {
  await table("Results").getByRole("row").filter({ hasText: "results/mem" }).first().click();
  await view.getByText(/^fathom open /).waitFor();
});
step("axe finds nothing, in light and dark, on narrow and wide screens", async () => {
  for (const [width, theme] of [[1440, "light"], [1024, "dark"], [400, "light"], [400, "dark"]]) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
    await page.goto(address);
    await table("Results").waitFor();
    assert.equal(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), true, `${width}: nothing stands out`);
    if (!(await page.evaluate("typeof axe === 'object'"))) await page.evaluate(axe);
    const { violations } = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })");
    assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 120)}`), [], `${width} ${theme}`);
  }
});

await run();
