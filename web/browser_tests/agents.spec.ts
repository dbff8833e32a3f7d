// Agents: the list, what is done with them, and the transcript of one.

import { diff, FakeTranscript, makeManaged, serveScreens } from "./agent_host.ts";
import { makeAsk } from "./fake_host.ts";
import { expect, PROMPTED_MS, SETTLED_MS, test } from "./page_test.ts";
import type { Approval } from "../src/wire_types.ts";

test("agents stand below their orchestrator, those that need somebody first", async ({ page, host }) => {
  serveScreens(host);
  await page.goto("/agents");
  const names = page.getByRole("list", { name: "Agents" }).getByRole("link");
  await expect(names).toHaveText(["boss", "child", "fix"]);
  await page.getByRole("button", { name: /Archived · 1/ }).click();
  await expect(names).toHaveText(["boss", "child", "fix", "old"]);
});

test("a kill asks what becomes of the agents below", async ({ page, host }) => {
  serveScreens(host);
  host.handlers.set("host.kill_agent", () => ({ result: makeManaged("boss", {}, { state: "stopped" }) }));
  await page.goto("/agents");
  await page.getByRole("button", { name: "Actions for boss" }).click();
  await page.getByRole("button", { name: "Kill…" }).click();
  const kill = page.getByRole("button", { name: "Kill", exact: true });
  await expect(kill).toBeDisabled();
  await page.getByLabel("They keep running; you answer what they ask").check();
  await kill.click();
  await expect.poll(() => host.callsOf("host.kill_agent")).toEqual([{ agent_id: "agent-boss", children: "keep" }]);
  await expect(page.locator(".toasts")).toContainText("ending boss…");
});

test("a refused action stays open and says why", async ({ page, host }) => {
  serveScreens(host);
  host.handlers.set("host.rename_agent", () => ({ error: { code: -32000, message: "another agent has this name" } }));
  await page.goto("/agents");
  await page.getByRole("button", { name: "Actions for fix" }).click();
  await page.getByRole("button", { name: "Rename…" }).click();
  await page.getByLabel("New name").fill("boss");
  await page.getByRole("button", { name: "Rename", exact: true }).click();
  await expect(page.getByRole("dialog").getByRole("alert")).toHaveText("another agent has this name");
});

test("a transcript of 100,000 parts opens at its end and stays small", async ({ page, host }) => {
  const agent = serveScreens(host);
  const transcript = new FakeTranscript(host, agent.id);
  for (let index = 1; index <= 100_000; index++) transcript.add(1, { type: "tool_use", id: `t${index}`, tool: "Read", title: `file_${index}`, status: "completed" });
  await page.goto(`/agents/${agent.id}`);
  await expect(page.getByText("file_100000")).toBeVisible();
  const log = page.getByRole("log", { name: "Transcript" });
  expect(await log.locator(".entry").count()).toBeLessThan(300);
  await log.evaluate((element) => element.scrollTo(0, element.scrollHeight / 2));
  await expect(page.getByRole("button", { name: "To the end ↓" })).toBeVisible();
  const seen = await log.evaluate((element) => {
    const box = element.getBoundingClientRect();
    return document.elementFromPoint(box.left + 60, box.top + 80)?.textContent;
  });
  for (let index = 0; index < 12; index++) transcript.say(2, { type: "tool_use", id: `n${index}`, tool: "Read", title: `new_${index}` });
  await expect(page.getByRole("button", { name: "12 new ↓" })).toBeVisible();
  const stays = await log.evaluate((element) => {
    const box = element.getBoundingClientRect();
    return document.elementFromPoint(box.left + 60, box.top + 80)?.textContent;
  });
  expect(stays).toBe(seen);
  await page.getByRole("button", { name: "12 new ↓" }).click();
  await expect(page.getByText("new_11")).toBeVisible();
  transcript.say(2, { type: "assistant", text: "the very last" });
  await expect(page.getByText("the very last")).toBeInViewport();
});

test("texts of agents are never markup, formatted or not", async ({ page, host }) => {
  const agent = serveScreens(host);
  const transcript = new FakeTranscript(host, agent.id);
  const hostile = "<img src=x onerror=alert(1)> **bold** [site](javascript:alert(1)) \u202eabc\n\n```js\nlet a = 1;\n```\n";
  transcript.add(1, { type: "user", text: hostile }, { type: "assistant", text: hostile }, { type: "notice", text: hostile });
  await page.goto(`/agents/${agent.id}`);
  await expect(page.getByText("\\u{202e}").first()).toBeVisible();
  await page.getByRole("button", { name: "Formatted" }).click();
  await expect(page.locator(".formatted strong")).toHaveText("bold");
  await expect(page.locator(".formatted .code-kwd")).toHaveText("let");
  expect(await page.locator("img, .formatted a").count()).toBe(0);
});

test("a text that keeps the parser busy stays plain, and the page stays alive", async ({ page, host }) => {
  const agent = serveScreens(host);
  const transcript = new FakeTranscript(host, agent.id);
  transcript.add(1, { type: "assistant", text: `${"- ".repeat(7_000)}end` }, { type: "notice", text: "-" }, { type: "assistant", text: "**fine**" });
  await page.goto(`/agents/${agent.id}`);
  await page.getByRole("button", { name: "Formatted" }).click();
  // The worker is ended while it is busy, and another one loads: that takes a while beside other tests.
  await expect(page.locator(".formatted strong")).toHaveText("fine", { timeout: 20_000 });
});

