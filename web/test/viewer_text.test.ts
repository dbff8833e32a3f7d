import assert from "node:assert/strict";
import { test } from "node:test";
import { viewersText } from "../src/viewer_text.ts";

const subject = "approval-1";

test("nobody else has it open", () => {
  assert.equal(viewersText([], subject), undefined);
  assert.equal(viewersText([{ subject: "approval-2", name: "root", door: "web" }], subject), undefined);
});

test("a screen is called by its device, or by its door and whose it is", () => {
  const viewers = [
    { subject, name: "root", device: "my phone", door: "web" },
    { subject, name: "root", door: "web" },
    { subject, name: "root", door: "socket" },
    { subject, name: "desk", door: "websocket" },
  ];
  const expected = "also open: on my phone, in another browser of root, in a terminal of root, on a screen of desk";
  assert.equal(viewersText(viewers, subject), expected);
});

test("screens of one name are counted, and names are escaped", () => {
  const viewer = { subject, name: "root", device: "a\u202eb", door: "web" };
  assert.equal(viewersText([viewer, viewer], subject), "also open: on a\\u{202e}b (2 times)");
});
