// The platform of machines with known CPUs and caches: what is drawn is what they have, at every width, by mouse and keyboard.
//
//   node tests/ui/platform.mjs CHROMIUM file:///FOLDER/          (crates/web/tests/platform.rs makes the pages)

import assert from "node:assert/strict";
import { open } from "./harness.mjs";

const { address, page, step, view, run } = await open();
/** Of each page: the kinds of innermost boxes, their threads, and words that stand in the drawing. */
const EXPECTED = {
  one: [["1 × core, L1d 32 KiB"], 1, ["CPU 0", "socket, node 0: 64 GiB, L3 32 MiB"]],
  two: [["2 × core, L2 2 MiB, L1d 48 KiB"], 2, ["CPU 0", "CPU 1", "L3 256 MiB"]],
  sockets: [["72 × core, L2 1.3 MiB, L1d 48 KiB, 2 threads"], 144, ["node 0: 64 GiB", "node 1: 64 GiB", "L3 54 MiB"]],
  hybrid: [["6 × core, L2 1.3 MiB, L1d 48 KiB, 2 threads", "8 × core, L1d 32 KiB"], 20, ["L2 2 MiB", "L3 24 MiB"]],
};

for (const [name, [kinds, threads, words]] of Object.entries(EXPECTED)) {
  for (const width of [1440, 1024, 400]) {
    step(`${name}, ${width} pixels wide`, async () => {
      await page.setViewportSize({ width, height: 900 });
      await page.goto("about:blank");
      await page.goto(`${address}${name}.html#view=platform`);
      const drawing = view.getByRole("region", { name: "CPUs, caches and nodes" });
      await drawing.locator("svg").waitFor();
      assert.deepEqual((await drawing.locator(".legend span").allTextContents()).map((one) => one.trim()), kinds);
      assert.equal(await drawing.locator("svg rect.area").count(), threads);
      const drawn = (await drawing.locator("svg text").allTextContents()).join(" ").replaceAll("\u00a0", " ");
      for (const word of words) assert.ok(drawn.includes(word), `${word} in ${drawn}`);
      // What is not known has no figure, and nothing ends beyond the page.
      assert.doesNotMatch(await view.textContent(), /\b0 B\b|\b0 B\/s|NaN|undefined/);
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false);
      const wide = await view.locator("svg").evaluateAll((all) => all.flatMap((svg) => {
        const frame = svg.getBoundingClientRect();
        return [...svg.querySelectorAll("text, rect")].filter((one) => one.getBoundingClientRect().right > frame.right + 1).map((one) => one.textContent || "a box");
      }));
      assert.deepEqual(wide, []);
    });
  }
}
step("two sockets stand apart, and each has half of the threads", async () => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(`${address}sockets.html#view=platform`);
  const outer = view.locator("svg rect.outer");
  await outer.first().waitFor();
  const boxes = await outer.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().toJSON()));
  assert.equal(boxes.length, 2);
  const within = await view.locator("svg rect.area").evaluateAll((all, boxes) => boxes.map((box) => all.filter((one) => {
    const { left, right, top, bottom } = one.getBoundingClientRect();
    return left >= box.left && right <= box.right && top >= box.top && bottom <= box.bottom;
  }).length), boxes);
  assert.deepEqual(within, [72, 72]);
});
step("distances are those of firmware", async () => {
  const cells = await view.getByRole("region", { name: "Distances between nodes" }).locator("tbody td").allTextContents();
  assert.deepEqual(cells, ["0", "10", "21", "1", "21", "10"]);
});
step("memory of nodes is shown as measured, with its evidence", async () => {
  const table = view.getByRole("region", { name: "Memory of each node, as measured" });
  const cells = await table.locator("tbody tr").nth(1).locator("td").allTextContents();
  assert.deepEqual(cells.slice(0, 2), ["0", "1"]);
  assert.equal(cells[2], "142 ns 139 to 145 ns");
  assert.match(await table.locator("td.number .value").first().getAttribute("data-why"), /calibrated/);
  await page.goto(`${address}one.html#view=platform`);
  await view.locator("svg").first().waitFor();
  assert.equal(await view.getByRole("region", { name: "Memory of each node, as measured" }).count(), 0);
  await page.goto(`${address}sockets.html#view=platform`);
});
step("a pipe tells by keyboard what its figures are made of", async () => {
  const pipe = view.getByRole("img", { name: /^From DRAM: / });
  assert.match(await pipe.getAttribute("aria-label"), /on average over the run; .* read, .* written; while it runs .* that so many threads reach/);
  await pipe.focus();
  await page.locator(".why").getByText(/they reach: .*calibrated/).waitFor();
});
step("a selection does not change the figures, and the view says so", async () => {
  await page.goto("about:blank");
  await page.goto(`${address}sockets.html#view=platform&from=0.1&to=0.2`);
  await view.getByText("Figures here are of the whole run: they do not follow the time.").waitFor();
});

await run();
