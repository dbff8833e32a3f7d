import assert from "node:assert/strict";
import { test } from "node:test";
import { belongs, eventText, itemOf, matchesText, mergeEvents, showsPayload, whoOf } from "../src/timeline.ts";
import type { HostEvent } from "../src/wire_types.ts";

function event(sequence: number, kind: string, rest: Partial<HostEvent> = {}): HostEvent {
  return { id: `event-${sequence}`, sequence, kind, message: "", payload: null, timestamp: "", ...rest };
}

test("who did it is found where the event says it", () => {
  assert.equal(whoOf(event(1, "turn.interrupted", { payload: { by: { name: "root" } } })), "root");
  assert.equal(whoOf(event(1, "approval.resolved", { payload: { resolved_by: { name: "ann\u202e" } } })), "ann\\u{202e}");
  for (const payload of [null, "by", { by: "root" }, { by: null }]) assert.equal(whoOf(event(1, "x", { payload })), undefined);
});

test("events of two pages are one list, each once", () => {
  const rows = mergeEvents([event(3, "a"), event(4, "a")], [event(2, "a"), event(3, "a")]);
  assert.deepEqual(rows.map((row) => row.sequence), [2, 3, 4]);
});

test("a filter takes kinds by group, agents and words", () => {
  const row = event(1, "approval.requested", { agent_id: "a", agent_name: "fix", message: "Approval requested: ls" });
  assert.equal(belongs(row, { text: "" }), true);
  assert.equal(belongs(row, { group: "asks", agentId: "a", text: "" }), true);
  assert.equal(belongs(row, { group: "turns", text: "" }), false);
  assert.equal(belongs(row, { agentId: "b", text: "" }), false);
  assert.deepEqual(["fix LS", "approval", "rm"].map((text) => matchesText(row, text)), [true, true, false]);
});

test("the payload of an ask is never laid out here", () => {
  assert.equal(showsPayload(event(1, "approval.requested", { payload: { input: {} } })), false);
  assert.equal(showsPayload(event(1, "transcript.added", { payload: {} })), false);
  assert.equal(showsPayload(event(1, "turn.ended", { payload: { turn: 1 } })), true);
  assert.equal(itemOf(event(1, "approval.requested", { payload: { id: "approval-1" } })), "approval-1");
  assert.equal(itemOf(event(1, "turn.ended", { payload: { id: "x" } })), undefined);
});

test("an ask is told by what would run", () => {
  const payload = { view: { summary: "Bash: git push" } };
  assert.equal(eventText(event(1, "approval.requested", { agent_name: "fix", message: "Approval requested: nothing much", payload })), "fix asks: Bash: git push");
  assert.equal(eventText(event(1, "approval.requested", { message: "Approval requested: a" })), "Approval requested: a");
  assert.equal(eventText(event(1, "agent.status_changed", { message: "fix is WaitingForApproval" })), "fix is waiting for approval");
});