test("a message is sent once and said to be queued by the host alone", async ({ page, host }) => {
  const agent = serveScreens(host);
  new FakeTranscript(host, agent.id).add(1, { type: "assistant", text: "hello" });
  host.handlers.set("host.prompt_agent", () => ({ result: { ...agent, managed: { ...agent.managed, queued: 1 } } }));
  await page.goto(`/agents/${agent.id}`);
  await page.getByLabel("Message to fix").fill("and the docs");
  await page.getByRole("button", { name: "Send" }).click();
  await expect(page.locator(".toasts")).toContainText("queued: fix gets it when this turn ends");
  expect(host.callsOf("host.prompt_agent")).toEqual([{ agent_id: agent.id, message: "and the docs" }]);
  await expect(page.getByLabel("Message to fix")).toHaveValue("");
});

test("what an agent asks is answered above its composer, through the same guard", async ({ page, host }) => {
  const agent = serveScreens(host);
  new FakeTranscript(host, agent.id).add(1, { type: "assistant", text: "hello" });
  const rows = [makeAsk("cargo test", { agent_id: agent.id, agent_name: "fix" }), makeAsk("git push", { agent_id: agent.id, agent_name: "fix" })];
  host.snapshot.approvals = rows;
  await page.goto(`/agents/${agent.id}`);
  await expect(page.locator(".ask-bar")).toContainText("cargo test");
  await page.getByRole("button", { name: /Read and answer/ }).click();
  const pane = page.getByRole("region", { name: "What it asks" }).first();
  await expect(pane.getByText("read to its end ✓")).toBeVisible();
  await page.waitForTimeout(SETTLED_MS);
  await page.locator("[data-command='ask.allow']").click();
  await page.waitForTimeout(PROMPTED_MS);
  expect(host.callsOf("host.resolve_approval")).toEqual([]);
  await page.locator("[data-command='confirm.yes']").click();
  await expect(page.locator(".ask-bar")).toContainText("git push");
  expect(host.callsOf("host.resolve_approval")).toMatchObject([{ approval_id: rows[0]?.id, resolution: "approve" }]);
  await expect(page).toHaveURL(new RegExp(`/agents/${agent.id}$`));
  await page.getByRole("button", { name: /Read and answer/ }).click();
  host.resolve(rows[1] as Approval, "deny", "ana");
  await expect(page.getByText(/ana denied it/)).toBeVisible();
  await page.getByRole("button", { name: "Back", exact: true }).click();
  await expect(page.locator(".ask-bar, .ask-inline")).toHaveCount(0);
});

test("a review is sent as one message, and then only what is new is shown", async ({ page, host }) => {
  const agent = serveScreens(host);
  await page.goto(`/agents/${agent.id}/diff`);
  await page.getByText("rest.split_inclusive").click();
  await page.locator(".diff-line.chosen").getByRole("button", { name: "Comment on this line" }).click();
  await page.getByLabel("Comment", { exact: true }).fill("handle carriage returns");
  await page.getByRole("button", { name: "Add comment" }).click();
  await page.reload();
  await expect(page.getByText("handle carriage returns")).toBeVisible();
  await page.getByRole("button", { name: "Send as one message…" }).click();
  await page.getByRole("button", { name: "Send 1 comment" }).click();
  await expect.poll(() => host.callsOf("host.prompt_agent")).toEqual([
    { agent_id: agent.id, message: "Review of your changes, 1 comment.\n\nsrc/parse.rs, line 41:\n> +rest.split_inclusive('\\n')\n\nhandle carriage returns" },
  ]);
  await page.getByRole("button", { name: "Since your review (0)" }).click();
  await expect(page.getByText("Nothing changed since your review.")).toBeVisible();
});

test("a comment on code that changed says so", async ({ page, host }) => {
  const agent = serveScreens(host);
  await page.goto(`/agents/${agent.id}/diff`);
  await page.getByText("rest.split_inclusive").click();
  await page.locator(".diff-line.chosen").getByRole("button", { name: "Comment on this line" }).click();
  await page.getByLabel("Comment", { exact: true }).fill("why?");
  await page.getByRole("button", { name: "Add comment" }).click();
  const [file] = diff.files;
  const hunks = file?.hunks?.map((hunk) => ({ ...hunk, digest: "d2" }));
  host.handlers.set("host.agent_diff", () => ({ result: { ...diff, files: [{ ...file, hunks }] } }));
  await page.getByRole("button", { name: "Reload", exact: true }).click();
  await expect(page.getByText("The code changed since you wrote this comment.")).toBeVisible();
});

test("a terminal is drawn in a frame that has no origin", async ({ page, host }) => {
  const agent = serveScreens(host);
  await page.goto(`/agents/${agent.id}/terminals`);
  const frame = page.frameLocator("iframe");
  await expect(frame.locator(".xterm-rows")).toContainText("ok <b>not markup</b>");
  const child = page.frames().find((other) => other.url().includes("/term/"));
  expect(await child?.evaluate(() => origin)).toBe("null");
  await page.getByRole("button", { name: "Show as text" }).click();
  await expect(page.locator(".terminal-text")).toHaveText("ok <b>not markup</b>");
});
