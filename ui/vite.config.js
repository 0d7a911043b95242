// Builds ui/dist: one script, one style sheet, their hashes for the Content Security Policy, the SQL engine (a script for a worker
// and its WebAssembly, packed), and a hash of the sources, by which a test sees without Node that the build is of these sources.
// Same sources, same bytes.

import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { build, defineConfig } from "vite";

const root = import.meta.dirname;
// A test builds into a folder of its own.
const out = process.env.FATHOM_UI_OUT ?? join(root, "dist");

// FNV-1a, 64 bits, over names and contents: what crates/web/tests/bundle.rs computes.
function hashOfSources() {
  const files = readdirSync(join(root, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1));
  files.push("package-lock.json", "vite.config.js", "tsconfig.json");
  let hash = 0xcbf29ce484222325n;
  const add = (bytes) => {
    for (const byte of bytes) hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & 0xffffffffffffffffn;
  };
  for (const file of files.sort()) {
    add(Buffer.from(file + "\0"));
    add(readFileSync(join(root, file)));
  }
  return hash.toString(16).padStart(16, "0");
}

const hashes = {
  name: "hashes",
  closeBundle() {
    const sha = (file) => "sha256-" + createHash("sha256").update(readFileSync(join(out, file))).digest("base64");
    writeFileSync(join(out, "hashes.txt"), `${sha("app.js")}\n${sha("app.css")}\n`);
    writeFileSync(join(out, "sources.txt"), hashOfSources() + "\n");
  },
};

// Read before the build empties the folder.
const committed = join(root, "dist/engine.txt");
const before = existsSync(committed) ? readFileSync(committed, "utf8") : "";

// As ui/src/engine/engine.ts unpacks it: four bytes say how long the script is, then the script, then the WebAssembly; gzip; base64.
const engine = {
  name: "engine",
  async closeBundle() {
    const entry = join(root, "src/engine/worker.ts");
    const [made] = await build({
      configFile: false,
      logLevel: "error",
      resolve: { conditions: ["browser"] },
      build: { lib: { entry, name: "engine", formats: ["iife"] }, write: false, target: "es2022" },
    });
    const script = Buffer.from("/* sql.js, MIT, (c) 2017 sql.js authors; SQLite, public domain */" + made.output[0].code);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(script.length);
    const wasm = readFileSync(join(root, "node_modules/sql.js/dist/sql-wasm-browser.wasm"));
    const whole = Buffer.concat([length, script, wasm]);
    // Of the same parts the same bytes: another Node may pack them otherwise.
    const same = before !== "" && gunzipSync(Buffer.from(before, "base64")).equals(whole);
    writeFileSync(join(out, "engine.txt"), same ? before : gzipSync(whole, { level: 9 }).toString("base64"));
  },
};

export default defineConfig({
  plugins: [hashes, engine],
  build: {
    lib: { entry: join(root, "src/main.tsx"), name: "fathom", formats: ["iife"], fileName: () => "app.js", cssFileName: "app" },
    outDir: out,
    emptyOutDir: true,
    target: "es2022",
  },
  define: { "process.env.NODE_ENV": '"production"' },
});
