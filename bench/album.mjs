// An album of pages: every view at three widths, in light and dark, as pictures in one HTML file that a person leafs through.
//
//   node bench/album.mjs CHROMIUM ALBUM.html NAME=PAGE.html ...      (bench/page_album.py calls it: make page-album)
//
// What not: judging. tests/ui/layout.mjs finds what a program can find; an error in the console of a page fails this too.

import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const require = createRequire(new URL("../ui/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const [executablePath, album, ...pages] = process.argv.slice(2);
const SIZES = [[1440, 900], [1024, 768], [400, 800]];
/** Of JPEG: text stays readable, and a hundred pictures stay below some ten megabytes. */
const QUALITY = 70;

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const sections = [];
const faults = [];
for (const one of pages) {
  const [, name, file] = /^([^=]+)=(.*)$/.exec(one);
  const shots = new Map();
  for (const colorScheme of ["light", "dark"]) {
    for (const [width, height] of SIZES) {
      const page = await browser.newPage({ viewport: { width, height }, colorScheme, reducedMotion: "reduce" });
      page.on("pageerror", (error) => faults.push(`${name}: ${error}`));
      page.on("console", (message) => message.type() === "error" && faults.push(`${name}: ${message.text()}`));
      await page.goto(`file://${resolve(file)}`);
      await page.locator("#view :is(.verdict, .failed)").first().waitFor();
      const tabs = await page.getByRole("tab").evaluateAll((all) => all.map((tab) => [tab.id, tab.textContent]));
      for (const [id, label] of tabs) {
        await page.locator(`#${id}`).click();
        await page.waitForFunction(() => document.querySelector("#view > *") && !document.querySelector("#view .waiting"));
        const shot = await page.screenshot({ type: "jpeg", quality: QUALITY, fullPage: true });
        shots.set(label, [...(shots.get(label) ?? []), { width, colorScheme, shot }]);
      }
      await page.close();
    }
  }
  for (const [label, all] of shots) {
    const figures = all.map(({ width, colorScheme, shot }) =>
      `<figure><figcaption>${width} px, ${colorScheme}</figcaption><img width="${width}" alt="" src="data:image/jpeg;base64,${shot.toString("base64")}"></figure>`);
    sections.push(`<section id="s${sections.length}"><h2>${name}: ${label}</h2><div>${figures.join("")}</div></section>`);
  }
}
await browser.close();
writeFileSync(album, `<!doctype html><meta charset="utf-8"><title>Fathom: album of the page</title>
<style>
  body { font: 14px system-ui; margin: 12px; background: #777; color: #fff }
  section { display: none } section:target { display: block }
  div { display: flex; gap: 12px; overflow-x: auto; align-items: flex-start } figure { margin: 0 } img { display: block }
</style>
<p>Left and right arrow: the view before, the next. <select aria-label="View"></select></p>
${sections.join("\n")}
<script>
  const all = [...document.querySelectorAll("section")], choice = document.querySelector("select");
  choice.append(...all.map((one) => new Option(one.querySelector("h2").textContent, one.id)));
  choice.onchange = () => { location.hash = choice.value; };
  const at = () => Math.max(0, all.findIndex((one) => "#" + one.id === location.hash));
  const show = (next) => { location.hash = choice.value = all[(next + all.length) % all.length].id; scrollTo(0, 0); };
  addEventListener("keydown", (event) => { const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key]; if (step) { event.preventDefault(); show(at() + step); } });
  show(at());
</script>
`);
console.log(`${album}: ${sections.length} views`);
for (const fault of new Set(faults)) console.log(`FAILED: ${fault}`);
process.exit(faults.length > 0 ? 1 : 0);
