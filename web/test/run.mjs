// Bundles each `*.test.ts` beside it and runs them all with Node's own test runner.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const folder = dirname(fileURLToPath(import.meta.url));
// Inside the project, so that packages are found; removed at the end.
const out = mkdtempSync(join(folder, "..", "node_modules", ".tests-"));
const entryPoints = readdirSync(folder).filter((name) => name.endsWith(".test.ts")).map((name) => join(folder, name));
await build({
  entryPoints, outdir: out, bundle: true, platform: "node", format: "esm", packages: "external", outExtension: { ".js": ".mjs" },
  define: { WORKER_ADDRESS: '"/worker.js"', FRAME_ADDRESS: '"/frame.html"', WEB_FOLDER: JSON.stringify(join(folder, "..")) },
  jsx: "automatic", jsxImportSource: "preact",
});
const files = readdirSync(out).filter((name) => name.endsWith(".mjs")).map((name) => join(out, name));
const { status } = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" });
rmSync(out, { recursive: true, force: true });
process.exit(status ?? 1);
