// Agents of the built host on the page: what they say, what they changed, their terminals, and what is done with them.

import type { Page } from "@playwright/test";
import { readToEnd, SETTLED_MS } from "./page_test.ts";
import type { RealHost } from "./real_host.ts";
import { approve, expect, nextAskOf, openAsk, openAskOf, test } from "./real_test.ts";

async function openAgent(page: Page, host: RealHost, name: string, tab = ""): Promise<string> {
  const id = await host.agentId(name);
  await page.goto(host.url(`/agents/${id}${tab}`));
  await expect(page.getByRole("heading", { level: 1, name })).toBeVisible();
  return id;
}

/** What a script says while it runs: something of every kind that a transcript has. */
const talk = [
  { think: "First I look around." },
  { plan: [["Look", "in_progress"], ["Write", "pending"]] },
  { say: "I **look** around.\n\n```js\nlet a = 1;\n```\n" },
  { tool: { call: "t1", title: "Read a file", kind: "read", name: "Read", input: { file_path: "a.txt" }, ends: "completed", output: "one\ntwo\nthree\n" } },
  { say: "<img src=x onerror=alert(1)> \u202egnirts\n" },
];

test("a transcript shows what an agent says as it says it", async ({ page, host }) => {
  await host.spawnScript("talker", talk);
  await host.login(page);
  await openAgent(page, host, "talker");
  const log = page.getByRole("log", { name: "Transcript" });
  await expect(log.getByText("\\u{202e}gnirts").first()).toBeVisible();
  await expect(log.getByText("begin").first()).toBeVisible();
  await log.getByRole("button", { name: "▸ 3 lines" }).click();
  await expect(log.getByText("one\ntwo\nthree")).toBeVisible();
  await page.getByRole("button", { name: "Formatted" }).click();
  await expect(log.locator(".formatted strong")).toHaveText("look");
  expect(await page.locator("main img").count()).toBe(0);
});

test("a message starts a turn, and its answer appears at the end", async ({ page, host }) => {
  await host.spawnScript("talker", [{ say: "as you wish\n" }]);
  await host.login(page);
  await openAgent(page, host, "talker");
  await expect(page.getByText("as you wish").first()).toBeVisible();
  await page.getByLabel("Message to talker").fill("and now the docs");
  await page.getByRole("button", { name: "Send" }).click();
  await expect(page.getByRole("log").getByText("and now the docs").first()).toBeVisible();
  await expect(page.getByText("as you wish")).toHaveCount(2);
  await expect(page.getByText("as you wish").last()).toBeInViewport();
});

test("an ask is answered on the page of its agent", async ({ page, demo }) => {
  await demo.login(page);
  const id = await openAgent(page, demo, "builder");
  await page.getByRole("button", { name: /Read and answer/ }).click();
  await readToEnd(page);
  await page.waitForTimeout(SETTLED_MS);
  await approve(page);
  await expect(page.getByText("builder: allowed.").first()).toBeVisible();
  await expect(page).toHaveURL(new RegExp(`/agents/${id}$`));
  await expect(page.getByText(/allowed by/).first()).toBeVisible();
});

test("what an agent changed is a diff, and a review of it reaches the agent as one message", async ({ page, demo }) => {
  await demo.login(page);
  const first = await openAskOf(page, demo, "builder");
  await approve(page);
  await openAsk(page, demo, await nextAskOf(demo, "builder", [first]));
  await approve(page);
  await expect.poll(() => demo.run("diff", "builder")).toContain("wait for the tock");
  const id = await openAgent(page, demo, "builder", "/diff");
  await page.getByText("wait for the tick").first().click();
  await page.locator(".diff-line.chosen").getByRole("button", { name: "Comment on this line" }).click();
  await page.getByLabel("Comment", { exact: true }).fill("handle leap seconds");
  await page.getByRole("button", { name: "Add comment" }).click();
  await page.getByRole("button", { name: "Send as one message…" }).click();
  await page.getByRole("button", { name: "Send 1 comment" }).click();
  await expect(page.locator(".toasts")).toContainText(/builder/);
  await expect(page.getByRole("button", { name: "Since your review (0)" })).toBeVisible();
  const agent = await demo.api<{ managed: { queued: number } }>("GET", `/agents/${id}`);
  expect(agent.managed.queued + Number(demo.run("logs", "builder").includes("handle leap seconds"))).toBeGreaterThanOrEqual(1);
});

test("the terminal of an agent is drawn as it runs, in a frame without an origin", async ({ page, host }) => {
  const command = "printf '\\033[32mgreen\\033[0m <b>not markup</b>\\n'; sleep 30";
  const terminal = { command: "sh", args: ["-c", command] };
  await host.spawnScript("shell", [{ ask: { tool: { call: "t", title: "Run it", kind: "execute", input: { command } }, on_allow: [{ terminal }], on_deny: [] } }]);
  await expect.poll(() => host.inbox().length).toBe(1);
  await host.login(page);
  await openAskOf(page, host, "shell");
  await approve(page);
  await openAgent(page, host, "shell", "/terminals");
  const frame = page.frameLocator("iframe");
  await expect(frame.locator(".xterm-rows")).toContainText("green <b>not markup</b>", { timeout: 20_000 });
  const child = page.frames().find((other) => other.url().includes("/term/"));
  expect(await child?.evaluate(() => origin)).toBe("null");
});

