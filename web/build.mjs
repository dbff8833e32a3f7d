// Builds `dist/`: the page, its worker, the service worker, the terminal frame, icons, and a `.gz` beside each text file.
//
// Names carry a hash of the content, so that the host may tell browsers to keep them for good. The names of the worker
// and the frame are constants of the page's code, because Trusted Types allow only addresses that are known here.

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { iconFiles, iconSvg } from "./icons.mjs";

const root = dirname(fileURLToPath(import.meta.url));
const dist = join(root, "dist");
const source = join(root, "src");

const shared = {
  bundle: true,
  minify: true,
  write: false,
  format: "esm",
  target: ["es2022"],
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  outdir: dist,
  logLevel: "warning",
};

/** Bundles one entry and returns its text by extension. */
async function bundle(entry, options = {}) {
  const result = await build({ ...shared, entryPoints: [join(source, entry)], ...options });
  const texts = {};
  for (const file of result.outputFiles) {
    texts[file.path.endsWith(".css") ? "css" : "js"] = file.text;
  }
  return texts;
}

function hashed(stem, extension, text) {
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 12);
  return `${stem}-${hash}.${extension}`;
}

const files = new Map();

async function buildWorker() {
  if (!existsSync(join(source, "text.worker.ts"))) return "";
  // `worker` picks builds of packages that do not touch the document.
  const { js } = await bundle("text.worker.ts", { conditions: ["worker"] });
  const name = hashed("text.worker", "js", js);
  files.set(name, js);
  return `/${name}`;
}

async function buildTerminalFrame() {
  const entry = join("term", "frame.ts");
  if (!existsSync(join(source, entry))) return "";
  const { js, css } = await bundle(entry, { format: "iife" });
  const script = hashed("frame", "js", js);
  const sheet = hashed("frame", "css", css);
  files.set(`term/${script}`, js);
  files.set(`term/${sheet}`, css);
  const template = await readFile(join(source, "term", "frame.html"), "utf8");
  files.set("term/frame.html", template.replace("FRAME_JS", `/term/${script}`).replace("FRAME_CSS", `/term/${sheet}`));
  return "/term/frame.html";
}

/** The page in parts: what the first screen needs, and a part for each screen that is loaded when it is opened. */
async function buildPage(workerAddress, frameAddress) {
  const { outputFiles, metafile } = await build({
    ...shared,
    entryPoints: { app: join(source, "boot.ts") },
    splitting: true,
    metafile: true,
    absWorkingDir: root,
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    define: {
      WORKER_ADDRESS: JSON.stringify(workerAddress),
      FRAME_ADDRESS: JSON.stringify(frameAddress),
    },
  });
  for (const file of outputFiles) files.set(relative(dist, file.path), file.text);
  const names = [...outputFiles].map((file) => relative(dist, file.path));
  const script = names.find((name) => /^app-.*\.js$/.test(name));
  const sheet = names.find((name) => /^app-.*\.css$/.test(name));
  // Fetched while the frame is painted, and run after that.
  const main = Object.keys(metafile.outputs).find((path) => metafile.outputs[path].entryPoint === "src/main.tsx");
  const needed = [relative("dist", main), ...staticImports(metafile, relative("dist", main))];
  const first = needed.map((name) => `<link rel="modulepreload" href="/${name}">\n`);
  const template = await readFile(join(source, "index.html"), "utf8");
  const page = template.replace("APP_JS", `/${script}`).replace("APP_CSS", `/${sheet}`).replace("</head>", `${first.join("")}</head>`);
  files.set("index.html", page);
  return names.map((name) => `/${name}`);
}

/** The parts that a script needs before it runs, itself left out. */
function staticImports(metafile, script) {
  const found = new Set();
  const visit = (name) => {
    for (const row of metafile.outputs[`dist/${name}`]?.imports ?? []) {
      const imported = relative("dist", row.path);
      if (row.kind !== "import-statement" || found.has(imported)) continue;
      found.add(imported);
      visit(imported);
    }
  };
  visit(script);
  return [...found];
}

async function buildServiceWorker(shell) {
  const version = createHash("sha256").update([...files.keys()].sort().join("\n")).digest("hex").slice(0, 12);
  const { js } = await bundle("sw.ts", {
    format: "iife",
    define: { SHELL_FILES: JSON.stringify(["/", ...shell]), SHELL_VERSION: JSON.stringify(version) },
  });
  files.set("sw.js", js);
}

async function writeAll() {
  await rm(dist, { recursive: true, force: true });
  for (const [name, content] of files) {
    const path = join(dist, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, content);
    if (typeof content === "string") await writeFile(`${path}.gz`, gzipSync(content, { level: 9 }));
  }
}

function reportSizes() {
  for (const [name, content] of files) {
    if (typeof content !== "string") continue;
    const kilobytes = (gzipSync(content, { level: 9 }).length / 1000).toFixed(1);
    console.log(`${kilobytes.padStart(8)} kB gz  ${name}`);
  }
}

const workerAddress = await buildWorker();
const frameAddress = await buildTerminalFrame();
const shell = await buildPage(workerAddress, frameAddress);
files.set("icons/icon.svg", iconSvg());
for (const [name, bytes] of iconFiles()) files.set(`icons/${name}`, bytes);
files.set("manifest.webmanifest", await readFile(join(source, "manifest.webmanifest"), "utf8"));
await buildServiceWorker([...shell, ...(workerAddress ? [workerAddress] : []), "/icons/icon.svg", "/manifest.webmanifest"]);
await writeAll();
reportSizes();
