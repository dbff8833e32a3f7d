import assert from "node:assert/strict";
import { existsSync, readFileSync, statSync } from "node:fs";
import { test } from "node:test";

declare const WEB_FOLDER: string;

const FIRST_LOAD_MAX = 70_000;

test("the first load stays within its budget", () => {
  const dist = `${WEB_FOLDER}/dist`;
  assert.ok(existsSync(dist), "build first: npm run build");
  const page = readFileSync(`${dist}/index.html`, "utf8");
  const files = [...page.matchAll(/(?:src|href)="(\/[^"]+\.(?:js|css))"/g)].map((found) => found[1] ?? "");
  assert.ok(files.some((name) => name.startsWith("/app-")));
  const bytes = files.reduce((sum, name) => sum + statSync(`${dist}${name}.gz`).size, 0);
  assert.ok(bytes <= FIRST_LOAD_MAX, `${bytes} bytes of JavaScript and CSS, gzipped`);
});
