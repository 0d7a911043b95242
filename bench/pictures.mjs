// Pictures of pages for the README: one view each, in light and in dark.
//
//   node bench/pictures.mjs CHROMIUM FOLDER NAME=PAGE#STATE ...      (bench/pictures.py calls it)
//
// What not: what is recorded. STATE is what stands behind the `#` in the address of a page, such as `view=timeline`.

import { createRequire } from "node:module";

const require = createRequire(new URL("../ui/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const [executablePath, folder, ...pictures] = process.argv.slice(2);

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
for (const [theme, suffix] of [["light", ""], ["dark", "-dark"]]) {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 }, colorScheme: theme, reducedMotion: "reduce" });
  for (const picture of pictures) {
    const [, name, address] = /^([^=]+)=(.*)$/.exec(picture);
    await page.goto(`file://${address}`);
    // Only what stands behind the `#` may have changed.
    await page.reload();
    await page.locator("#view :is(.grid .body .row, .lanes polygon, .verdict .sentence)").first().waitFor();
    await page.waitForFunction(() => document.querySelector("#view .waiting") === null);
    if (name === "objects") await page.locator("#view .grid .body [role=gridcell]").first().click();
    if (name === "source") await page.locator("aside .grid .body .row, .pane .grid .body .row").first().waitFor();
    await page.evaluate(() => document.fonts.ready);
    await page.screenshot({ path: `${folder}/${name}${suffix}.png` });
  }
  await page.close();
}
await browser.close();
