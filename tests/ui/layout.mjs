// Every view at four widths, in light and dark: nothing stands out of what it is in, labels of axes do not touch, texts have
// the contrast that WCAG 2.2 asks for (AA, 1.4.3).
//
//   node tests/ui/layout.mjs CHROMIUM ADDRESS
//
// What not: how it looks, which a person has to say; text in the canvas of the flame graph. The narrow ones are also what is
// left of a wide screen at a zoom of 200 %.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { open } from "./harness.mjs";

const { address, page, step, run } = await open();
const axe = readFileSync(createRequire(new URL("../../ui/package.json", import.meta.url)).resolve("axe-core/axe.min.js"), "utf8");

/** What axe, with all of its rules, finds in what is shown. The page's own policy does not let the script be an element. */
async function inaccessible() {
  if (!(await page.evaluate("typeof axe === 'object'"))) await page.evaluate(axe);
  const { violations } = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })");
  return violations.flatMap(({ id, nodes }) => nodes.slice(0, 3).map(({ html }) => `axe ${id}: ${html.slice(0, 160)}`));
}

const SIZES = [[1440, 900], [1024, 700], [720, 900], [400, 800]];
/** Widths at which axe looks: each takes seconds. */
const AXE = [1440, 400];

/** Runs in the page: what is wrong with what it shows, in words. */
function wrongs() {
  const found = [];
  const name = (element) => {
    const text = (element.textContent ?? "").trim().replace(/\s+/g, " ").slice(0, 40);
    return `${element.localName}${typeof element.className === "string" && element.className ? "." + element.className : ""} “${text}”`;
  };
  const visible = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  if (document.documentElement.scrollWidth > innerWidth + 1) found.push(`the page is ${document.documentElement.scrollWidth} wide`);

  // What is wider than that in which it is must be cut with dots, or scroll.
  for (const element of document.querySelectorAll("header *, #view *")) {
    if (!visible(element) || element.closest("svg")?.contains(element) && element.localName !== "svg") continue;
    const right = element.getBoundingClientRect().right;
    for (let box = element.parentElement; box && box !== document.body; box = box.parentElement) {
      if (getComputedStyle(box).overflowX !== "visible") break;
      const edge = box.getBoundingClientRect().right;
      if (box.getBoundingClientRect().width > 0 && right > edge + 1.5 && getComputedStyle(box).display !== "inline") {
        found.push(`${name(element)} ends ${Math.round(right - edge)} pixels beyond ${name(box)}`);
        break;
      }
    }
  }

  // On a screen of this size nobody has to scroll a table sideways.
  for (const grid of document.querySelectorAll("#view .grid")) {
    if (innerWidth >= 1024 && grid.scrollWidth > grid.clientWidth + 1) found.push(`${grid.getAttribute("aria-label")} scrolls sideways`);
  }

  // Two headings that are cut may read alike, and a figure that is cut is another one.
  for (const cell of document.querySelectorAll("#view .grid :is([role=columnheader], [role=gridcell]:has(.value))")) {
    if (visible(cell) && cell.scrollWidth > cell.clientWidth + 1) found.push(`${name(cell)} is cut`);
  }

  // Labels of a drawing: of each other, and of its edge.
  for (const svg of document.querySelectorAll("#view svg")) {
    if (!visible(svg)) continue;
    const frame = svg.getBoundingClientRect();
    const labels = [...svg.querySelectorAll("text")].map((one) => [one, one.getBoundingClientRect()]).filter(([, box]) => box.width > 0);
    for (const [at, [one, box]] of labels.entries()) {
      if (box.left < frame.left - 1 || box.right > frame.right + 1) found.push(`${name(one)} ends beyond its drawing`);
      for (const [other, next] of labels.slice(at + 1)) {
        const across = Math.min(box.right, next.right) - Math.max(box.left, next.left);
        const down = Math.min(box.bottom, next.bottom) - Math.max(box.top, next.top);
        // Boxes of letters have room above and below them; those around names along a slope overlap where the names do not.
        if (across > 1 && down > 4 && window.quadsMeet(window.quadOf(one), window.quadOf(other))) found.push(`${name(one)} and ${name(other)} overlap`);
      }
    }
  }

  const parts = (colour) => {
    const [red, green, blue, alpha = 1] = (/\(([^)]*)\)/.exec(colour)?.[1] ?? "0,0,0,0").split(/[ ,/]+/).map(Number);
    return { rgb: [red, green, blue], alpha };
  };
  const over = (top, below) => ({ rgb: top.rgb.map((one, at) => one * top.alpha + below.rgb[at] * (1 - top.alpha)), alpha: 1 });
  const luminance = ({ rgb }) => {
    const [red, green, blue] = rgb.map((one) => one / 255).map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  /** The shape under a text that stands on one. What is scrolled away has none. */
  const under = (element) => {
    const { left, top, height } = element.getBoundingClientRect();
    return document.elementsFromPoint(left + 2, top + height / 2).find((one) => one instanceof SVGGeometryElement && getComputedStyle(one).fill !== "none");
  };
  const behind = (element) => {
    const shape = element.matches(".onbox") ? under(element) : undefined;
    if (shape) return over(parts(getComputedStyle(shape).fill), { rgb: [255, 255, 255], alpha: 1 });
    const layers = [];
    for (let box = element; box; box = box.parentElement) {
      const layer = parts(getComputedStyle(box).backgroundColor);
      if (layer.alpha > 0) layers.unshift(layer);
    }
    return layers.reduce((below, top) => over(top, below), { rgb: [255, 255, 255], alpha: 1 });
  };
  const told = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || !element || ["SCRIPT", "STYLE", "TITLE", "OPTION"].includes(element.tagName.toUpperCase()) || !visible(element)) continue;
    if (element.matches(".onbox") && !under(element)) continue;
    const style = getComputedStyle(element);
    const ground = behind(element);
    const ink = over(parts(element.closest("svg") ? style.fill : style.color), ground);
    const [light, dark] = [luminance(ink), luminance(ground)].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    const size = Number.parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const kind = `${element.localName}.${style.color}.${ground.rgb}`;
    if (ratio < (large ? 3 : 4.5) && !told.has(kind)) {
      told.add(kind);
      found.push(`${name(element)} has a contrast of ${ratio.toFixed(2)}`);
    }
  }
  return [...new Set(found)];
}

