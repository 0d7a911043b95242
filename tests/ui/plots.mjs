// Clicks through Compare, Scaling, Roofline and Memory objects of a result whose figures are known, and asserts what is shown.
//
//   node tests/ui/plots.mjs CHROMIUM ADDRESS
//
// crates/web/tests/plots.rs makes the page.

import assert from "node:assert/strict";
import { open } from "./harness.mjs";

const { address, page, served, asked, step, tab, view, shows, run } = await open();
const table = (name) => view.getByRole("grid", { name, exact: true });

step("bands of bandwidth move by keys and by pointer", async () => {
  await page.goto(address);
  const plot = view.getByRole("group", { name: "Time at each bandwidth, with movable bands" });
  const high = plot.getByRole("slider", { name: "from here on high" });
  const at = async () => Number(await high.getAttribute("aria-valuenow"));
  const moves = (sign, from) => page.waitForFunction(
    ([way, value]) => Math.sign(document.querySelectorAll("#view [role=slider]")[1].getAttribute("aria-valuenow") - value) === way, [sign, from]);
  const before = await at();
  await high.focus();
  await page.keyboard.press("ArrowLeft");
  await moves(-1, before);
  const moved = await at();
  const box = await high.locator("rect").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + 30, box.y + 40, { steps: 3 });
  await page.mouse.up();
  await moves(1, moved);
});
step("branches of metrics close, and figures tell their origin", async () => {
  const metrics = view.getByRole("region", { name: "Metrics" });
  const branch = metrics.getByRole("button", { name: /CPU time/ });
  await metrics.getByText("in page faults", { exact: true }).waitFor();
  await branch.click();
  await metrics.getByText("in page faults", { exact: true }).waitFor({ state: "detached" });
  assert.match(await branch.locator("xpath=..").locator(".value").getAttribute("title"), /counted|sampled|estimated/);
  // Without a mouse: the focus tells the same.
  await branch.locator("xpath=..").locator(".value").focus();
  await page.locator(".why").getByText(/counted|sampled|estimated/).waitFor();
});
step("compare names both and sorts", async () => {
  await page.goto(address);
  await tab("Compare");
  await view.getByRole("heading", { name: "From base to r000ma" }).waitFor();
  await table("Whole runs").getByRole("row").filter({ hasText: "CPU time" }).first().waitFor();
  const rows = table("By function").locator(".body [role=row]");
  await rows.filter({ hasText: "walk" }).first().waitFor();
  await table("By function").getByRole("button", { name: /^Function/ }).click();
  const names = await rows.locator("[role=gridcell]:first-child").allTextContents();
  assert.deepEqual(names, [...names].sort((a, b) => a.localeCompare(b, "en", { numeric: true })));
});
step("compare is searched and saved", async () => {
  const search = view.getByLabel("Search in this table").last();
  await search.fill("walk");
  await view.getByText(/^[12] of \d+ rows$/).waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), view.getByRole("button", { name: "CSV", exact: true }).last().click()]);
  assert.match(download.suggestedFilename(), /\.csv$/);
});
step("compare as a call tree and a flame graph", async () => {
  await view.getByRole("button", { name: "Call tree" }).click();
  const tree = view.getByRole("treegrid", { name: "What changed" });
  const row = tree.getByRole("row").filter({ hasText: "blend" }).first();
  // Of a second that was counted each: 700 of 1,200 samples before, 500 of 1,000 now.
  await row.getByText("-83.3 ms").waitFor();
  assert.match(await row.textContent(), /583 ms.*500 ms.*-83\.3 ms.*-14\.3 %/);
  await row.locator("b.better").waitFor();
  await tree.focus();
  await page.keyboard.press("Home");
  await view.getByText(/^blend: base 583 ms, 95 % interval .*; new 500 ms, 95 % interval .*; difference -83\.3 ms, 95 % interval /).waitFor();
  const other = tree.getByRole("row").filter({ hasText: "count" }).first();
  await other.getByText("+33.3 ms").waitFor();
  await view.getByRole("columnheader", { name: "New" }).getByRole("button").click();
  await view.locator("[role=columnheader][aria-sort=descending]").filter({ hasText: "New" }).waitFor();
  await view.getByLabel("Inverted (callers)").check();
  await tree.getByRole("row").filter({ hasText: "blend" }).first().getByText("-83.3 ms").waitFor();
  await view.getByLabel("Inverted (callers)").uncheck();
  await view.getByLabel("In proportion").check();
  await row.getByText("-83.3 ms").waitFor();
  await view.getByRole("button", { name: "Flame graph" }).click();
  await view.locator("canvas").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  await view.locator(".readout").getByText(/before, .* now: /).waitFor();
  await view.getByRole("button", { name: "Tables" }).click();
  await table("Whole runs").waitFor();
});
step("scaling says where more threads stop helping", async () => {
  await tab("Scaling");
  await shows("More threads do not help from");
  const curves = view.locator(".plot svg");
  assert.equal(await curves.count(), 2);
  const labels = await curves.first().locator("[role=img]").evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")));
  assert.match(labels.join("; "), /^1 thread: 1\.00[^;]*; 2 threads: 2\.00[^;]*; 3 threads: 3\.00/);
  assert.equal(await curves.first().locator("circle").count(), 6);
  await table("Runs by number of threads").getByRole("row").nth(6).waitFor();
  const box = view.locator(".plot").first();
  await box.hover();
  const [download] = await Promise.all([page.waitForEvent("download"), box.getByRole("button", { name: "SVG" }).click()]);
  assert.equal(download.suggestedFilename(), "scaling-speedup.svg");
});
step("roofline has its roofs, and a point is a row", async () => {
  await tab("Roofline");
  const plot = view.getByRole("group", { name: /^Roofline: / });
  await plot.waitFor();
  // Of one level the bytes are on the axis; the others are drawn, too.
  assert.match(await plot.getAttribute("aria-label"), /^Roofline: DRAM 13\.9 GB\/s, vector 88\.1 GFLOP\/s; 1 point$/);
  // It stores as much as it loads, and only loads were measured.
  await shows(/No roof of L1, L2, L3, scalar, vector with 1 thread: not measured/);
  await view.getByLabel("Bytes from").selectOption("L1");
  await plot.getByText("FLOP per byte from L1", { exact: true }).waitFor();
  await view.getByLabel("Points").selectOption("function");
  await view.locator(".grid .body [role=row]").filter({ hasText: "blend" }).first().click({ position: { x: 300, y: 12 } });
  await view.locator(".grid .body .selected").filter({ hasText: "blend" }).waitFor();
});
step("a narrow window leaves columns out, says which, and shows them when asked to", async () => {
  await page.setViewportSize({ width: 1024, height: 768 });
  await tab("Memory objects");
  const grid = table("Memory objects");
  const scrolls = () => grid.evaluate((one) => one.scrollWidth > one.clientWidth + 1);
  const heading = (name) => grid.getByRole("columnheader", { name, exact: true });
  await shows(/No room for \d+ columns: .*Blocks/);
  await heading("Size").waitFor();
  assert.equal(await heading("Blocks").count(), 0);
  assert.equal(await scrolls(), false);
  await view.getByRole("button", { name: "All columns" }).click();
  await heading("Blocks").waitFor();
  assert.equal(await scrolls(), true);
  await page.setViewportSize({ width: 1400, height: 900 });
});
step("the row that the keys have chosen is known to who cannot see it", async () => {
  const grid = table("Memory objects");
  await grid.focus();
  await page.keyboard.press("Home");
  await page.waitForFunction(() => {
    const of = document.querySelector("#view .grid")?.getAttribute("aria-activedescendant");
    return of && document.getElementById(of)?.getAttribute("aria-selected") === "true";
  });
  await page.getByRole("button", { name: "Clear all" }).click();
});
step("an object is chosen and becomes a filter", async () => {
  await tab("Memory objects");
  const rows = table("Memory objects").locator(".body [role=row]");
  await rows.first().waitFor();
  const name = (await rows.nth(1).locator("[role=gridcell]").first().textContent()).trim();
  await rows.nth(1).locator("[role=gridcell]").nth(1).click();
  await page.getByRole("complementary", { name: `Object ${name}` }).waitFor();
  await page.getByRole("group", { name: "Filters" }).getByText(`object: ${name}`).waitFor();
  assert.equal(new URLSearchParams(new URL(page.url()).hash.slice(1)).get("object"), name);
});
step("all objects are saved, also those that were not seen", async () => {
  const rows = table("Memory objects");
  const count = Number(await rows.getAttribute("aria-rowcount")) - 1;
  const [download] = await Promise.all([page.waitForEvent("download"), view.getByRole("button", { name: "JSON", exact: true }).click()]);
  const chunks = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  assert.equal(JSON.parse(Buffer.concat(chunks).toString()).rows.length, count);
});
step("the heat of an object's bytes counts what bursts recorded", async () => {
  const rows = table("Memory objects").locator(".body [role=row]");
  await rows.filter({ hasText: "counters" }).locator("[role=gridcell]").nth(1).click();
  const pane = page.getByRole("complementary", { name: "Object counters" });
  await pane.getByRole("heading", { name: "Heat of its bytes over time" }).waitFor();
  // Each of 20 bursts adds 300 times to one of two counters of 8 bytes.
  await pane.getByRole("img", { name: /^0 loads and 6000 stores of bytes 0 B to 64 B over / }).waitFor();
  const cells = pane.locator(".heatcell");
  assert.equal(await cells.count(), 20);
  for (const text of await cells.locator("title").allTextContents()) assert.match(text, /^bytes 0 B to 64 B, .*: 0 loads, 300 stores in 1 burst$/);
  // All are as hot as the hottest, and written.
  assert.deepEqual([...new Set(await cells.evaluateAll((all) => all.map((one) => one.getAttribute("class"))))], ["heatcell write level6"]);
});
step("threads that share lines of an object are a matrix", async () => {
  const pane = page.getByRole("complementary", { name: "Object counters" });
  const matrix = pane.getByRole("region", { name: "Lines shared between threads" });
  // The two counters lie in one line: each thread uses bytes of its own, 300 times in a burst.
  assert.deepEqual(await matrix.locator("tr").allTextContents(), ["78", "tree (7)-1 line, 1 false300", "worker (8)1 line, 1 false300-"]);
  assert.equal(await matrix.locator("td.heat4").count(), 2);
});
step("members of a value are drawn where they lie", async () => {
  await table("Memory objects").locator(".body [role=row]").filter({ hasText: "make_node" }).locator("[role=gridcell]").nth(1).click();
  const drawing = view.getByRole("img", { name: "Layout of struct node: next at 0," });
  await drawing.waitFor();
  // One line of 64 bytes, and the eight of `next` upon it.
  const widths = await drawing.locator("rect").evaluateAll((all) => all.map((one) => Number(one.getAttribute("width"))));
  assert.deepEqual(widths, [319, 39]);
  await view.locator("table.fields tbody tr.heat4").getByText("next", { exact: true }).waitFor();
});
step("strides and reuse of the function that uses an object", async () => {
  const pane = page.getByRole("complementary", { name: /^Object / });
  await pane.getByRole("heading", { name: /^Strides in / }).waitFor();
  const bars = pane.getByRole("group", { name: "Share of its traced accesses" }).getByRole("img");
  const shares = (await bars.evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")))).map((label) => Number(/: ([\d.]+) %/.exec(label)[1]));
  assert.ok(Math.abs(shares.reduce((sum, one) => sum + one, 0) - 100) < 0.5, String(shares));
});
step("what stands beside an object follows the selection, or says that it does not", async () => {
  if (!served) return;
  const before = asked.length;
  await page.evaluate(() => {
    location.hash += "&from=0&to=0.9";
    dispatchEvent(new PopStateEvent("popstate"));
  });
  const pane = page.getByRole("complementary", { name: /^Object / });
  await pane.getByText("Its access pattern and its heat are of the whole run: they do not follow the time.").waitFor();
  await pane.getByRole("heading", { name: /^Strides in / }).waitFor();
  const beside = asked.slice(before).map((url) => decodeURIComponent(url)).filter((url) => /api\/(objects|accesses|reuse|sharing)\?/.test(url));
  assert.deepEqual(beside.filter((url) => !url.includes("filter=time=0..0.9")), []);
  assert.ok(beside.length >= 4, beside.join(" "));
  await page.getByRole("group", { name: "Filters" }).getByRole("button", { name: /^time: / }).click();
});
step("objects are sorted and searched", async () => {
  await table("Memory objects").getByRole("button", { name: "Loads" }).click();
  await view.locator("[role=columnheader][aria-sort=descending]").filter({ hasText: "Loads" }).waitFor();
  const rows = table("Memory objects").locator(".body [role=row]");
  const first = (await rows.first().locator("[role=gridcell]").first().textContent()).trim();
  await view.getByLabel("Search in this table").fill("no such object anywhere");
  await view.getByText(/^0 (of \d+ rows|rows found)$/).waitFor();
  await view.getByLabel("Search in this table").fill(first);
  await rows.filter({ hasText: first }).first().waitFor();
  await view.getByLabel("Search in this table").fill("");
});
step("other views follow the object, or say that they do not", async () => {
  await tab("Flame graph");
  await shows("do not follow the object taken in");
  await view.getByLabel("Figure").selectOption("loads");
  await shows(/^Loads: (estimated|nothing of it)/);
  await tab("Timeline");
  await shows("Figures here are of the whole run: they do not follow the object taken in.");
  assert.equal(await view.getByText("DRAM bandwidth and resident memory", { exact: false }).count(), 0);
  await page.evaluate(() => {
    location.hash += "&function=blend";
    dispatchEvent(new PopStateEvent("popstate"));
  });
  await shows("Figures here do not follow the object taken in.");
  await shows("DRAM bandwidth and resident memory are of the whole run: they do not follow the function taken in.");
  const chosen = view.getByText("All figures below are of the whole run.", { exact: false });
  await tab("Summary");
  await chosen.waitFor();
  assert.match(await chosen.innerText(), /CPU time chosen, .*Figures of CPU time do not follow the object taken in\.$/);
  await page.getByRole("group", { name: "Filters" }).getByRole("button", { name: /^function: / }).click();
  await view.locator(".taken").waitFor({ state: "detached" });
  assert.equal(await chosen.innerText(), "All figures below are of the whole run. Figures of CPU time are of the whole run: they do not follow the object taken in.");
  await tab("Tables");
  await shows("do not follow the object taken in");
  await tab("Source");
  await view.getByRole("complementary", { name: "Assembly" }).waitFor();
  await page.getByRole("button", { name: "Clear all" }).click();
});
step("trees are divided by type and by object, also in a file", async () => {
  const rows = view.getByRole("treegrid").getByRole("row");
  for (const [group, first] of [["type,function", "struct node"], ["object,function", "grid"], ["object,type,function", "grid"]]) {
    await page.goto(`${address}#view=bottom-up&figure=loads&group=${group}`);
    await page.reload();
    await shows("A function's amount is divided among the memory that it uses");
    await rows.filter({ hasText: first }).first().waitFor();
  }
});
step("assembly beside the source", async () => {
  await tab("Source");
  await view.getByLabel("Figure").selectOption("cpu_time");
  const pane = page.getByRole("complementary", { name: "Assembly" });
  await pane.getByLabel("Function").selectOption("blend");
  const code = pane.getByRole("grid", { name: "Assembly of blend" });
  await code.getByText("mulsd xmm0, xmm1").waitFor();
  await code.getByText("jne 0x1000").waitFor();
  // Shares are of the whole run, as those of the lines: 500 of 1,000 samples are in it.
  await code.locator("[role=row]").filter({ hasText: "50.0 %" }).first().waitFor();
  await pane.getByText("Only the instructions that bursts ran").waitFor();
  // Keys go on to the next instruction of the same line, and what is chosen tells its intervals.
  await code.focus();
  await page.keyboard.press("Home");
  await pane.getByText(/^0x1000: CPU time 50\.0 %, 95 % interval /).waitFor();
  for (const row of [1, 2]) {
    await page.keyboard.press("ArrowDown");
    await page.waitForFunction((end) => document.querySelector("[aria-label='Assembly of blend']").getAttribute("aria-activedescendant").endsWith(end), `-${row}`);
  }
});

await run();
