import assert from "node:assert/strict";
import { test } from "node:test";
import { contextPercent, costText, groupOf, listAgents, runningBelow, stateLook } from "../src/agent_facts.ts";
import type { Agent, Managed } from "../src/wire_types.ts";

function agent(id: string, state: Agent["state"], managed: Partial<Managed> = {}, rest: Partial<Agent> = {}): Agent {
  const whole: Managed = { archived: false, cwd: "/", last_activity: "", queued: 0, resumable: true, run: 1, turns: 0, usage: {}, ...managed };
  return { id, name: id, kind: "test", state, updated_at: "", managed: whole, ...rest };
}

test("what waits for a person counts more than what an agent does", () => {
  assert.equal(stateLook(agent("a", "running")).word, "running");
  assert.equal(stateLook(agent("a", "running", {}, { open_approvals: 1 })).word, "asks");
  assert.equal(stateLook(agent("a", "running", {}, { open_questions: 1 })).word, "question");
  assert.equal(groupOf(agent("a", "idle", {}, { open_questions: 1 })), "needs");
});

test("a tree stands in the group of its most urgent agent, children below their orchestrator", () => {
  const rows = listAgents([
    agent("idle", "idle"),
    agent("boss", "running", { role: "orchestrator" }),
    agent("child", "idle", { parent: "boss" }, { open_approvals: 1 }),
    agent("grandchild", "done", { parent: "child" }),
    agent("orphan", "done", { parent: "gone" }),
    agent("old", "stopped", { archived: true, parent: "boss" }),
  ]);
  assert.deepEqual(rows.map((row) => [row.group, row.depth, row.agent.id]), [
    ["needs", 0, "boss"],
    ["needs", 1, "child"],
    ["needs", 2, "grandchild"],
    ["idle", 0, "idle"],
    ["done", 0, "orphan"],
    ["archived", 0, "old"],
  ]);
});

test("a circle of parents ends the list and does not hang it", () => {
  const rows = [agent("a", "idle", { parent: "b" }), agent("b", "idle", { parent: "a" }), agent("c", "idle")];
  assert.deepEqual(listAgents(rows).map((row) => row.agent.id), ["c"]);
  assert.deepEqual(runningBelow(rows[0] as Agent, rows).map((row) => row.id), ["b"]);
});

test("agents below one are found at any depth, ended ones left out", () => {
  const rows = [agent("a", "running"), agent("c", "idle", { parent: "b" }), agent("b", "done", { parent: "a" }), agent("x", "idle")];
  assert.deepEqual(runningBelow(rows[0] as Agent, rows).map((row) => row.id), ["c"]);
});

test("usage is shown as the agent reports it", () => {
  assert.equal(contextPercent(agent("a", "idle", { usage: { context_used: 61, context_size: 100 } })), 61);
  assert.equal(contextPercent(agent("a", "idle")), undefined);
  assert.deepEqual([420_000, 12_420_000, 250_000_000].map(costText), ["$0.42", "$12.42", "$250"]);
});
