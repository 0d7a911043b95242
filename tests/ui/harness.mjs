// What the click tests share: a page in Chromium that must have no error in its console, and steps that go on after one of
// them failed.
//
//   node tests/ui/SCRIPT.mjs CHROMIUM ADDRESS          (ADDRESS: http://127.0.0.1:... or file:///...)
//
// STEP=TEXT runs only the steps with that text in their names.

import { createRequire } from "node:module";
import { gunzipSync } from "node:zlib";

const require = createRequire(new URL("../../ui/package.json", import.meta.url));
const { chromium } = require("playwright-core");

/** The text of a page whose document of this question is changed; packed before or not, it is not afterwards. */
export function replaced(text, question, change) {
  const id = `doc ${question}`.replaceAll("&", "&amp;");
  const [, start, kind, body] = new RegExp(`(<script type="application/)(json|gzip)" id="${id.replace(/[?]/g, "\\?")}">([^]*?)</script>`).exec(text);
  const [from, length] = [text.indexOf(`${start}${kind}" id="${id}">`), `${start}${kind}" id="${id}">`.length + body.length];
  const changed = change(JSON.parse(kind === "gzip" ? gunzipSync(Buffer.from(body, "base64")) : body));
  return `${text.slice(0, from)}${start}json" id="${id}">${JSON.stringify(changed).replaceAll("<", "\\u003c")}${text.slice(from + length)}`;
}

/** Runs in the page before anything else: what a text of a drawing covers, however it is turned, and whether two such areas meet. */
function shapes() {
  window.quadOf = (text) => {
    const [wide, turn] = [text.getComputedTextLength(), text.getScreenCTM()];
    const x = Number(text.getAttribute("x") ?? 0) - { start: 0, middle: wide / 2, end: wide }[getComputedStyle(text).textAnchor];
    const y = Number(text.getAttribute("y") ?? 0);
    const size = Number.parseFloat(getComputedStyle(text).fontSize);
    // Letters are less high than their line.
    return [[x + 0.5, y - size * 0.77], [x + wide - 0.5, y - size * 0.77], [x + wide - 0.5, y + size * 0.2], [x + 0.5, y + size * 0.2]].map(([a, b]) => {
      const point = new DOMPoint(a, b).matrixTransform(turn);
      return [point.x, point.y];
    });
  };
  // Two convex shapes are apart where a line along a side of one has the other behind it.
  window.quadsMeet = (one, other) => ![one, other].some((of) => of.some(([x, y], at) => {
    const [nextX, nextY] = of[(at + 1) % of.length];
    const across = ([a, b]) => a * (nextY - y) - b * (nextX - x);
    const [first, second] = [one.map(across), other.map(across)];
    return Math.max(...first) <= Math.min(...second) || Math.max(...second) <= Math.min(...first);
  }));
}

export async function open() {
  const [executablePath, address] = process.argv.slice(2);
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  // Generous: a machine under load draws a page in seconds.
  page.setDefaultTimeout(30_000);
  await page.addInitScript(shapes);
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("dialog", (dialog) => faults.push("a dialog: " + dialog.message()));
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));

  const steps = [];
  const view = page.locator("#view");
  async function run() {
    let failed = 0;
    if (process.env.STEP) await page.goto(address);
    for (const [name, act] of steps.filter(([name]) => name.includes(process.env.STEP ?? ""))) {
      try {
        await act();
        console.log(`ok ${name}`);
      } catch (error) {
        failed += 1;
        console.log(`FAILED ${name}: ${String(error?.message ?? error).split("\n").slice(0, 6).join(" | ")}`);
        await page.goto(address).catch(() => {});
      }
    }
    if (faults.length > 0) console.log(`FAILED: the console has errors: ${faults.slice(0, 5).join(" | ")}`);
    await browser.close();
    process.exit(failed > 0 || faults.length > 0 ? 1 : 0);
  }
  return {
    address, page, view, asked, run,
    served: address.startsWith("http:"),
    step: (name, act) => steps.push([name, act]),
    tab: (name) => page.getByRole("tab", { name, exact: true }).click(),
    shows: async (text) => view.getByText(text, { exact: false }).first().waitFor(),
  };
}
