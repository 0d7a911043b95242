// Regions that the program marks are lanes of the timeline, filters and a table; marks are flags, pauses are hatched.
//
//   node tests/ui/regions.mjs CHROMIUM ADDRESS          (crates/web/tests/regions.rs)

import assert from "node:assert/strict";
import { open } from "./harness.mjs";

const { address, page, step, view, run, served, tab } = await open();
const lane = (name) => view.locator("svg.rest text.lane", { hasText: name }).first();

step("the summary names them, and leads to their table", async () => {
  await page.goto(address);
  await view.getByText("Regions of the program: solve, ", { exact: false }).waitFor();
  await view.getByRole("button", { name: "Show them" }).click();
  await view.getByRole("grid").getByRole("row").nth(1).waitFor();
  assert.deepEqual((await view.getByRole("grid").getByRole("row").allTextContents()).length, 4, "a heading and three regions");
});
step("each has a lane, with the lengths of its passes", async () => {
  await tab("Timeline");
  for (const name of ["solve", "step", "io"]) await lane(name).waitFor();
  await view.locator("svg.rest .onbox", { hasText: "1,000 passes, 200 ms" }).waitFor();
  await view.locator("svg.rest .onbox", { hasText: "300 ms" }).waitFor();
  await view.locator("svg.rest .onbox", { hasText: "200 ms, open at the end" }).waitFor();
});
step("marks fly as flags, and what was paused is hatched", async () => {
  assert.deepEqual(await view.locator("svg.top .flag text").allTextContents(), ["warm", "second phase"]);
  assert.equal(await view.locator("svg.rest .paused").count(), 1);
  await view.getByText("3 marks and pauses of the run").click();
  await view.locator(".programmarks").getByText("second phase").waitFor();
});
step("a click on a pass selects its time", async () => {
  const box = await view.locator("svg.rest .onbox", { hasText: "open at the end" }).boundingBox();
  await page.mouse.click(box.x + 5, box.y + 5);
  const filters = page.getByRole("group", { name: "Filters" });
  await filters.getByText(/time: .* to 1/).waitFor();
  await page.getByRole("button", { name: "Clear all" }).click();
});
step("a click on a name chooses the region in all views, or a view says that it does not follow", async () => {
  await lane("solve").click();
  const filters = page.getByRole("group", { name: "Filters" });
  await filters.getByText("region: solve").waitFor();
  await tab("Bottom-up");
  const whole = view.getByText("100.0 % of the whole run", { exact: false });
  if (served) {
    await view.locator(".taken").waitFor();
    assert.equal(await whole.count(), 0);
    assert.equal(await view.getByText("do not follow", { exact: false }).count(), 0);
  } else {
    await whole.waitFor();
    await view.getByText("do not follow the region taken in; fathom open filters them by more.", { exact: false }).waitFor();
  }
  await page.reload();
  await filters.getByText("region: solve").waitFor();
  await tab("Summary");
  const summary = view.getByText("All figures below are of the whole run.", { exact: false });
  await summary.waitFor();
  // Only a server cuts regions.
  if (served) await summary.locator(".taken").waitFor();
  else assert.match(await summary.innerText(), /^All figures below are of the whole run\. Figures of CPU time are of the whole run: they do not follow the region taken in; fathom open/);
  await tab("Timeline");
  await view.getByText("Figures here are of the whole run: they do not follow the region taken in", { exact: false }).waitFor();
  await page.getByRole("button", { name: "Clear all" }).click();
});
step("call trees are grouped by regions, the innermost of each sample, and by their domains", async () => {
  const found = async (group, count) => {
    await page.goto(`${address}#view=bottom-up&group=${group}`);
    await page.reload();
    const rows = view.getByRole("treegrid").locator(".body [aria-level='1']");
    await rows.nth(count - 1).waitFor();
    return rows.evaluateAll((all) => all.map((row) => `${row.querySelector("b").textContent} ${row.querySelectorAll("[role=gridcell]")[1].innerText.trim()}`));
  };
  // As crates/report/tests/golden/region_hotspots.txt has them.
  const regions = ["[in no region] 704 ms", "step 210 ms", "io 151 ms", "solve 50.0 ms"];
  assert.deepEqual(await found("region", 4), regions);
  assert.deepEqual(await found("region,function", 4), regions);
  assert.deepEqual(await found("domain,thread", 2), ["[in no domain] 964 ms", "numbers 151 ms"]);
  await view.getByText("100.0 % of the whole run", { exact: false }).waitFor();
  await view.getByText("Time between passes that follow each other too fast to be distinguished counts as in the region.", { exact: false }).waitFor();
});

await run();
