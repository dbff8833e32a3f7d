import assert from "node:assert/strict";
import { test } from "node:test";
import { describeLate, describeMany, describeRefusal } from "../src/answers.ts";
import { approvingOption, canDeny, editableCommand, riskOf, ruleSource, whyIncomplete } from "../src/ask_facts.ts";
import { answerOf } from "../src/choices.ts";
import { numberLines } from "../src/parts/diff_view.tsx";
import { expiryOf } from "../src/parts/remember_form.tsx";
import { swipeOf } from "../src/parts/swipe.ts";
import { addSpan, coversAll } from "../src/reading.ts";
import { countdown, sandboxText, shortSpan } from "../src/text.ts";
import type { Approval, ChoiceQuestion, HostRule, VerdictPart } from "../src/wire_types.ts";

function ask(changes: Partial<Approval>): Approval {
  return { action: "ls", created_at: "", id: "a", options: ["approve", "deny"], sequence: 1, state: "pending", ...changes };
}

const view = { summary: "", edits: [], warnings: [], editable: true };

test("spans of what was seen grow together, and a gap stays", () => {
  const jumped = addSpan(addSpan([], [0, 100]), [300, 400]);
  assert.deepEqual(jumped, [[0, 100], [300, 400]]);
  assert.equal(coversAll(jumped, 400), false);
  const filled = addSpan(jumped, [90, 310]);
  assert.deepEqual(filled, [[0, 400]]);
  assert.equal(coversAll(filled, 400), true);
  assert.deepEqual(addSpan(filled, [50, 40]), filled);
});

test("an approval means `approve`, or the only option that allows", () => {
  assert.deepEqual(approvingOption(ask({ options: ["approve", "always"], approving: ["always"] })), { option: "approve" });
  assert.deepEqual(approvingOption(ask({ options: ["yes", "no"], approving: ["yes"] })), { option: "yes" });
  assert.ok("why" in approvingOption(ask({ options: ["yes", "always"], approving: ["yes", "always"] })));
  assert.ok("why" in approvingOption(ask({ options: ["no"] })));
});

test("an option called deny that allows is not sent as a denial", () => {
  assert.equal(canDeny(ask({})), true);
  assert.equal(canDeny(ask({ approving: ["deny"] })), false);
  assert.equal(canDeny(ask({ options: ["approve"] })), false);
});

test("only an ask that is shown whole counts as complete", () => {
  assert.equal(whyIncomplete(ask({ view, input: { command: "ls" } })), undefined);
  assert.equal(whyIncomplete(ask({})), undefined);
  assert.ok(whyIncomplete(ask({ input: { command: "ls" } })));
  assert.ok(whyIncomplete(ask({ details: { more: 1 } })));
  assert.ok(whyIncomplete(ask({ view, brief: true })));
});

test("what makes an ask risky is read from its row, and what is not known counts as a warning", () => {
  const part: VerdictPart = { effect: "ask", kind: "command", subject: "ls" };
  const judged = (changes: Partial<VerdictPart>) => ask({ view, verdict: { effect: "ask", parts: [{ ...part, ...changes }] } });
  const rule: HostRule = { effect: "ask", rule: "Bash(ls)", source: "rules.toml" };
  const rows = [ask({ view }), judged({}), judged({ floor: true }), judged({ rule }), ask({ view: { ...view, warnings: ["hidden"] } }), ask({})];
  assert.deepEqual(rows.map(riskOf), [
    { warned: false, askedByRule: false }, { warned: false, askedByRule: false }, { warned: false, askedByRule: true },
    { warned: false, askedByRule: true }, { warned: true, askedByRule: false }, { warned: true, askedByRule: false },
  ]);
});

test("a command is edited only where nothing of the input is lost", () => {
  const command = { ...view, command: "ls" };
  assert.deepEqual(editableCommand(ask({ view: command, input: { command: "ls", timeout: 5 } })), { command: "ls" });
  const refused = [
    { view: { ...command, editable: false }, input: { command: "ls" } },
    { view, input: { file_path: "a" } },
    { view: command, input: { command: "l\u200bs" } },
    { view: command, input: { command: "ls", id: 2 ** 60 } },
  ];
  for (const changes of refused) assert.ok("why" in editableCommand(ask(changes)));
});

