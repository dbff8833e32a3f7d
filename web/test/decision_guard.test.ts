import assert from "node:assert/strict";
import { test } from "node:test";
import { type Decision, type GuardEvent, needsSecondAct, newGuard, PROMPT_MS, SETTLE_MS, step } from "../src/decision_guard.ts";
import type { ConfirmSetting } from "../src/wire_types.ts";
import file from "./guard_cases.json";

type CaseEvent = GuardEvent & { expect?: Decision };

for (const { name, events } of file.cases) {
  test(name, () => {
    let state = newGuard(true, true);
    for (const { expect, ...event } of events as CaseEvent[]) {
      const [next, decision] = step(state, event as GuardEvent);
      state = next;
      assert.deepEqual(decision, expect ?? { type: "none" });
    }
  });
}

test("a second act is needed as the shared table says", () => {
  const found = file.second_act.map((row) => ({ ...row, needed: needsSecondAct(row.setting as ConfirmSetting, { warned: row.warned, askedByRule: row.asked_by_rule }) }));
  assert.deepEqual(found, file.second_act);
});

test("the times are those of the shared cases", () => {
  assert.deepEqual([SETTLE_MS, PROMPT_MS], [file.settle_ms, file.prompt_ms]);
});

/** A small generator with a seed, so that a failure can be repeated. */
function randomNumbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function randomEvent(random: (below: number) => number, at: number): GuardEvent {
  const place = ["key:a", "key:y", "button:allow"][random(3)] ?? "";
  const act = { at, place, repeat: random(4) === 0, trusted: random(6) > 0, modified: random(6) === 0, pressed_at: at - random(300) };
  const subject = ["a", "b"][random(2)] ?? "";
  const events: GuardEvent[] = [
    { type: "show", at, subject, version: String(random(2)), confirm: true },
    { type: "seen", at }, { type: "focus", at }, { type: "blur", at }, { type: "lost", at }, { type: "connected", at },
    { type: "ended", at }, { type: "cancel", at }, { type: "hide", at },
    { type: "allow", ...act }, { type: "confirm", ...act }, { type: "allow", ...act }, { type: "confirm", ...act },
  ];
  return events[random(events.length)] as GuardEvent;
}

test("no random sequence allows without a first act on the same read and unchanged ask", () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = randomNumbers(seed);
    let state = newGuard(true, true);
    let at = 0;
    let history: GuardEvent[] = [];
    for (let turn = 0; turn < 200; turn++) {
      at += random(400);
      const event = randomEvent(random, at);
      const before = state;
      const [next, decision] = step(state, event);
      state = next;
      // Everything since the ask was last shown anew, or something around it changed.
      const isNew = event.type === "show" && (before.subject !== event.subject || before.version !== event.version);
      if (isNew || ["hide", "ended"].includes(event.type)) history = [];
      history.push(event);
      if (decision.type !== "allow") continue;
      const first = history.findLast((other) => other.type === "allow" && !other.repeat && other.trusted && !other.modified && at - other.at >= PROMPT_MS);
      assert.ok(first && "place" in first && "place" in event, `seed ${seed}: a first act`);
      assert.ok(history.some((other) => other.type === "seen"), `seed ${seed}: read to its end`);
      assert.ok(at - state.settledFrom >= SETTLE_MS, `seed ${seed}: settled`);
    }
  }
});
