// Clicks through the page in real Chromium and asserts what is shown.
//
//   node tests/ui/page.mjs CHROMIUM ADDRESS          (ADDRESS: http://127.0.0.1:... or file:///...)
//
// The result behind it is the one that crates/web/tests/browser.rs makes: names in it are hostile on purpose.

import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { open } from "./harness.mjs";

const { address, served, page, step, tab, view, shows, asked, run } = await open();
const HOSTILE = "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>";

step("summary", async () => {
  await page.goto(address);
  await view.locator(".verdict .sentence").getByText(/imit/).waitFor();
  await shows("Top functions");
  await view.getByRole("button", { name: "hot_loop" }).first().waitFor();
  // Every figure says where it comes from.
  assert.match(await view.locator(".value").first().getAttribute("title"), /counted|sampled/);
});
if (served) {
  step("what is known at once is shown before the summary is computed", async () => {
    let answer;
    const asked = new Promise((resolve) => { answer = resolve; });
    await page.route("**/api/summary", async (route) => { await asked; await route.continue(); });
    await page.goto(address);
    await page.reload();
    await shows("The other figures are being computed");
    await shows("1,400 samples, 6 call stack nodes");
    // Functions need no traced access.
    await view.getByRole("region", { name: "Top functions" }).getByRole("button", { name: "hot_loop" }).waitFor();
    assert.match(await view.locator(".figures").innerText(), /CPU time\s+1\.40 s/);
    answer();
    await view.locator(".verdict").waitFor();
    await page.unroute("**/api/summary");
  });
}
step("hostile names are text", async () => {
  await tab("Bottom-up");
  await view.getByText(HOSTILE).first().waitFor();
  assert.equal(await page.locator("img").count(), 0);
  // Only one of them runs; the others are documents.
  assert.equal(await page.evaluate(() => [...document.scripts].filter((one) => !/^application\/(json|gzip)$/.test(one.type)).length), 1);
});
step("bottom-up by thread", async () => {
  await view.getByLabel("Grouping").selectOption("thread,function");
  await shows("worker (101)");
  await view.getByLabel("Grouping").selectOption("function");
});
step("rows open by key, and the stack is beside them", async () => {
  const rows = view.getByRole("treegrid").getByRole("row");
  await rows.filter({ hasText: "hot_loop" }).first().click({ position: { x: 320, y: 10 } });
  await page.keyboard.press("ArrowRight");
  await rows.filter({ hasText: "main" }).first().waitFor();
  await page.getByRole("complementary", { name: "Call stack" }).getByText("main").first().waitFor();
});
step("rows of a tree are pinned and coloured as those of tables", async () => {
  const rows = view.getByRole("treegrid").locator(".body [role=row]");
  const first = () => rows.first().getByRole("gridcell").first().textContent();
  await view.getByLabel("Heat").check();
  await rows.first().locator(".hot.heat4").waitFor();
  const child = rows.and(view.locator("[aria-level='2']")).first();
  const name = await child.getByRole("gridcell").first().textContent();
  const count = await rows.count();
  await child.click({ position: { x: 320, y: 10 } });
  await page.keyboard.press("p");
  await view.locator(".row.pinned").waitFor();
  assert.deepEqual([await first(), await rows.count()], [name, count], "it moves to the top with what is below it");
  await view.getByRole("button", { name: "Unpin this row" }).click();
  await view.locator(".row.pinned").waitFor({ state: "detached" });
  assert.notEqual(await first(), name);
  await view.getByLabel("Heat").uncheck();
  assert.equal(await view.locator(".hot").count(), 0);
});
step("search", async () => {
  await view.getByLabel("Find a function").fill("no such function");
  assert.equal(await view.getByRole("treegrid").getByRole("row").count(), 1);
  await view.getByLabel("Find a function").fill("");
});
step("other figures", async () => {
  await view.getByLabel("Figure").selectOption("page_faults");
  await shows("page faults chosen");
  await view.getByLabel("Figure").selectOption("cpu_time");
});
step("top-down", async () => {
  await tab("Top-down");
  await view.getByRole("treegrid").getByRole("row").filter({ hasText: "hot_loop" }).first().waitFor();
});
step("callers and callees of a function, and from there to the next", async () => {
  await tab("Callers and callees");
  const callers = view.getByRole("treegrid", { name: "Callers" });
  const callees = view.getByRole("treegrid", { name: "Callees" });
  await view.getByLabel("Function").selectOption({ label: "main (program)" });
  await callees.getByRole("row").filter({ hasText: "late_phase" }).first().waitFor();
  assert.equal(await callers.getByRole("row").count(), 2);
  // Without a mouse: the chosen row tells what tooltips say.
  await callees.focus();
  await page.keyboard.press("Home");
  await view.getByText(/^main: CPU time 1\.00 s, 95 % interval .*; share 71\.4 %, 95 % interval /).waitFor();
  await callees.getByRole("row").filter({ hasText: "late_phase" }).first().dblclick({ position: { x: 320, y: 10 } });
  await callers.getByRole("row").filter({ hasText: "main" }).first().waitFor();
  assert.match(page.url(), /code=late_phase/);
});
step("groupings are made of levels in any order", async () => {
  await tab("Bottom-up");
  await view.getByLabel("Add a level").selectOption("thread");
  await view.getByRole("button", { name: "Turn" }).click();
  await view.getByRole("columnheader", { name: "Thread / Function / Call Stack" }).waitFor();
  await view.getByRole("treegrid").getByText("worker (101)").waitFor();
  await view.getByRole("button", { name: "Turn" }).click();
  await view.getByRole("button", { name: "- level" }).click();
  await view.getByRole("columnheader", { name: "Function / Call Stack", exact: true }).waitFor();
});
step("figures stand next to each other in trees, sorted by either, in units that are chosen", async () => {
  await tab("Top-down");
  await view.getByText("Columns", { exact: true }).click();
  await view.getByRole("group", { name: "Columns" }).getByLabel("Page faults").check();
  await view.getByText("Columns", { exact: true }).click();
  const main = view.getByRole("treegrid").getByRole("row").filter({ hasText: "main" }).first();
  // 30 records of a fault each.
  await main.locator("[role=gridcell]").getByText("30", { exact: true }).waitFor();
  await view.getByRole("columnheader", { name: "Page faults" }).getByRole("button").click();
  await view.locator("[role=columnheader][aria-sort=descending]").filter({ hasText: "Page faults" }).waitFor();
  await view.getByText("Units", { exact: true }).click();
  await view.getByLabel("Times").selectOption("ms");
  await view.getByText("Units", { exact: true }).click();
  await main.getByText("1,000 ms").first().waitFor();
  assert.match(page.url(), /units=s%3Ams/);
  await page.reload();
  await main.getByText("1,000 ms").first().waitFor();
  await page.goto(address + "#view=bottom-up&group=object,function");
  await page.reload();
  // Bursts recorded nothing here.
  await view.getByRole("treegrid").getByText("[no memory object known]").waitFor();
  await page.goto(address + "#view=bottom-up");
  await page.reload();
});
step("flame graph by keys", async () => {
  await tab("Flame graph");
  await view.locator("canvas").focus();
  await page.keyboard.press("ArrowDown");
  assert.match(await view.locator(".readout").textContent(), /^main, program: /);
  await page.keyboard.press("ArrowDown");
  assert.match(await view.locator(".readout").textContent(), /^late_phase, program: /);
  await page.keyboard.press("Enter");
  await view.getByRole("button", { name: "Zoom out" }).click();
  await view.getByLabel("Inverted (callers)").check();
});
step("what is pointed at moves nothing", async () => {
  for (const [name, selector] of [["Flame graph", "canvas"], ["Timeline", ".lanes"]]) {
    await tab(name);
    const drawing = view.locator(selector);
    const before = await drawing.boundingBox();
    for (const [x, y] of [[0.2, 10], [0.5, 30], [0.7, 50], [0.95, 30]]) {
      await page.mouse.move(before.x + before.width * x, before.y + y);
      assert.deepEqual(await drawing.boundingBox(), before, name);
    }
  }
});
if (served) {
  step("answers that come late move nothing", async () => {
    const pattern = /\/api\/(?!stacks)/;
    const held = [];
    let answer;
    const asked = new Promise((resolve) => { answer = resolve; });
    await page.route(pattern, (route) => { held.push(asked.then(() => route.continue()).catch(() => {})); });
    await page.goto(address + "#view=timeline");
    await page.reload();
    const drawing = view.locator(".lanes");
    await drawing.locator("text.lane", { hasText: "worker (101)" }).waitFor();
    const before = await drawing.boundingBox();
    answer();
    // Of single samples, and of the table over time.
    await view.getByText("A sample stands for the CPU time before it").waitFor();
    await view.getByText("No bandwidth over time in this result").waitFor();
    await Promise.all(held);
    assert.deepEqual(await drawing.boundingBox(), before);
    await page.unroute(pattern);
  });
}
step("a function as filter, in the address", async () => {
  await tab("Bottom-up");
  await view.getByRole("treegrid").getByRole("row").filter({ hasText: "hot_loop" }).first().click({ position: { x: 320, y: 10 } });
  await view.getByRole("button", { name: "Filter by this function" }).click();
  await page.getByRole("group", { name: "Filters" }).getByText("function: hot_loop").waitFor();
  assert.match(page.url(), /function=hot_loop/);
  await tab("Summary");
  await shows("All figures below are of the whole run");
  await tab("Bottom-up");
  await page.getByRole("button", { name: "Clear all" }).click();
  await view.getByRole("treegrid").getByRole("row").filter({ hasText: "hot_loop" }).first().click({ position: { x: 320, y: 10 } });
  await page.keyboard.press("x");
  await page.getByRole("group", { name: "Filters" }).getByText("without function: hot_loop").waitFor();
  assert.equal(await view.getByRole("treegrid").getByRole("row").filter({ hasText: "hot_loop" }).count(), 0);
  await page.getByRole("button", { name: "Clear all" }).click();
  assert.doesNotMatch(page.url(), /function=/);
});
step("a selection of time filters the other views", async () => {
  await tab("Timeline");
  const lanes = view.locator(".lanes svg.rest");
  const box = await lanes.boundingBox();
  // The second half belongs to another function.
  await page.mouse.move(box.x + 176 + (box.width - 186) * 0.6, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + 176 + (box.width - 186) * 0.98, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await page.getByRole("group", { name: "Filters" }).getByText("time:").waitFor();
  await tab("Bottom-up");
  const rows = view.getByRole("treegrid").getByRole("row");
  await rows.filter({ hasText: "late_phase" }).first().waitFor();
  assert.equal(await rows.filter({ hasText: "hot_loop" }).count(), 0);
  await page.getByRole("button", { name: "Clear all" }).click();
  await rows.filter({ hasText: "hot_loop" }).first().waitFor();
});
if (served) {
  step("an open row stays open when the exact answer takes the place of the first one", async () => {
    let answer;
    const asked = new Promise((resolve) => { answer = resolve; });
    await page.route(/api\/stacks\?filter/, async (route) => { await asked; await route.continue(); });
    await page.goto(address + "#view=bottom-up&from=0.6&to=0.97");
    await page.reload();
    const rows = view.getByRole("treegrid").getByRole("row");
    await rows.filter({ hasText: "late_phase" }).first().click({ position: { x: 320, y: 10 } });
    await page.keyboard.press("ArrowRight");
    const caller = view.locator("[aria-level='2']").filter({ hasText: "main" });
    await caller.waitFor();
    await shows("the time is cut in steps");
    answer();
    await view.getByText("the time is cut in steps").waitFor({ state: "detached" });
    await caller.waitFor({ timeout: 2000 });
    await page.unroute(/api\/stacks\?filter/);
    await page.getByRole("button", { name: "Clear all" }).click();
  });
}
step("timeline by keys", async () => {
  await tab("Timeline");
  await shows("its band is the 95 % interval of the mean");
  await view.locator(".lanes").focus();
  await page.keyboard.press("+");
  await view.getByRole("button", { name: "Whole run" }).click();
  await view.locator("svg text.lane", { hasText: "worker (101)" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("group", { name: "Filters" }).getByText("thread: worker (101)").waitFor();
  await page.getByRole("button", { name: "Clear all" }).click();
});
step("how busy a thread was has its interval, as a band and for who has no pointer", async () => {
  await page.goto(address + "#view=timeline");
  await page.reload();
  await view.locator("svg.rest text.lane", { hasText: "program (100)" }).first().waitFor();
  // CPUs busy, the process, and its two threads.
  assert.ok((await view.locator("svg.rest path.uncertain").count()) >= 4);
  await view.locator(".lanes").focus();
  for (let at = 0; at < 20; at++) {
    await page.keyboard.press("ArrowDown");
    if (/program \(100\): /.test(await view.locator(".readout").innerText())) break;
  }
  // Its samples here are a millisecond each and follow each other (the score interval of a count); there is one CPU.
  const said = await view.locator(".readout").innerText();
  const [, from, to, low] = /program \(100\): 1\.00 busy on average from ([\d.]+) s to ([\d.]+) s, 95 % interval ([\d.]+) to 1\.00\./.exec(said) ?? [];
  const count = (to - from) * 1000;
  assert.ok(Math.abs(low - (count + 1.92 - 1.96 * Math.sqrt(count + 0.96)) / count) < 0.02, said);
});
step("the interval of a figure does not depend on how the thread was chosen", async () => {
  await page.goto(address + "#view=around&code=hot_loop&thread=worker+%28101%29");
  await page.reload();
  // 400 of 1,400 samples, of which the clock of another run would have 368 to 434 here (Wilson).
  await view.locator("p .value[title*='400 ms, 95 % interval 368 to 434 ms']").first().waitFor();
  await page.getByRole("button", { name: "Clear all" }).click();
});
step("from near the timeline has single samples, with their stacks", async () => {
  await page.goto(address + "#view=timeline");
  await page.reload();
  await view.locator(".lanes").focus();
  const range = () => view.locator(".bar .quiet").first().textContent();
  // To a 64th of a second: samples are a millisecond.
  for (let step = 0; step < 6; step++) await page.keyboard.press("+");
  assert.equal(await range(), "492.2 to 507.8 ms".replace(" to", " ms to"));
  await view.locator("svg .onbox", { hasText: "late_phase" }).first().waitFor();
  assert.ok(await view.locator("svg .onbox").count() > 8);
  // Labels of the axis differ.
  const ticks = await view.locator(".lanes svg.top .tick").allTextContents();
  assert.equal(new Set(ticks).size, ticks.length, ticks.join());
  await page.keyboard.press(".");
  const chosen = view.getByRole("region", { name: "Chosen event" });
  await chosen.getByText(/sample of 1\.00 ms, program \(100\)/).waitFor();
  const first = await chosen.locator("p").textContent();
  await page.keyboard.press(".");
  await page.waitForFunction((text) => document.querySelector("#view [aria-label='Chosen event'] p").textContent !== text, first);
  await chosen.locator("li").filter({ hasText: "main" }).waitFor();
  await page.keyboard.press("0");
  await page.keyboard.press("Escape");
  // A click on a sample chooses it, and a click is no selection.
  for (let step = 0; step < 6; step++) await page.keyboard.press("+");
  const label = await view.locator("svg.rest .onbox", { hasText: "late_phase" }).first().boundingBox();
  await page.mouse.click(label.x + 10, label.y + 5);
  await chosen.getByText(/sample of 1\.00 ms/).waitFor();
  assert.equal(await page.getByRole("group", { name: "Filters" }).count(), 0);
  await page.keyboard.press("0");
  await page.keyboard.press("Escape");
});
step("functions and threads are found on the timeline", async () => {
  const find = view.getByLabel("Find a function or thread");
  await find.fill("late_phase");
  await view.getByText(/^1 place/).waitFor();
  await find.press("Enter");
  await view.getByRole("button", { name: "Whole run" }).waitFor();
  await find.fill("worker");
  await view.locator("svg .lane.found", { hasText: "worker (101)" }).waitFor();
  await find.fill("");
  await view.getByRole("button", { name: "Whole run" }).click();
});
step("lanes are pinned and folded, and the address knows", async () => {
  const rest = view.locator(".lanes svg.rest");
  await rest.getByRole("button", { name: "Pin worker (101)" }).click();
  const name = "text.lane.link";
  const pinned = view.locator(".lanes svg.top").locator(name, { hasText: "worker (101)" });
  await pinned.waitFor();
  assert.equal(await rest.locator(name, { hasText: "worker (101)" }).count(), 0);
  await rest.getByRole("button", { name: "Fold program (100)" }).click();
  // The process has the name of its thread.
  await rest.getByRole("button", { name: "Unfold program (100)" }).waitFor();
  assert.equal(await rest.locator("text.lane.link", { hasText: "program (100)" }).count(), 1);
  await page.reload();
  await pinned.waitFor();
  await view.getByRole("button", { name: "Unpin all" }).click();
  await rest.getByRole("button", { name: "Unfold program (100)" }).click();
  await rest.locator(name, { hasText: "worker (101)" }).waitFor();
});
step("marks have names, and the address keeps them", async () => {
  await view.locator(".lanes").focus();
  await page.mouse.move(5, 5);
  await page.keyboard.press("m");
  await view.getByLabel("Name of mark 1").fill("<b>here</b>");
  await view.getByLabel("Name of mark 1").press("Enter");
  await page.keyboard.press("Tab");
  await page.reload();
  assert.equal(await view.getByLabel("Name of mark 1").inputValue(), "<b>here</b>");
  await view.getByRole("button", { name: "Show" }).click();
  await view.getByRole("button", { name: "Whole run" }).click();
  await view.getByRole("button", { name: "Remove <b>here</b>" }).click();
  await view.getByLabel("Name of mark 1").waitFor({ state: "detached" });
});
step("source, with its text and without", async () => {
  await tab("Source");
  await shows("sum += values[i];");
  const hot = view.getByRole("grid", { name: /Source of/ }).getByRole("row").filter({ hasText: "sum += values[i];" });
  assert.match(await hot.getAttribute("class"), /heat4/);
  await view.getByLabel("File").selectOption("/src/gone.c");
  await shows("Lines are shown by number");
});
step("the map of hot lines leads to them", async () => {
  await view.getByLabel("File").selectOption("/src/hot.c");
  await shows("sum += values[i];");
  const box = await view.locator(".minimap").boundingBox();
  await page.mouse.click(box.x + 9, box.y + 2);
  await view.getByRole("grid", { name: /Source of/ }).locator("[aria-selected=true] [role=gridcell]").first().getByText("1", { exact: true }).waitFor();
  await view.getByRole("button", { name: "Hottest line" }).click();
  await view.getByRole("grid", { name: /Source of/ }).locator("[aria-selected=true]").filter({ hasText: "sum +=" }).waitFor();
});
step("objects, roofline and every table say what there is not", async () => {
  await tab("Memory objects");
  await shows("this result has no memory objects");
  await tab("Roofline");
  await shows(/roofs of this machine are unknown|No floating-point operations/);
  await tab("Tables");
  const options = await view.getByRole("combobox", { name: "Table" }).locator("option").evaluateAll((all) => all.map((one) => one.value));
  for (const option of options) {
    await view.getByRole("combobox", { name: "Table" }).selectOption(option);
    await view.locator(".grid, .empty").first().waitFor();
    assert.equal(await view.locator(".failed").count(), 0, option);
    // No keys for headings, and no digits that nobody reads.
    const [heads, cells] = [await view.getByRole("columnheader").allTextContents(), await view.getByRole("gridcell").allTextContents()];
    assert.deepEqual(heads.filter((text) => /[a-z]_[a-z]/.test(text)), [], option);
    assert.deepEqual(cells.filter((text) => /\d\.\d{5,}|\d[eE][-+]\d|NaN|undefined/.test(text)), [], option);
  }
});
step("tables are saved as CSV", async () => {
  await view.getByRole("combobox", { name: "Table" }).selectOption("hotspots?group=function&limit=400");
  await view.getByRole("grid").waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), view.getByRole("button", { name: "CSV", exact: true }).click()]);
  const chunks = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString();
  assert.match(text, /^function,file,line,module,cpu_time,cpu_time_low,cpu_time_high,cpu_time_evidence,/);
  assert.match(text, /hot_loop,\/src\/hot\.c,12,program,/);
});
step("columns are chosen, rows pinned, tables copied, numbers exact", async () => {
  const rows = view.getByRole("grid").locator(".body [role=row]");
  await view.getByText("Columns", { exact: true }).click();
  await view.getByRole("group", { name: "Columns" }).getByLabel("Module").uncheck();
  await view.getByRole("columnheader", { name: "Module" }).waitFor({ state: "detached" });
  await view.getByRole("group", { name: "Columns" }).getByLabel("Module").check();
  await view.getByText("Columns", { exact: true }).click();
  const second = await rows.nth(1).locator("[role=gridcell]").first().textContent();
  await rows.nth(1).locator("[role=gridcell]").nth(1).click();
  await view.getByText(/95 % interval .* sampled/).first().waitFor();
  await view.getByRole("button", { name: "Pin this row" }).click();
  await view.getByRole("columnheader", { name: "CPU time" }).getByRole("button").click();
  assert.equal(await rows.first().locator("[role=gridcell]").first().textContent(), second);
  await view.getByRole("button", { name: "Unpin this row" }).click();
  await view.getByRole("columnheader", { name: "CPU time" }).getByRole("button").click();
  await view.locator("[role=columnheader][aria-sort=ascending]").filter({ hasText: "CPU time" }).waitFor();
  await view.getByRole("columnheader", { name: "CPU time" }).getByRole("button").click();
  await view.getByLabel("Heat").check();
  await view.locator(".hot.heat4").first().waitFor();
  await view.getByLabel("Heat").uncheck();
  await view.getByLabel("Exact").check();
  await rows.filter({ hasText: "hot_loop" }).getByText(/^0\.\d+ s$/).first().waitFor();
  await view.getByLabel("Exact").uncheck();
  // What is copied would end in the clipboard of the machine: the page is told to put it elsewhere.
  await page.evaluate(() => { Object.defineProperty(navigator, "clipboard", { configurable: true, value: { writeText: async (text) => { window.copied = text; } } }); });
  await view.getByRole("button", { name: "Copy as Markdown" }).click();
  await view.getByText(/\d+ rows copied/).waitFor();
  assert.match(await page.evaluate(() => window.copied), /^\| Function \|.*\n\| --- \|[^]*\| hot_loop \|.* ms \([\d.]+ to [\d.]+ ms\) \|/);
});
step("trees and flame graphs are saved", async () => {
  for (const [name, button, file] of [["Bottom-up", "CSV", "calls.csv"], ["Flame graph", "SVG", "flame-graph.svg"], ["Flame graph", "PNG", "flame-graph.png"]]) {
    await tab(name);
    const [download] = await Promise.all([page.waitForEvent("download"), view.getByRole("button", { name: button, exact: true }).click()]);
    assert.equal(download.suggestedFilename(), file);
  }
  await tab("Bottom-up");
  await view.getByRole("button", { name: "Copy as Markdown" }).click();
  await view.getByText(/\d+ rows copied/).waitFor();
  assert.match(await page.evaluate(() => window.copied), /^\| Level \| Name \|.*CPU time, self \|\n\| --- \|[^]*\| 0 \| hot_loop \| program \| \/src\/hot\.c \|.* ms \([\d.]+ to [\d.]+ ms\) \|/);
});
step("the timeline zooms by wheel and keys", async () => {
  await tab("Timeline");
  const whole = view.getByRole("button", { name: "Whole run" });
  assert.equal(await whole.count(), 0);
  const box = await view.locator(".lanes svg.rest").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 60);
  // Without Ctrl the wheel scrolls the page.
  await page.mouse.wheel(0, -300);
  assert.equal(await whole.count(), 0);
  await page.keyboard.down("Control");
  await page.mouse.wheel(0, -300);
  await page.keyboard.up("Control");
  await whole.waitFor();
  await view.locator(".lanes").focus();
  const range = () => view.locator(".bar .quiet").first().textContent();
  const before = await range();
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction((text) => document.querySelector("#view .bar .quiet").textContent !== text, before);
  await page.keyboard.press("0");
  await whole.waitFor({ state: "detached" });
});
step("drawings are saved as SVG", async () => {
  await tab("Timeline");
  const [download] = await Promise.all([page.waitForEvent("download"), view.getByRole("button", { name: "SVG" }).first().click()]);
  assert.equal(download.suggestedFilename(), "timeline.svg");
});
step("keys choose views, back goes back", async () => {
  await page.locator("body").press("1");
  await shows("Top functions");
  await page.goBack();
  await view.locator(".lanes").waitFor();
});
step("arrows go from view to view", async () => {
  await tab("Summary");
  await page.keyboard.press("ArrowRight");
  await page.locator("#tab-bottom-up[aria-selected=true]:focus").waitFor();
  await page.keyboard.press("ArrowLeft");
  await page.locator("#tab-summary[aria-selected=true]:focus").waitFor();
});
step("an address opens the same again", async () => {
  await page.goto(address + "#view=source&file=%2Fsrc%2Fhot.c&line=12");
  await page.reload();
  const chosen = view.getByRole("grid", { name: /Source of/ }).locator("[aria-selected=true]").filter({ hasText: "sum +=" });
  await chosen.waitFor();
});
step("no view is wider than a narrow window, and long names are cut and not dropped", async () => {
  await page.setViewportSize({ width: 400, height: 800 });
  for (const name of await page.getByRole("tab").allTextContents()) {
    await tab(name);
    await view.locator(":scope > *").first().waitFor();
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), name);
  }
  await tab("Bottom-up");
  const long = view.getByRole("treegrid").locator(".name :is(.link, .code)").filter({ hasText: "onerror" }).first();
  const [button, cell] = [await long.boundingBox(), await long.locator("xpath=ancestor::*[@role='gridcell']").boundingBox()];
  assert.ok(button.width > 40 && button.x + button.width <= cell.x + cell.width + 1, JSON.stringify([button, cell]));
  await page.setViewportSize({ width: 1400, height: 900 });
});
step("dark and light", async () => {
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const before = await back();
  await page.getByRole("button", { name: "Light or dark" }).click();
  const chosen = await back();
  assert.notEqual(chosen, before);
  await page.reload();
  await view.locator(":scope > *").first().waitFor();
  assert.equal(await back(), chosen, "the choice is kept");
  await page.getByRole("button", { name: "Light or dark" }).click();
});
step("nothing is asked of anybody else", async () => {
  const own = served ? new URL(address).origin : "file:";
  const foreign = asked.filter((url) => !url.startsWith(own) && !url.startsWith("data:") && !url.startsWith("blob:"));
  assert.deepEqual(foreign, []);
  if (!served) assert.equal(asked.filter((url) => !url.startsWith("file:")).filter((url) => url.startsWith("http")).length, 0);
});

if (!served) {
  step("a page that was cut off or damaged says so", async () => {
    const whole = readFileSync(fileURLToPath(address), "utf8");
    const at = whole.indexOf('"mode"');
    const behind = whole.lastIndexOf("<script>");
    const cases = [
      // In the middle of our program, of a document behind it, and of what the page says of itself.
      [whole.slice(0, behind + 1000), "Reading the result. If this stays, the page was cut off", false],
      [whole.slice(0, whole.indexOf('id="doc threads') + 200), "This page was cut off", true],
      [whole.slice(0, at) + "~" + whole.slice(at), "this page is damaged", false],
    ];
    for (const [text, says, summary] of cases) {
      const file = fileURLToPath(address) + ".broken.html";
      writeFileSync(file, text);
      await page.goto("file://" + file);
      await page.getByText(says, { exact: false }).first().waitFor({ timeout: 5000 });
      if (summary) {
        await shows("Top functions");
        await tab("Tables");
        await view.getByRole("combobox", { name: "Table" }).selectOption("threads?limit=200");
        await shows("cut off or damaged");
      }
      rmSync(file);
    }
  });
}

await run();