test("the terminal of an agent that ended is read after the host was killed", async ({ page, host }) => {
  const command = "echo last words";
  const terminal = { command: "sh", args: ["-c", command] };
  await host.spawnScript("shell", [{ ask: { tool: { call: "t", title: "Run it", kind: "execute", input: { command } }, on_allow: [{ terminal }], on_deny: [] } }]);
  await expect.poll(() => host.inbox().length).toBe(1);
  host.run("approve", host.inbox()[0]?.id ?? "");
  host.run("wait", "shell");
  host.run("kill", "shell");
  host.kill();
  host.restart();
  await host.login(page);
  await openAgent(page, host, "shell", "/terminals");
  await expect(page.frameLocator("iframe").locator(".xterm-rows")).toContainText("last words", { timeout: 20_000 });
});

test("a message that waits is withdrawn into the composer, and one that the agent has is not", async ({ page, host }) => {
  const id = await host.spawnScript("sleeper", [{ say: "I wait.\n" }, { sleep_ms: 120_000 }]);
  await host.login(page);
  await openAgent(page, host, "sleeper");
  await expect(page.getByText("I wait.")).toBeVisible();
  const composer = page.getByLabel("Message to sleeper");
  const queue = page.getByRole("list", { name: "Messages that wait" });
  for (const message of ["and the docs", "stop after that"]) {
    await composer.fill(message);
    await page.getByRole("button", { name: "Send" }).click();
    await expect(queue).toContainText(message);
  }
  await expect(queue.getByRole("listitem")).toHaveCount(2);
  await composer.fill("also the tests");
  await page.getByRole("button", { name: "Withdraw message 2" }).click();
  await expect(composer).toHaveValue("and the docs\n\nalso the tests");
  await expect(queue.getByRole("listitem")).toHaveCount(1);
  await expect(queue).toContainText("stop after that");
  const waiting = await host.api<{ text: string }[]>("GET", `/agents/${id}/messages`);
  expect(waiting.map((message) => message.text)).toEqual(["stop after that"]);
  // The first message is what it works on.
  await expect(host.api("DELETE", `/agents/${id}/messages/1`)).rejects.toThrow(/409.*the agent already has it/);
  // Taken back elsewhere, it is gone here as well.
  host.run("queue", "sleeper", "--withdraw", "3");
  await expect(queue).toHaveCount(0);
});

test("an agent is renamed, interrupted, archived and restored", async ({ page, host }) => {
  const id = await host.spawnScript("sleeper", [{ say: "I wait.\n" }, { sleep_ms: 120_000 }]);
  await host.login(page);
  await openAgent(page, host, "sleeper");
  await expect(page.getByText("I wait.").first()).toBeVisible();
  const act = async (word: string) => {
    await page.locator("[data-command='agent.actions']").click();
    await page.getByRole("dialog").getByRole("button", { name: word }).click();
  };
  await act("Rename…");
  await page.getByLabel("New name").fill("dozer");
  await page.getByRole("button", { name: "Rename", exact: true }).click();
  await expect(page.getByRole("heading", { level: 1, name: "dozer" })).toBeVisible();
  await page.locator("[data-command='agent.interrupt']").first().click();
  await expect(page.locator("[data-command='agent.interrupt']")).toHaveCount(0);
  await act("Kill…");
  await page.getByRole("button", { name: "Kill", exact: true }).click();
  await expect.poll(() => host.api("GET", `/agents/${id}`)).toMatchObject({ name: "dozer", state: "stopped" });
  await act("Archive");
  await expect.poll(() => host.api("GET", `/agents/${id}`)).toMatchObject({ managed: { archived: true } });
});

test("an agent is started from the page", async ({ page, demo }) => {
  await demo.login(page);
  await page.goto(demo.url("/agents"));
  await expect(page.getByRole("list", { name: "Agents" }).getByRole("link")).toHaveCount(3);
  await page.getByRole("button", { name: /Start an agent/ }).first().click();
  const sheet = page.getByRole("dialog");
  await sheet.getByRole("combobox", { name: "Agent" }).selectOption("A command of your own (ACP)");
  await sheet.getByLabel("Command").fill(`${process.env.COUNTERSIGN_BIN} demo agent docs`);
  await sheet.getByLabel("First message").fill("Write another page.");
  await sheet.getByText("More", { exact: true }).click();
  await sheet.getByLabel("Name").fill("second-writer");
  await sheet.getByRole("button", { name: "Start", exact: true }).click();
  await expect(page.locator(".toasts")).toContainText("started second-writer");
  await expect(page.getByRole("list", { name: "Agents" }).getByRole("link")).toHaveCount(4);
  await expect.poll(() => demo.inbox().some((ask) => ask.agent_name === "second-writer"), { timeout: 30_000 }).toBe(true);
});
