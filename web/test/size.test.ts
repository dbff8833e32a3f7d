import assert from "node:assert/strict";
import { existsSync, readdirSync, statSync } from "node:fs";
import { test } from "node:test";

declare const WEB_FOLDER: string;

const FIRST_LOAD_MAX = 70_000;

test("the first load stays within its budget", () => {
  const dist = `${WEB_FOLDER}/dist`;
  assert.ok(existsSync(dist), "build first: npm run build");
  const files = readdirSync(dist).filter((name) => /^app-.*\.(js|css)\.gz$/.test(name));
  assert.equal(files.length, 2);
  const bytes = files.reduce((sum, name) => sum + statSync(`${dist}/${name}`).size, 0);
  assert.ok(bytes <= FIRST_LOAD_MAX, `${bytes} bytes of JavaScript and CSS, gzipped`);
});
