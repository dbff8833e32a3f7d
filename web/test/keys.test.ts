import assert from "node:assert/strict";
import { test } from "node:test";
import { commandTable, keyText, matchKey, pressedKey } from "../src/keys.ts";
import { findCommands } from "../src/parts/palette.tsx";

const plain = { ctrlKey: false, metaKey: false, altKey: false };

test("every command has an id and a word of its own", () => {
  assert.equal(new Set(commandTable.map((row) => row.id)).size, commandTable.length);
  for (const row of commandTable) assert.ok(row.word.length > 1 && row.key.length > 0, row.id);
});

test("no two commands of one place share a key", () => {
  const seen = new Set<string>();
  for (const row of commandTable) {
    for (const key of [row.key, ...(row.others ?? [])]) {
      const place = `${row.where} ${key}`;
      assert.ok(!seen.has(place), place);
      seen.add(place);
    }
  }
});

test("what decides does not repeat while a key is held", () => {
  const repeating = commandTable.filter((row) => row.repeats && (row.where === "ask" || row.where === "confirm"));
  assert.deepEqual(repeating.map((row) => row.id), ["ask.down", "ask.up"]);
});

test("a second key completes a chord, and the question for the second act goes first", () => {
  assert.deepEqual(matchKey(commandTable, "", "g"), { prefix: "g" });
  assert.equal(matchKey(commandTable, "g", "i").row?.id, "go.inbox");
  assert.equal(matchKey(commandTable, "", "Enter").row?.id, "confirm.yes");
  assert.deepEqual(matchKey(commandTable, "", "ß"), {});
});

test("modifiers make another key", () => {
  assert.equal(pressedKey({ ...plain, key: "a" }), "a");
  assert.equal(pressedKey({ ...plain, key: "k", ctrlKey: true }), "Mod+K");
  assert.equal(pressedKey({ ...plain, key: "Enter", metaKey: true }), "Mod+Enter");
  assert.equal(pressedKey({ ...plain, key: "a", altKey: true }), undefined);
  assert.equal(pressedKey({ ...plain, key: "Shift" }), undefined);
});

test("keys are printed as people read them", () => {
  assert.deepEqual(["Mod+K", "g i", " ", "Escape"].map((key) => keyText(key, false)), ["Ctrl K", "g i", "Space", "Esc"]);
  assert.equal(keyText("Mod+K", true), "⌘K");
});

test("the palette finds commands by all their words", () => {
  assert.deepEqual(findCommands(commandTable, "go agents").map((row) => row.id), ["go.agents"]);
});
