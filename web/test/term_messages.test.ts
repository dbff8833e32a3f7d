import assert from "node:assert/strict";
import { test } from "node:test";
import { parseFromFrame } from "../src/term/messages.ts";

test("only known messages of the frame are taken", () => {
  assert.deepEqual(parseFromFrame({ type: "ready", more: 1 }), { type: "ready" });
  assert.deepEqual(parseFromFrame({ type: "text", text: "a" }), { type: "text", text: "a" });
  assert.deepEqual(parseFromFrame({ type: "link", href: "https://x.example" }), { type: "link", href: "https://x.example" });
  const refused = [null, "ready", 1, {}, { type: "text" }, { type: "text", text: 1 }, { type: "link", href: "javascript:alert(1)" }, { type: "call" }];
  for (const data of refused) assert.equal(parseFromFrame(data), undefined);
});
