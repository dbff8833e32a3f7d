// Answering: what is sent, when, and what is said about it.

import type { Page } from "@playwright/test";
import { type FakeHost, makeAsk, makeQuestion, makeView } from "./fake_host.ts";
import { expect, PROMPTED_MS, SETTLED_MS, test } from "./page_test.ts";
import type { Approval } from "../src/wire_types.ts";

async function openAsk(page: Page, host: FakeHost, row: Approval): Promise<void> {
  host.snapshot.approvals = [...host.snapshot.approvals, row];
  await page.goto(`/ask/${row.id}`);
  await expect(page.getByText("read to its end ✓")).toBeVisible();
  await page.waitForTimeout(SETTLED_MS);
}

test("an approval takes two acts and says how long it was considered", async ({ page, host }) => {
  const row = makeAsk("cargo test");
  await openAsk(page, host, row);
  await page.keyboard.press("a");
  await expect(page.getByRole("group", { name: "Allow once?" })).toBeVisible();
  expect(host.callsOf("host.resolve_approval")).toEqual([]);
  await page.waitForTimeout(PROMPTED_MS);
  await page.keyboard.press("y");
  await expect(page.getByText("builder: allowed.").first()).toBeVisible();
  const [sent] = host.callsOf("host.resolve_approval");
  expect(sent).toMatchObject({ approval_id: row.id, resolution: "approve" });
  expect(sent?.considered_ms).toBeGreaterThanOrEqual(SETTLED_MS);
});

test("the second button is not where the first one was", async ({ page, host }) => {
  await openAsk(page, host, makeAsk("cargo test"));
  const approve = page.locator("[data-command='ask.allow']");
  const before = await approve.boundingBox();
  await approve.click();
  const yes = page.locator("[data-command='confirm.yes']");
  const after = await yes.boundingBox();
  if (!before || !after) throw new Error("a button is missing");
  const isApart = after.y + after.height <= before.y || after.y >= before.y + before.height || after.x >= before.x + before.width;
  expect(isApart).toBe(true);
  await page.waitForTimeout(PROMPTED_MS);
  await yes.click();
  await expect.poll(() => host.callsOf("host.resolve_approval").length).toBe(1);
});

test("a double click and a held key allow nothing", async ({ page, host }) => {
  await openAsk(page, host, makeAsk("cargo test"));
  await page.locator("[data-command='ask.allow']").dblclick({ force: true });
  await page.keyboard.down("y");
  for (let repeat = 0; repeat < 10; repeat++) await page.keyboard.down("y");
  await page.keyboard.up("y");
  expect(host.callsOf("host.resolve_approval")).toEqual([]);
});

test("a denial with a message carries it", async ({ page, host }) => {
  const row = makeAsk("git push --force");
  await openAsk(page, host, row);
  await page.locator("[data-command='ask.deny_words']").click();
  await page.getByLabel("Message").fill("not on Fridays");
  await page.getByRole("button", { name: "Deny with this message" }).click();
  await expect.poll(() => host.callsOf("host.resolve_approval").length).toBe(1);
  expect(host.callsOf("host.resolve_approval")[0]).toMatchObject({ approval_id: row.id, resolution: "deny", message: "not on Fridays" });
});

test("an edited command is sent with the rest of its input", async ({ page, host }) => {
  const row = makeAsk("git push --force", { input: { command: "git push --force", timeout: 5 } });
  await openAsk(page, host, row);
  await page.keyboard.press("e");
  await page.getByLabel("Command", { exact: true }).fill("git push");
  await page.waitForTimeout(PROMPTED_MS);
  await page.getByRole("button", { name: "Allow the edited command" }).click();
  await expect.poll(() => host.callsOf("host.resolve_approval").length).toBe(1);
  expect(host.callsOf("host.resolve_approval")[0]).toMatchObject({ resolution: "approve", edited_input: { command: "git push", timeout: 5 } });
});

test("remembering saves exactly the rules that are shown", async ({ page, host }) => {
  host.handlers.set("host.suggest_rules", () => ({ result: { candidates: [{ note: "exactly this", part: 0, rule: "Bash(git push)" }, { note: "wider", part: 0, rule: "Bash(git push:*)" }] } }));
  host.handlers.set("host.backtest_rule", () => ({ result: { agreed: 3, already_settled_by_rules: 0, contradicted: [], examined: 9, settled: 3, skipped_by_others: 0, would_settle: [] } }));
  await openAsk(page, host, makeAsk("git push"));
  await page.keyboard.press("s");
  await expect(page.getByText("Of your last 9 decisions it would have settled 3, 0 of them against you.")).toBeVisible();
  await page.getByLabel("only builder, until it ends").check();
  await page.waitForTimeout(PROMPTED_MS);
  await page.getByRole("button", { name: "Allow and save 1 rule" }).click();
  await expect.poll(() => host.callsOf("host.resolve_approval").length).toBe(1);
  expect(host.callsOf("host.resolve_approval")[0]).toMatchObject({ resolution: "approve", remember: { rules: ["Bash(git push)"], scope: "session" } });
});