for (const theme of ["light", "dark"]) {
  for (const [width, height] of SIZES) {
    step(`${theme}, ${width} pixels wide`, async () => {
      await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
      await page.setViewportSize({ width, height });
      await page.goto(address);
      await page.locator(".verdict .sentence").waitFor();
      const tabs = await page.getByRole("tab").evaluateAll((all) => all.map((one) => one.id));
      const found = [];
      const shown = tabs.map((tab) => [tab]);
      if (tabs.includes("tab-compare")) shown.push(["tab-compare", "Call tree"], ["tab-compare", "Flame graph"]);
      shown.push(["tab-timeline", "Zoom in"]);
      for (const [tab, button] of shown) {
        await page.locator(`#${tab}`).click();
        if (button) await page.locator("#view").getByRole("button", { name: button }).click();
        await page.locator("#view :is(.grid, .lanes, .flame, .verdict, .plot, .empty, .failed)").first().waitFor();
        await page.waitForFunction(() => document.querySelector("#view .waiting") === null);
        const wrong = [...(await page.evaluate(wrongs)), ...(AXE.includes(width) ? await inaccessible() : [])];
        found.push(...wrong.map((one) => `${tab.slice(4)}${button ? `, ${button}` : ""}: ${one}`));
      }
      // Every table, once for each width.
      await page.locator("#tab-tables").click();
      const choice = page.locator("#view").getByRole("combobox", { name: "Table" });
      const tables = theme === "light" ? await choice.locator("option").evaluateAll((all) => all.map((one) => one.value)) : [];
      for (const table of tables) {
        await choice.selectOption(table);
        await page.waitForFunction(() => document.querySelector("#view .waiting") === null && document.querySelector("#view :is(.grid, .empty, .failed)"));
        found.push(...(await page.evaluate(wrongs)).map((one) => `${table}: ${one}`));
      }
      assert.deepEqual(found, []);
    });
  }
}
step("by keyboard alone, with a mark on what has the focus", async () => {
  await page.goto(address);
  await page.locator(".verdict .sentence").waitFor();
  const seen = new Set();
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press("Tab");
    const focus = await page.evaluate(() => {
      const element = document.activeElement;
      if (!element || element === document.body) return undefined;
      const { outlineStyle, outlineWidth } = getComputedStyle(element);
      return { name: element.id || element.textContent?.trim().slice(0, 30) || element.localName, marked: outlineStyle !== "none" && Number.parseFloat(outlineWidth) >= 1 };
    });
    if (!focus) break;
    assert.ok(focus.marked, `${focus.name} has the focus, and no mark`);
    seen.add(focus.name);
  }
  assert.ok(seen.has("tab-summary") && seen.size > 5, [...seen].join(", "));
  await page.locator("#tab-summary").focus();
  const tabs = await page.getByRole("tab").count();
  for (let at = 1; at < tabs; at++) {
    await page.keyboard.press("ArrowRight");
    assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("aria-selected")), "true");
  }
});
step("nothing moves for who wants that", async () => {
  await page.emulateMedia({ reducedMotion: "reduce" });
  const moving = await page.evaluate(() => [...document.querySelectorAll("*")].filter((one) => {
    const { transitionDuration, animationName, scrollBehavior } = getComputedStyle(one);
    return transitionDuration.split(",").some((time) => Number.parseFloat(time) > 0) || animationName !== "none" || scrollBehavior === "smooth";
  }).length);
  assert.equal(moving, 0);
});

await run();
