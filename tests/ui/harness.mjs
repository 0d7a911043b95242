// What the click tests share: a page in Chromium that must have no error in its console, and steps that go on after one of
// them failed.
//
//   node tests/ui/SCRIPT.mjs CHROMIUM ADDRESS          (ADDRESS: http://127.0.0.1:... or file:///...)
//
// STEP=TEXT runs only the steps with that text in their names.

import { createRequire } from "node:module";

const require = createRequire(new URL("../../ui/package.json", import.meta.url));
const { chromium } = require("playwright-core");

export async function open() {
  const [executablePath, address] = process.argv.slice(2);
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  // Generous: a machine under load draws a page in seconds.
  page.setDefaultTimeout(30_000);
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