test("equal asks are one row, and each is answered by itself", async ({ page, host }) => {
  const rows = ["one", "two", "three"].map((name) => makeAsk("ls", { agent_id: `agent-${name}`, agent_name: name }));
  host.snapshot.approvals = rows.slice(1);
  host.handlers.set("host.resolve_approvals", (params) => {
    const answers = params.answers as { approval_id: string }[];
    return { result: { results: answers.map(({ approval_id }, index) => (index === 1
      ? { approval_id, error: { code: -32003, message: "the agent has ended", data: { reason: "agent_ended" } } }
      : { approval_id, approval: { ...rows.find((row) => row.id === approval_id), state: "allowed" } })) } };
  });
  await openAsk(page, host, rows[0] as Approval);
  await page.keyboard.press("=");
  await page.waitForTimeout(PROMPTED_MS);
  await page.getByRole("button", { name: "Allow 3, each once" }).click();
  await expect(page.getByText("the agent has ended")).toBeVisible();
  await expect(page.getByText("✓ allowed")).toHaveCount(2);
  const [sent] = host.callsOf("host.resolve_approvals");
  expect((sent?.answers as { approval_id: string }[]).map((answer) => answer.approval_id).sort()).toEqual(rows.map((row) => row.id).sort());
});

test("a question is answered with text", async ({ page, host }) => {
  const row = makeQuestion("Which database?");
  host.snapshot.questions = [row];
  host.handlers.set("host.answer_question", () => ({ result: { ...row, state: "answered", answer: "SQLite" } }));
  await page.goto(`/ask/${row.id}`);
  await page.getByLabel("Your answer").fill("SQLite");
  await page.waitForTimeout(SETTLED_MS);
  await page.getByRole("button", { name: "Send answer" }).click();
  await expect.poll(() => host.callsOf("host.answer_question").length).toBe(1);
  expect(host.callsOf("host.answer_question")[0]).toMatchObject({ question_id: row.id, answer: "SQLite" });
});

test("the choices of an ask are sent in their order", async ({ page, host }) => {
  const questions = [
    { question: "Which?", choices: [{ label: "SQLite" }, { label: "PostgreSQL" }], free_text: true, several: false },
    { question: "Where?", choices: [{ label: "here" }, { label: "there" }], free_text: false, several: true },
  ];
  await openAsk(page, host, makeAsk("ask", { questions, tool: "AskUserQuestion", view: makeView({ summary: "Which?" }) }));
  await page.getByLabel("PostgreSQL").check();
  await page.getByLabel("here", { exact: true }).check();
  await page.getByLabel("there").check();
  await page.getByRole("button", { name: "Send answer" }).click();
  await expect.poll(() => host.callsOf("host.resolve_approval").length).toBe(1);
  expect(host.callsOf("host.resolve_approval")[0]).toMatchObject({ resolution: "approve", answers: [["PostgreSQL"], ["here", "there"]] });
});

test("somebody who was first is named, and the message stays", async ({ page, host }) => {
  const row = makeAsk("rm -r build");
  host.handlers.set("host.resolve_approval", () => ({
    error: { code: -32003, message: "already resolved", data: { reason: "already_resolved", resolution: "deny", resolved_by: "ana", resolved_at: new Date(Date.now() - 2_500).toISOString() } },
  }));
  await openAsk(page, host, row);
  await page.locator("[data-command='ask.deny_words']").click();
  await page.getByLabel("Message").fill("keep the build");
  await page.getByRole("button", { name: "Deny with this message" }).click();
  await expect(page.getByText(/ana answered “deny”, 2 s before you/)).toBeVisible();
  await expect(page.getByText("keep the build")).toBeVisible();
  expect(new URL(page.url()).pathname).toBe(`/ask/${row.id}`);
});

test("a host that dies with an answer on its way leaves it unknown and sends nothing again", async ({ page, host }) => {
  const row = makeAsk("cargo test");
  host.handlers.set("host.resolve_approval", () => "silence");
  await openAsk(page, host, row);
  await page.keyboard.press("d");
  await expect.poll(() => host.callsOf("host.resolve_approval").length).toBe(1);
  await host.kill();
  await expect(page.getByText(/it is not known whether the host took it/)).toBeVisible();
  await expect(page.getByText(/The host cannot be reached/).first()).toBeVisible();
  host.snapshot.approvals = [{ ...row, state: "denied", resolution: "deny", resolved_by: { name: "root", role: "operator" }, resolved_at: new Date().toISOString() }];
  host.restart();
  await expect(page.getByText("The host has it as “denied”.")).toBeVisible({ timeout: 10_000 });
  expect(host.callsOf("host.resolve_approval").length).toBe(1);
});

test("an ask that ends under the eye stays, without its buttons", async ({ page, host }) => {
  const row = makeAsk("cargo test");
  await openAsk(page, host, row);
  host.resolve(row, "deny", "ana");
  await expect(page.getByText(/ana denied it/)).toBeVisible();
  await expect(page.locator("[data-command='ask.allow']")).toHaveCount(0);
  expect(new URL(page.url()).pathname).toBe(`/ask/${row.id}`);
});
