import assert from "node:assert/strict";
import { test } from "node:test";
import type { Block } from "../src/formatted.ts";
import { parseMarkdown } from "../src/markdown.ts";

const parse = (text: string): Block[] => parseMarkdown(text, (code) => [[code]]);

test("blocks and inline marks become plain data", () => {
  assert.deepEqual(parse("# T\n\na **b** `c`\n\n- x\n- y\n\n```sh\nls\n```\n"), [
    { type: "heading", level: 1, children: [{ type: "text", text: "T" }] },
    { type: "paragraph", children: [{ type: "text", text: "a " }, { type: "strong", children: [{ type: "text", text: "b" }] }, { type: "text", text: " " }, { type: "code", text: "c" }] },
    { type: "list", ordered: false, start: 1, items: [
      [{ type: "paragraph", children: [{ type: "text", text: "x" }] }],
      [{ type: "paragraph", children: [{ type: "text", text: "y" }] }],
    ] },
    { type: "code", language: "sh", tokens: [["ls"]] },
  ]);
});

test("HTML and pictures are shown as they were written", () => {
  assert.deepEqual(parse("<img src=x onerror=alert(1)>"), [{ type: "paragraph", children: [{ type: "text", text: "<img src=x onerror=alert(1)>" }] }]);
  assert.deepEqual(parse("![a](https://x.example/y.png)"), [{ type: "paragraph", children: [{ type: "text", text: "![a](https://x.example/y.png)" }] }]);
});

test("only addresses of the web become links", () => {
  assert.deepEqual(parse("[a](javascript:alert(1))"), [{ type: "paragraph", children: [{ type: "text", text: "[a](javascript:alert(1))" }] }]);
  assert.deepEqual(parse("[a](https://x.example)"), [
    { type: "paragraph", children: [{ type: "link", href: "https://x.example", children: [{ type: "text", text: "a" }] }] },
  ]);
});

test("deep nesting ends as text", () => {
  const depthOf = (blocks: Block[]): number => Math.max(0, ...blocks.map((row) => (row.type === "quote" ? 1 + depthOf(row.children) : 0)));
  assert.ok(depthOf(parse(`${">".repeat(100)} a`)) <= 13);
});
