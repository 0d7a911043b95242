// Clicks through the page of a recorded recipe and asserts what is shown, whatever the figures are.
//
//   node tests/ui/recipe.mjs CHROMIUM ADDRESS PROGRAM FUNCTION [compare]
//
// FUNCTION: the beginning of the name of the hottest function. crates/cli/tests/page.rs records and makes the page.

import assert from "node:assert/strict";
import { open } from "./harness.mjs";

const { address, page, step, tab, view, shows, run } = await open();
const [program, hot, compares] = process.argv.slice(4);
const tree = view.getByRole("treegrid").locator(".body [role=row]");
const pane = (name) => page.getByRole("complementary", { name });

step("summary", async () => {
  await page.goto(address);
  await view.locator(".verdict .sentence").waitFor();
  assert.match(await view.locator(".verdict").textContent(), /Elapsed[\d.,]+ (s|ms)/);
  await view.getByRole("region", { name: "Top functions" }).getByRole("button", { name: hot }).first().waitFor();
  await view.getByRole("region", { name: "Machine" }).getByText("Processor", { exact: true }).first().waitFor();
  await view.getByRole("region", { name: "Collection" }).getByText("Samples", { exact: true }).first().waitFor();
});
step("a finding shows where it is", async () => {
  const findings = view.getByRole("button", { name: "Show me" });
  if ((await findings.count()) === 0) return shows("No rule fired");
  await findings.first().click();
  await page.locator("[role=tab][aria-selected=true]:not(#tab-summary)").waitFor();
});
step("no interval has more busy CPUs than there are", async () => {
  const { run } = await page.evaluate(() => JSON.parse(document.getElementById("fathom-data").textContent));
  await tab("Timeline");
  const top = Number(/^to ([\d.]+)$/.exec(await view.locator("svg text.tick").filter({ hasText: /^to [\d.]+$/ }).first().textContent())[1]);
  // Sums of samples are scaled to the counted time, by a few percent.
  assert.ok(top <= run.cpus * 1.1, `${top} of ${run.cpus}`);
});
step("bottom-up: the hot function, its callers, its stack", async () => {
  await tab("Bottom-up");
  const row = tree.filter({ hasText: hot }).first();
  await row.waitFor();
  assert.match(await row.textContent(), /\d %/);
  await row.locator("[role=gridcell]").nth(1).click();
  await page.keyboard.press("ArrowRight");
  await pane("Call stack").locator("li").nth(1).waitFor();
});
step("bottom-up by module and by thread", async () => {
  for (const [group, text] of [["module,function", program], ["thread,function", program.slice(0, 15)]]) {
    await view.getByLabel("Grouping").selectOption(group);
    await tree.filter({ hasText: text }).first().waitFor();
  }
  await view.getByLabel("Grouping").selectOption("function");
});
step("figures that bursts know, as trees", async () => {
  for (const [figure, label] of [["dram_bytes", "DRAM bytes"], ["load_latency", "Load latency"], ["loads", "Loads"], ["stores", "Stores"]]) {
    await view.getByLabel("Figure").selectOption(figure);
    await shows(new RegExp(`^${label}: (estimated\\.|nothing of it)`));
  }
  await view.getByLabel("Figure").selectOption("page_faults");
  await shows("page faults chosen");
  await view.getByLabel("Figure").selectOption("cpu_time");
});
step("top-down to the hot function", async () => {
  await tab("Top-down");
  await tree.first().waitFor();
  assert.equal(await tree.first().getAttribute("aria-level"), "1");
  // The heaviest path is open. Stacks that end early may make it another: then branch after branch.
  for (let at = 0; at < 20 && !(await tree.filter({ hasText: hot }).count()); at++) {
    if ((await tree.count()) <= at || (await tree.nth(at).getAttribute("aria-expanded")) === "true") continue;
    await tree.nth(at).locator("[role=gridcell]").nth(1).click();
    await page.keyboard.press("ArrowRight");
  }
  await tree.filter({ hasText: hot }).first().waitFor();
});
step("flame graph: frames, search, filter by a key", async () => {
  await tab("Flame graph");
  await view.locator("canvas").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  assert.match(await view.locator(".readout").textContent(), /: [\d.,]+ (s|ms|µs)( \([^)]*\))?, [\d.]+ % of the whole run; self /);
  await view.getByLabel("Find a function").fill(hot);
  await view.getByLabel("Inverted (callers)").check();
  await view.locator("canvas").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("f");
  await page.getByRole("group", { name: "Filters" }).getByText("function:").waitFor();
  await page.getByRole("button", { name: "Clear all" }).click();
  await view.getByLabel("Inverted (callers)").uncheck();
  await view.getByLabel("Find a function").fill("");
});
step("timeline: lanes, a selection, and the views that follow it", async () => {
  await tab("Timeline");
  await view.locator("svg text.lane", { hasText: "CPUs busy" }).waitFor();
  await view.locator("svg text.lane", { hasText: program.slice(0, 8) }).first().waitFor();
  const box = await view.locator(".lanes svg.rest").boundingBox();
  const at = (part) => box.x + 150 + (box.width - 160) * part;
  await page.mouse.move(at(0.03), box.y + 60);
  await page.mouse.down();
  await page.mouse.move(at(0.97), box.y + 60, { steps: 4 });
  await page.mouse.up();
  await page.getByRole("group", { name: "Filters" }).getByText("time:").waitFor();
  await tab("Bottom-up");
  await tree.filter({ hasText: hot }).first().waitFor();
  await page.getByRole("button", { name: "Clear all" }).click();
});
step("source beside assembly", async () => {
  await tab("Source");
  await view.getByRole("grid", { name: /^Source of / }).locator(".heat4").first().waitFor();
  const code = pane("Assembly").getByRole("grid", { name: /^Assembly of / });
  await code.locator(".body [role=row] code").nth(3).waitFor();
  await pane("Assembly").getByText("which has the build-id that was recorded").first().waitFor();
  assert.match(await code.textContent(), /mov/);
});
step("objects, or why there are none", async () => {
  await tab("Memory objects");
  await view.locator(".grid .body [role=row], .empty").first().waitFor();
  if ((await view.locator(".empty").count()) > 0 && (await view.locator(".grid").count()) === 0) return;
  await view.locator(".grid .body [role=row] [role=gridcell]:nth-child(2)").first().click();
  await pane(/^Object /).getByText("Size", { exact: true }).first().waitFor();
  await page.getByRole("group", { name: "Filters" }).getByText("object:").waitFor();
  await tab("Source");
  await pane("Assembly").getByText("do not follow the object taken in").first().waitFor();
  await page.getByRole("button", { name: "Clear all" }).click();
});
step("roofline, or what is missing for it", async () => {
  await tab("Roofline");
  await view.locator("svg[aria-label^=Roofline], .empty").first().waitFor();
});
step("every table", async () => {
  await tab("Tables");
  const choice = view.getByRole("combobox", { name: "Table" });
  const options = await choice.locator("option").evaluateAll((all) => all.map((one) => one.value));
  for (const option of options) {
    await choice.selectOption(option);
    await view.locator(".grid .body [role=row], .empty").first().waitFor();
    assert.equal(await view.locator(".failed").count(), 0, option);
  }
});
if (compares) {
  step("compare", async () => {
    await tab("Compare");
    await view.getByRole("grid", { name: "By function" }).locator(".body [role=row]").filter({ hasText: hot }).first().waitFor();
    await view.getByRole("grid", { name: "Whole runs" }).locator(".body [role=row]").filter({ hasText: "CPU time" }).first().waitFor();
  });
}

await run();