test("a part names the rule that decided about it", () => {
  const part = { effect: "allow", kind: "command", subject: "ls" } as const;
  const rule = { effect: "allow", rule: "Bash(ls)", source: "/home/a/rules.toml" } as const;
  assert.equal(ruleSource(part), "no rule");
  assert.equal(ruleSource({ ...part, rule: { ...rule, line: 4 } }), "rules.toml:4");
  assert.equal(ruleSource({ ...part, rule: { ...rule, grant: "grant-0123456789" } }), "grant 01234567");
  assert.equal(ruleSource({ ...part, floor: true }), "built in; no rule can override it");
});

test("answers to choices are checked before they are sent", () => {
  const several: ChoiceQuestion = { question: "?", choices: [{ label: "a" }, { label: "b" }], free_text: false, several: true, limits: { min_choices: 2 } };
  assert.ok("problem" in answerOf(several, { chosen: ["a"], text: "" }));
  assert.deepEqual(answerOf(several, { chosen: ["a", "b"], text: "" }), { texts: ["a", "b"] });
  const number: ChoiceQuestion = { question: "?", choices: [], free_text: true, several: false, number: true, limits: { minimum: 1, whole: true } };
  for (const text of ["x", "0", "1.5", ""]) assert.ok("problem" in answerOf(number, { chosen: [], text }));
  assert.deepEqual(answerOf(number, { chosen: [], text: " 3 " }), { texts: ["3"] });
  assert.deepEqual(answerOf({ ...number, optional: true }, { chosen: [], text: "" }), { texts: [] });
});

test("the loser of a race is told who was first, when and with which answer", () => {
  const data = { resolution: "deny", resolved_by: "ana", resolved_at: "2026-11-18T03:00:00Z", message: "not on Fridays" };
  assert.equal(describeLate(data, Date.parse("2026-11-18T03:00:02Z")), "ana answered “deny”, 2 s before you: not on Fridays");
});

test("a refusal is told by its reason, or as the host said it", () => {
  const error = { kind: "refused", message: "as the host said it", reason: undefined, data: {} } as const;
  assert.equal(describeRefusal(error), "as the host said it");
  assert.equal(describeRefusal({ ...error, reason: "agent_ended" }), "The agent has ended.");
  assert.equal(describeRefusal({ ...error, reason: "not_an_option", data: { options: ["yes"] } }), "That is not one of the options: yes.");
  assert.equal(describeRefusal({ ...error, kind: "not_sent" }), "Not connected: nothing was sent.");
});

test("many results are one sentence", () => {
  const failed = { approval_id: "b", error: { code: 1, message: "the agent has ended" } };
  assert.equal(describeMany([{ approval_id: "a", approval: ask({}) }, failed], "denied"), "1 ask denied; 1 was not: the agent has ended.");
});

test("lines of a hunk are numbered on both sides", () => {
  const lines = [{ kind: "context", text: "a" }, { kind: "removed", text: "b" }, { kind: "added", text: "c" }, { kind: "context", text: "d" }] as const;
  const numbers = numberLines({ old_start: 5, new_start: 7, lines: [...lines] }).map((row) => [row.oldNumber, row.newNumber]);
  assert.deepEqual(numbers, [[5, 7], [6, undefined], [undefined, 8], [7, 9]]);
});

test("a rule for today ends at midnight", () => {
  assert.equal(expiryOf("today", new Date(2026, 10, 18, 23, 0)), 3_600_000);
  assert.equal(expiryOf("forever", new Date()), undefined);
});

test("only a clear movement across is a swipe", () => {
  const from = { x: 200, y: 200 };
  assert.deepEqual([{ x: 320, y: 210 }, { x: 80, y: 190 }, { x: 150, y: 200 }, { x: 320, y: 300 }].map((to) => swipeOf(from, to)), ["right", "left", undefined, undefined]);
});

test("spans are told in one unit", () => {
  assert.deepEqual([0, 59_999, 60_000, 3_600_000, 86_400_000].map(shortSpan), ["0 s", "59 s", "1 m", "1 h", "1 d"]);
  assert.equal(countdown(67_000), "1:07");
});

test("a sandbox says how much of it is enforced and what is outside of it", () => {
  const rows = [
    { profile: "standard", level: "full" }, { profile: "open", level: "open" }, { profile: "standard", level: "landlock", terminals: "editor" },
    { profile: "strict", level: "full", terminals: "none" },
  ];
  assert.deepEqual(rows.map(sandboxText), ["standard (full)", "none", "standard (landlock), unconfined: editor", "strict (full), no commands"]);
});
