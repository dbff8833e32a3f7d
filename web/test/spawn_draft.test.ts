import assert from "node:assert/strict";
import { test } from "node:test";
import { emptyDraft, spawnParams, whyNotSpawn } from "../src/spawn_draft.ts";

test("fields that were left empty are not sent", () => {
  const draft = { ...emptyDraft, agent: "claude-code", cwd: " /srv/app ", worktree: true };
  assert.deepEqual(spawnParams(draft), { agent: "claude-code", cwd: "/srv/app", worktree: {} });
});

test("a command of one's own is split into its words, tools at commas", () => {
  const draft = { ...emptyDraft, command: "my-agent --acp", cwd: "/srv", allowedTools: "Read, Bash,", worktree: false, orchestrator: true };
  assert.deepEqual(spawnParams(draft), { command: ["my-agent", "--acp"], cwd: "/srv", allowed_tools: ["Read", "Bash"], role: "orchestrator" });
});

test("what is missing is said", () => {
  assert.equal(whyNotSpawn({ ...emptyDraft, cwd: "/srv" }), "choose an agent or write a command");
  assert.equal(whyNotSpawn({ ...emptyDraft, agent: "a", cwd: "app" }), "the folder has to be an absolute path");
  assert.equal(whyNotSpawn({ ...emptyDraft, agent: "a", cwd: "/srv" }), undefined);
});
