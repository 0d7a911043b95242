// The summary of an analysis begins with what the analysis is for, and has no card of what it cannot know.
//
//   node tests/ui/screens.mjs CHROMIUM ADDRESS ANALYSIS          (crates/web/tests/screens.rs)

import assert from "node:assert/strict";
import { readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { open, replaced } from "./harness.mjs";

const { address, page, step, tab, view, run } = await open();
const analysis = process.argv[4];
/** The sentence, and the cards in their order. */
const EXPECTED = {
  threading: [/threads/, ["What threads did", "Who waits for what", "Balance of the threads"]],
  "system-overview": [/^The kernel takes .* of the CPU time, in /, ["Kernel entries by kind", "Top causes"]],
  "memory-consumption": [/ are allocated in .* blocks, of which at most .* are live at a time\.$/, ["Heap", "Top allocators"]],
  hotspots: [/itself takes [\d.]+ % \([\d.]+ to [\d.]+ %\) of the CPU time\.$/, ["Top functions"]],
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
if (analysis === "system-overview") {
  step("what is no entry stands below the entries", async () => {
    const card = view.getByRole("region", { name: "Kernel entries by kind" });
    const kinds = await card.locator("tbody td:first-child").allTextContents();
    assert.ok(kinds.includes("system call"), String(kinds));
    for (const other of ["switch", "run queue", "TLB flush", "memory event"]) assert.ok(!kinds.includes(other), other);
    await card.getByText("Waits for a CPU").waitFor();
  });
}
if (analysis === "memory-consumption") {
  step("the pane of an object has no columns of what is not known", async () => {
    await tab("Memory objects");
    await view.locator("h3, .empty").first().waitFor();
    assert.equal(await view.locator("aside td .none").count(), 0);
  });
}
if (analysis === "hotspots") {
  const whole = readFileSync(fileURLToPath(address), "utf8");
  /** Opens the page with other documents. */
  async function opened(text) {
    const file = `${fileURLToPath(address)}.other.html`;
    writeFileSync(file, text);
    await page.goto(`file://${file}`);
    await view.locator(".verdict").waitFor();
    unlinkSync(file);
  }
  step("a gain whose sign is not sure says what it may cost", async () => {
    const finding = (value, low, high) => ({
      id: "tlb-bound", severity: "low", title: `f waits ${value}`, evidence: [], where: { function: null, file: null, line: null, object: null }, advice: "Do less.", next_command: "fathom",
      predicted_gain: { value, low, high, unit: "s", evidence: "estimated", samples: 2, lost: 0, note: null },
    });
    const findings = [finding(0.4, 0.3, 0.9), finding(0.5, -0.1, 0.9), finding(-0.2, -0.67, 0.3), finding(-0.67, -0.938, -0.402)];
    await opened(replaced(whole, "summary", (summary) => ({ ...summary, findings })));
    const says = (await view.locator(".finding .where").allTextContents()).map((text) => text.trim().replace(/\s+/g, " ").replace(/ ?Est$/, ""));
    assert.deepEqual(says, [
      "saves 400 ms 300 to 900 ms", "may save 500 ms (up to 900 ms) or cost up to 100 ms",
      "may cost up to 670 ms or save up to 300 ms", "costs 670 ms (402 ms to 938 ms)",
    ]);
  });
  step("bytes of blocks that each have a record are in doubt by no more than was drawn", async () => {
    const drawn = 4096;
    await opened(replaced(whole, "stacks", (stacks) => {
      const [cpu] = stacks.figures;
      const amount = cpu.cells.amount.map(() => 1e9 / cpu.cells.amount.length);
      const bytes = { ...cpu, key: "bytes_allocated", label: "Bytes allocated", factor: 1, whole: { value: 1e9, unit: "bytes", evidence: "counted", samples: 0 }, observations: 1, drawn, cells: { ...cpu.cells, amount } };
      return { ...stacks, figures: [cpu, bytes] };
    }));
    await tab("Bottom-up");
    await view.getByRole("combobox", { name: "Figure" }).selectOption("bytes_allocated");
    const cell = view.locator(".grid .body .row .value").first();
    const title = await cell.getAttribute("title");
    // 1e9 bytes are 954 MiB: 4 KiB more or less is the same figure.
    const [, value, ends] = /^([\d.]+ MiB), (?:95 % interval ([^,]*), )?/.exec(title) ?? [];
    assert.ok(value && ends === undefined, title);
    assert.equal(await cell.locator(".interval").count(), 1);
  });
  step("every figure with an interval has a bar, also where its ends read alike", async () => {
    await opened(replaced(whole, "hotspots?group=function&limit=400", (table) => {
      const rows = (table.cells ? table.rows.map((row) => Object.fromEntries(table.columns.map(({ key }, at) => [key, table.cells[row[at]]]))) : table.rows).slice(0, 1);
      const cell = (unit, value, low, high) => ({ value, low, high, unit, evidence: "sampled", samples: 5 });
      return { ...table, cells: undefined, rows: [{ ...rows[0], cpu_time: cell("s", 1, 0.99999, 1.00001), self_percent: cell("percent", 0, 0, 0), total_time: cell("s", 0, 0, 0.002) }] };
    }));
    await tab("Tables");
    const cells = view.locator(".grid .body .row").first().locator("[role=gridcell]");
    const heads = await view.locator(".grid [role=columnheader]").allTextContents();
    const of = (head) => cells.nth(heads.findIndex((one) => one.startsWith(head)));
    assert.equal(await of("CPU time").locator(".interval").count(), 1);
    assert.equal(await of("Self").locator(".interval").count(), 0);
    assert.equal((await of("Total time").textContent()).trim(), "≤ 2.00 ms");
  });
}

await run();
