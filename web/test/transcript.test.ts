import assert from "node:assert/strict";
import { test } from "node:test";
import { countAfter, foldParts, lineCount, shownItems, type TranscriptPart } from "../src/transcript.ts";
import { nextPageParts } from "../src/transcript_feed.ts";
import type { TranscriptEntry } from "../src/wire_types.ts";

const at = "2026-01-01T00:00:00Z";

function part(sequence: number, turn: number, ...entries: TranscriptEntry[]): TranscriptPart {
  return { sequence, turn, timestamp: at, entries };
}

test("texts that follow each other are one, and a turn has a heading with its message", () => {
  const { items } = foldParts([
    part(1, 1, { type: "user", text: "go" }),
    part(2, 1, { type: "assistant", text: "a" }, { type: "assistant", text: "b" }),
    part(3, 1, { type: "assistant", text: "c" }),
    part(4, 2, { type: "assistant", text: "d" }),
  ]);
  assert.deepEqual(items, [
    { kind: "turn", key: "turn-1-1.0", turn: 1, at, sequence: 1, message: "go", count: 2 },
    { kind: "user", key: "1.0", turn: 1, at, sequence: 1, text: "go", from: undefined },
    { kind: "assistant", key: "2.0", turn: 1, at, sequence: 3, text: "abc" },
    { kind: "turn", key: "turn-2-4.0", turn: 2, at, sequence: 4, count: 1 },
    { kind: "assistant", key: "4.0", turn: 2, at, sequence: 4, text: "d" },
  ]);
});

test("a tool call takes its updates and its result, also of a later part", () => {
  const { items } = foldParts([
    part(1, 1, { type: "tool_use", id: "x", tool: "Bash", title: "ls", status: "pending" }),
    part(2, 1, { type: "assistant", text: "wait" }),
    part(3, 1, { type: "tool_use", id: "x", status: "in_progress" }, { type: "tool_result", id: "x", status: "completed", text: "a\nb\n" }),
  ]);
  assert.deepEqual(items.slice(1, 2), [
    { kind: "tool", key: "1.0", turn: 1, at, sequence: 1, id: "x", tool: "Bash", title: "ls", status: "completed", result: "a\nb\n" },
  ]);
  assert.equal(items.length, 3);
});

test("a result whose call is on an older page is found again with it", () => {
  const late = part(9, 1, { type: "tool_result", id: "x", status: "failed", text: "no" });
  assert.deepEqual(foldParts([late]).items.slice(1), [{ kind: "tool", key: "9.0", turn: 1, at, sequence: 9, id: "x", status: "failed", result: "no" }]);
  const whole = foldParts([part(1, 1, { type: "tool_use", id: "x", tool: "Read" }), late]).items;
  assert.equal(whole.length, 2);
});

test("a folded turn shows its heading alone", () => {
  const { items } = foldParts([part(1, 1, { type: "assistant", text: "a" }), part(2, 2, { type: "assistant", text: "b" })]);
  assert.deepEqual(shownItems(items, new Set([1])).map((item) => item.kind), ["turn", "turn", "assistant"]);
});

test("what is new is counted without headings", () => {
  const { items } = foldParts([1, 2, 3].map((number) => part(number, number, { type: "notice", text: "n" })));
  assert.deepEqual([0, 1, 3].map((sequence) => countAfter(items, sequence)), [3, 2, 0]);
  assert.deepEqual(["", "a", "a\n", "a\nb"].map(lineCount), [0, 1, 1, 2]);
});

const record = [
  part(1, 1, { type: "user", text: "go" }, { type: "tool_use", id: "x", tool: "Bash", title: "ls", status: "pending" }),
  part(2, 1, { type: "notice", text: "n" }),
  part(3, 1, { type: "tool_result", id: "x", status: "completed", text: "a" }, { type: "tool_use", id: "y", tool: "Read" }),
  part(4, 2, { type: "user", text: "on" }, { type: "tool_result", id: "y", status: "failed", text: "b" }),
  part(5, 2, { type: "plan", steps: [] }),
];

test("pages that are put before what is there lead to the whole, wherever they are cut", () => {
  const whole = foldParts(record).items;
  for (let cut = 1; cut < record.length; cut++) {
    const fold = foldParts(record.slice(cut));
    fold.prepend(record.slice(0, cut));
    assert.deepEqual(fold.items, whole, `cut before part ${cut + 1}`);
    fold.add(part(6, 2, { type: "notice", text: "later" }));
    assert.deepEqual(fold.items, foldParts([...record, part(6, 2, { type: "notice", text: "later" })]).items);
  }
});

test("an older page changes no text that is shown already", () => {
  const fold = foldParts([part(2, 1, { type: "assistant", text: "b" })]);
  fold.prepend([part(1, 1, { type: "assistant", text: "a" })]);
  assert.deepEqual(fold.items.map((item) => [item.key, "text" in item ? item.text : ""]), [["turn-1-1.0", ""], ["1.0", "a"], ["2.0", "b"]]);
});

test("pages grow where parts are small and shrink where they are large", () => {
  const small = [part(1, 1, { type: "notice", text: "n" })];
  const large = [part(1, 1, { type: "assistant", text: "x".repeat(400_000) })];
  const many = [part(1, 1, ...Array.from({ length: 800 }, () => ({ type: "notice", text: "n" }) as const))];
  assert.deepEqual([nextPageParts(4, small), nextPageParts(100, small), nextPageParts(8, large), nextPageParts(8, many), nextPageParts(1, large)], [16, 200, 2, 2, 1]);
});
