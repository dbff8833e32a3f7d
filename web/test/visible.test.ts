import assert from "node:assert/strict";
import { test } from "node:test";
import { hiddenCount, visible } from "../src/visible.ts";
import table from "../src/visible_table.json";

test("each case is shown as the host shows it", () => {
  for (const { input, line, block, hidden } of table.cases) {
    const shown = { input, line: visible(input, "line"), block: visible(input, "block"), hidden: hiddenCount(input) };
    assert.deepEqual(shown, { input, line, block, hidden });
  }
});

test("a lone surrogate is escaped", () => {
  assert.equal(visible("a\ud800b", "line"), "a\\u{d800}b");
});
