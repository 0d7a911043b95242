// Builds ui/dist: one script, one style sheet, their hashes for the Content Security Policy, and a hash of the sources,
// by which a test sees without Node that the build is of these sources. Same sources, same bytes.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vite";

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

export default defineConfig({
  plugins: [hashes],
  build: {
    lib: { entry: join(root, "src/main.tsx"), name: "fathom", formats: ["iife"], fileName: () => "app.js", cssFileName: "app" },
    outDir: out,
    emptyOutDir: true,
    target: "es2022",
  },
  define: { "process.env.NODE_ENV": '"production"' },
});
