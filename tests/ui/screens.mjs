// The summary of an analysis begins with what the analysis is for, and has no card of what it cannot know.
//
//   node tests/ui/screens.mjs CHROMIUM ADDRESS ANALYSIS          (crates/web/tests/screens.rs)

import assert from "node:assert/strict";
import { open } from "./harness.mjs";

const { address, page, step, view, run } = await open();
const analysis = process.argv[4];
/** The sentence, and the cards in their order. */
const EXPECTED = {
  threading: [/threads/, ["What threads did", "Who waits for what", "Balance of the threads"]],
  "system-overview": [/^The kernel takes /, ["Kernel entries by kind", "Top causes"]],
  "memory-consumption": [/ are allocated in .* blocks, of which at most .* are live at a time\.$/, ["Heap", "Top allocators"]],
  hotspots: [/itself takes .* of the CPU time\.$/, ["Top functions"]],
};
const [sentence, cards] = EXPECTED[analysis];

step(`${analysis}: its own first screen`, async () => {
  await page.goto(address);
  assert.match(await view.locator(".verdict .sentence").textContent(), sentence);
  const headings = await view.locator(".cards .column").first().locator("h2").allTextContents();
  assert.deepEqual(headings.slice(0, cards.length), cards);
  for (const of of ["DRAM bandwidth utilisation", "Latency of loads"]) assert.ok(!headings.includes(of), of);
});
step("no card is empty, and nothing is n/a", async () => {
  assert.deepEqual(await view.locator(".none").evaluateAll((all) => all.map((one) => one.closest("li, tr, dd, div")?.textContent)), []);
  const empty = await view.locator(".card").evaluateAll((all) => all.filter((one) => one.children.length < 2).map((one) => one.textContent));
  assert.deepEqual(empty, []);
});
if (analysis === "threading") {
  step("the tree of waits opens down to who ended them", async () => {
    const tree = view.getByRole("region", { name: "Who waits for what" });
    await tree.locator("ul ul button.branch").first().click();
    await tree.getByText(/woken by/).first().waitFor();
  });
}

await run();
