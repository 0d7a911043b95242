// Opens a file in speedscope, as a user does, and prints what its tables show: a JSON object with `profiles` (name, total weight; empty where
// there is one) and `functions` (name, total, self) of the profile that it shows first, all as texts.
//
//   node tests/export/speedscope.mjs CHROMIUM FILE
//
// What for: the viewer's own code reads what `fathom export speedscope` and `fathom export folded` write. What not: how it draws.

import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import path from "node:path";

const require = createRequire(new URL("../../ui/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const viewer = path.join(path.dirname(require.resolve("speedscope/package.json")), "dist/release");
const [executablePath, file] = process.argv.slice(2);

const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };
const server = createServer(async (request, response) => {
  const name = path.basename(new URL(request.url, "http://127.0.0.1").pathname) || "index.html";
  const bytes = await readFile(name === "exported" ? file : path.join(viewer, name)).catch(() => null);
  response.writeHead(bytes ? 200 : 404, { "content-type": types[path.extname(name)] ?? "application/octet-stream" });
  response.end(bytes);
});
server.listen(0, "127.0.0.1");
await once(server, "listening");
const address = `http://127.0.0.1:${server.address().port}`;

// It draws by WebGL, which takes Chromium's software renderer where there is no GPU.
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--enable-unsafe-swiftshader"] });
try {
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  page.setDefaultTimeout(60_000);
  await page.goto(`${address}/index.html#profileURL=${encodeURIComponent(`${address}/exported`)}&view=sandwich`);
  // The cells of the rows below this heading; headings and rows may be tables of their own.
  const rows = (title) => [...document.querySelectorAll("th")]
    .filter((heading) => heading.textContent === title)
    .flatMap((heading) => [...heading.closest("table").parentElement.querySelectorAll("tr:has(td)")])
    .map((row) => [...row.querySelectorAll("td")].map((cell) => cell.textContent));
  await page.addScriptTag({ content: `window.rowsBelow = ${rows}` });
  await page.waitForFunction(() => window.rowsBelow("Symbol Name").length > 0);
  const below = (title) => page.evaluate((title) => window.rowsBelow(title), title);
  const profiles = (await below("Total Weight")).map(([, name, total]) => ({ name, total }));
  const functions = (await below("Symbol Name")).map(([total, self, name]) => ({ name, total, self }));
  console.log(JSON.stringify({ profiles, functions }));
} finally {
  await browser.close();
  server.close();
}
