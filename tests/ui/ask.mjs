// SQL in the page: what is asked of its tables is what the page has, in a file and served.
//
//   node tests/ui/ask.mjs CHROMIUM ADDRESS          (crates/web/tests/ask.rs makes the page)

import assert from "node:assert/strict";
import { open } from "./harness.mjs";

const { address, page, view, asked, served, step, tab, run } = await open();
const sql = view.getByLabel("SQL", { exact: true });
const answer = view.getByRole("grid", { name: "Answer" });
const cells = async () => (await answer.locator(".body [role=gridcell]").allTextContents()).map((text) => text.trim());
const heads = async () => (await answer.locator("[role=columnheader]").allTextContents()).map((text) => text.trim());

/** Types a question, runs it by keyboard, and waits for what it says. */
async function ask(text) {
  await sql.fill(text);
  await sql.press("Control+Enter");
  await view.getByText("Ctrl+Enter runs it").waitFor();
}
/** The answer of one row and one column. */
async function single(text) {
  await ask(text);
  const found = await cells();
  assert.equal(found.length, 1, `${text}: ${found}`);
  return found[0];
}
const document = (question) => page.evaluate(async (question) => {
  const element = document.getElementById(`doc ${question}`);
  if (!element) return (await fetch(`api/${question}`)).json();
  const letters = element.textContent;
  const unzipped = () => new Response(new Blob([Uint8Array.from(atob(letters), (one) => one.charCodeAt(0))]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  const packed = JSON.parse(element.type === "application/gzip" ? await unzipped() : letters);
  const rows = packed.cells ? packed.rows.map((row) => Object.fromEntries(packed.columns.map(({ key }, at) => [key, packed.cells[row[at]]]))) : packed.rows;
  return { ...packed, rows };
}, question);

step("the first question has an answer, with intervals", async () => {
  await page.goto(address);
  await page.locator(".verdict").waitFor();
  await tab("Ask");
  await answer.locator(".body [role=row]").first().waitFor();
  assert.deepEqual(await heads(), ["Function", "Module", "File", "Line", "CPU time", "Self"]);
  assert.ok(await answer.locator(".interval").count() > 0);
  assert.match((await cells())[4], / (s|ms|µs)$/);
});
step("sums are those of the documents", async () => {
  const { rows } = await document("hotspots?group=function&limit=400");
  const sum = rows.reduce((all, row) => all + (row.cpu_time.value ?? 0), 0);
  assert.ok(Math.abs(Number(await single("SELECT sum(cpu_time) AS s FROM hotspots_by_function")) - sum) <= sum * 1e-5);
  assert.equal(Number(await single("SELECT count(*) FROM hotspots_by_function")), rows.length);
  const low = rows.reduce((all, row) => all + (row.cpu_time.low ?? 0), 0);
  assert.ok(Math.abs(Number(await single("SELECT sum(cpu_time_low) AS s FROM hotspots_by_function")) - low) <= low * 1e-5);
});
step("what was computed is a plain number; what is a figure of the table has its unit", async () => {
  await ask("SELECT function, cpu_time, cpu_time * 2 AS twice FROM hotspots_by_function WHERE cpu_time > 0 LIMIT 1");
  const [, figure, twice] = await cells();
  assert.match(figure, / (s|ms|µs)$/);
  assert.match(twice, /^[\d.e+-]+$/);
  // Another figure under the name of this one has no unit.
  await ask("SELECT cpu_time * 1000 AS cpu_time FROM hotspots_by_function WHERE cpu_time > 0 LIMIT 1");
  assert.match((await cells())[0], /^[\d.e+-]+$/);
});
step("every table can be asked, and the list says what it has", async () => {
  const names = await view.getByRole("region", { name: "Tables" }).locator("summary").allTextContents();
  assert.ok(names.length > 30 && names.includes("objects") && names.includes("summary"), names.join(" "));
  await ask(names.map((name) => `SELECT '${name}' AS name, count(*) AS rows FROM ${name}`).join(" UNION ALL "));
  assert.equal((await answer.getAttribute("aria-rowcount")) - 1, names.length);
  const list = view.getByRole("region", { name: "Tables" });
  await list.locator("summary").filter({ hasText: /^objects$/ }).click();
  await list.getByRole("button", { name: "object_bytes", exact: true }).waitFor();
  await sql.fill("SELECT ");
  await list.getByRole("button", { name: "object_bytes", exact: true }).click();
  assert.equal(await sql.inputValue(), "SELECT object_bytes");
});
step("every question that is offered has an answer", async () => {
  const choice = view.getByLabel("Questions");
  const count = await choice.locator("option").count();
  assert.ok(count > 10);
  for (let at = 1; at < count; at++) {
    await choice.selectOption({ index: at });
    await view.getByText("Ctrl+Enter runs it").waitFor();
    assert.equal(await view.locator(".failed").count(), 0, await view.locator(".failed").allTextContents().then((all) => `${at}: ${all}`));
  }
});
step("a mistake is said as SQLite says it", async () => {
  await ask("SELEC 1");
  await view.getByRole("alert").getByText('No answer: near "SELEC": syntax error.').waitFor();
  await ask("SELECT * FROM nonsense");
  await view.getByRole("alert").getByText("No answer: no such table: nonsense.").waitFor();
});
step("no question changes a table", async () => {
  const before = await single("SELECT count(*) FROM objects");
  for (const change of ["DELETE FROM objects", "CREATE TABLE mine (a)", "BEGIN; DROP TABLE objects"]) {
    await ask(change);
    await view.getByRole("alert").getByText(/attempt to write a readonly database/).waitFor();
  }
  assert.equal(await single("SELECT count(*) FROM objects"), before);
});
step("a question that never ends is stopped, and the page works meanwhile", async () => {
  await sql.fill("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n");
  await sql.press("Control+Enter");
  await view.getByRole("button", { name: "Stop" }).waitFor();
  await tab("Tables");
  await view.getByRole("grid").first().waitFor();
  await tab("Ask");
  await view.getByRole("button", { name: "Stop" }).click();
  await view.getByRole("alert").getByText("No answer: stopped.").waitFor();
  assert.equal(await single("SELECT 6 * 7 AS n"), "42");
});
step("more rows than are shown are not all there is", async () => {
  await ask("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10001) SELECT i FROM n");
  await view.getByText("There are more rows: the first 10,000 are shown.").waitFor();
});
step("an answer is saved as a table", async () => {
  await ask("SELECT 1 AS a, 'x,y' AS b, 2.5 AS c");
  const [download] = await Promise.all([page.waitForEvent("download"), view.getByRole("button", { name: "CSV", exact: true }).first().click()]);
  const chunks = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  assert.equal(Buffer.concat(chunks).toString(), 'a,b,c\n1,"x,y",2.5\n');
});
step("the address keeps the question, and a link to it shows the answer", async () => {
  await ask("SELECT 'kept' AS word");
  const link = page.url();
  await page.goto("about:blank");
  await page.goto(link);
  await answer.getByText("kept", { exact: true }).waitFor();
  await view.getByLabel("Asked before").selectOption({ index: 1 });
  assert.equal(await sql.inputValue(), "SELECT 'kept' AS word");
});
step("stored facts are asked where a server is, and what is cut says so", async () => {
  if (!served) return view.getByText("This file does not carry them: fathom open has them.").waitFor();
  assert.equal(await single("SELECT count(*) FROM stored_samples"), "2");
  await view.getByText("stored_samples has the first 2 of 7 rows").waitFor();
});
step("nothing was asked of anybody else", async () => {
  const own = new URL(address);
  assert.deepEqual(asked.filter((one) => !/^(blob|data|about):/.test(one) && new URL(one).host !== own.host), []);
});

await run();
