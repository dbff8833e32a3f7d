import assert from "node:assert/strict";
import { test } from "node:test";
import { backtestText, limitsText, scopeText, toolInput, usedText } from "../src/rule_texts.ts";

const now = Date.parse("2026-01-02T00:00:00Z");

test("where a rule applies is said in words", () => {
  assert.equal(scopeText({ scope: {} }), "everywhere");
  assert.equal(scopeText({ scope: { session: "agent-1", session_name: "fix" } }), "only fix, until it ends");
  assert.equal(scopeText({ scope: { project: "/home/me/app/.git", agent: "fix" } }), "agents named fix, project app");
  assert.equal(scopeText({ scope: { labels: { team: "a" } } }), "agents with team=a");
});

test("limits and use are said in words", () => {
  assert.equal(limitsText({}, now), "until removed");
  assert.equal(limitsText({ expires_at: "2026-01-14T00:00:00Z", uses: 5, uses_left: 1 }, now), "12 d left, 1 use left");
  assert.equal(limitsText({ expires_at: "2026-01-01T00:00:00Z" }, now), "expired");
  assert.equal(usedText({ fired: 0 }, now), "never used");
  assert.equal(usedText({ fired: 1, last_used: "2026-01-01T23:53:00Z" }, now), "used once, 7 m ago");
  assert.equal(usedText({ fired: 41 }, now), "used 41 times");
});

test("a back-test is one sentence", () => {
  const result = { agreed: 11, already_settled_by_rules: 0, contradicted: [], examined: 60, settled: 12, skipped_by_others: 0 };
  assert.equal(backtestText(result), "Of your last 60 decisions it would have settled 12, 0 of them against you.");
  const others = [{ examined: 0, settled: 0 }, { examined: 1, settled: 0 }, { examined: 9, settled: 0 }].map((part) => backtestText({ ...result, ...part }));
  assert.deepEqual(others, [
    "There is no past decision of yours to compare it with.", "It would not have settled your last decision.", "It would have settled none of your last 9 decisions.",
  ]);
});

test("what was typed is the input that the tool has for it", () => {
  assert.deepEqual(toolInput("Bash", "ls"), { command: "ls" });
  assert.deepEqual(toolInput("Edit", "/a"), { file_path: "/a" });
  assert.deepEqual(toolInput("WebFetch", "https://x.example"), { url: "https://x.example" });
});
