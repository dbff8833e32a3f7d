import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { test } from "node:test";

declare const WEB_FOLDER: string;

const dist = `${WEB_FOLDER}/dist`;
const FIRST_LOAD_MAX = 70_000;
const WORKER_MAX = 30_000;
const TERMINAL_MAX = 105_000;
const BINARY_GROWTH_MAX = 800_000;

function compressedBytes(names: string[]): number {
  return names.reduce((sum, name) => sum + statSync(`${dist}/${name}.gz`).size, 0);
}

function scriptsAndStyles(names: string[]): string[] {
  return names.filter((name) => /\.(js|css)$/.test(name));
}

test("the first load stays within its budget", () => {
  assert.ok(existsSync(dist), "build first: npm run build");
  const page = readFileSync(`${dist}/index.html`, "utf8");
  const files = [...page.matchAll(/(?:src|href)="\/([^"]+\.(?:js|css))"/g)].map((found) => found[1] ?? "");
  assert.ok(files.some((name) => name.startsWith("app-")));
  const bytes = compressedBytes(files);
  assert.ok(bytes <= FIRST_LOAD_MAX, `${bytes} bytes of JavaScript and CSS, gzipped`);
});

test("what is loaded on demand stays within its budget", () => {
  const worker = compressedBytes(readdirSync(dist).filter((name) => /^text\.worker-.*\.js$/.test(name)));
  const terminal = compressedBytes(scriptsAndStyles(readdirSync(`${dist}/term`)).map((name) => `term/${name}`));
  assert.ok(worker > 0 && worker <= WORKER_MAX, `the worker is ${worker} bytes, gzipped`);
  assert.ok(terminal > 0 && terminal <= TERMINAL_MAX, `the terminal is ${terminal} bytes, gzipped`);
});

test("what the host embeds makes its binary little larger", () => {
  // Texts are embedded in their compressed form alone: see `web_assets.rs`.
  const names = readdirSync(dist, { recursive: true, encoding: "utf8" });
  const embedded = names.filter((name) => statSync(`${dist}/${name}`).isFile() && !/\.(js|css|html|svg|webmanifest)$/.test(name));
  const bytes = embedded.reduce((sum, name) => sum + statSync(`${dist}/${name}`).size, 0);
  assert.ok(bytes > 0 && bytes <= BINARY_GROWTH_MAX, `${bytes} bytes are embedded`);
});
