// A walk over every screen of the page, with the demo's agents at work: for axe, and for pictures.

import type { Page } from "@playwright/test";
import { PROMPTED_MS, SETTLED_MS } from "./page_test.ts";
import type { RealHost } from "./real_host.ts";
import { choose, expect, nextAskOf, openAsk } from "./real_test.ts";

/** Brings the host to where every screen has something to show. */
async function prepare(host: RealHost): Promise<{ edit: string; restart: string; question: string; alike: string }> {
  const first = await nextAskOf(host, "builder");
  host.run("approve", first);
  const restart = await nextAskOf(host, "deployer");
  for (const name of ["api", "web"]) {
    const ask = { tool: { call: "t", title: "Run the tests", kind: "execute", input: { command: "cargo test --workspace" } }, on_allow: [], on_deny: [] };
    await host.spawnScript(name, [{ say: "I run the tests before I change anything.\n" }, { ask }]);
  }
  const alike = await nextAskOf(host, "api");
  await nextAskOf(host, "web");
  const writer = await host.agentId("writer");
  const { id: question } = await host.api<{ id: string }>("POST", "/questions", { question: "Who reads the guide first: operators or developers?", agent_id: writer });
  host.run("rules", "add", "Bash(git status:*)");
  const edit = await nextAskOf(host, "builder", [first]);
  return { edit, restart, question, alike };
}

/** Opens each screen in turn and yields its name while it is shown. */
export async function* tour(page: Page, host: RealHost): AsyncGenerator<string> {
  const { edit, restart, question, alike } = await prepare(host);
  await host.login(page);
  const open = async (path: string) => {
    await page.goto(host.url(path));
    await expect(page.getByText("● live")).toBeAttached();
    await page.waitForLoadState("networkidle");
  };
  await open("/");
  await expect(page.locator(".item-row").first()).toBeVisible();
  yield "inbox";
  await openAsk(page, host, restart);
  yield "ask";
  await page.locator("[data-command='ask.allow']").click();
  await page.waitForTimeout(PROMPTED_MS);
  yield "ask-second-act";
  await openAsk(page, host, edit);
  yield "ask-edit-of-a-file";
  await openAsk(page, host, alike);
  await page.locator("[data-command='ask.remember']").click();
  await expect(page.getByText(/would (not )?have settled|to compare it with/).first()).toBeVisible();
  yield "ask-remember";
  await openAsk(page, host, restart);
  await page.locator("[data-command='ask.deny_words']").click();
  await page.getByLabel("Message").fill("Not while the release runs; ask again after six.");
  yield "ask-deny-with-a-message";
  await openAsk(page, host, alike);
  await choose(page, "ask.alike", "Answer all like this…");
  await expect(page.getByRole("dialog")).toBeVisible();
  yield "ask-same-again";
  yield* tourQuestions(page, host, restart, question, open);
  yield* tourAgents(page, host, edit, open);
  yield* tourOthers(page, host, open);
}

type Open = (path: string) => Promise<void>;

async function* tourQuestions(page: Page, host: RealHost, restart: string, question: string, open: Open): AsyncGenerator<string> {
  await open(`/ask/${question}`);
  await expect(page.getByLabel("Your answer")).toBeVisible();
  yield "question";
  // Its next ask holds characters that turn text around.
  host.run("deny", restart);
  const hostile = await nextAskOf(host, "deployer", [restart]);
  await openAsk(page, host, hostile);
  yield "ask-hidden-characters";
}

async function* tourAgents(page: Page, host: RealHost, edit: string, open: Open): AsyncGenerator<string> {
  await open("/agents");
  await expect(page.getByRole("list", { name: "Agents" }).getByRole("link").first()).toBeVisible();
  yield "agents";
  await page.getByRole("button", { name: /Start an agent/ }).first().click();
  await expect(page.getByRole("dialog")).toBeVisible();
  yield "agents-start";
  host.run("approve", edit);
  await expect.poll(() => host.run("diff", "builder"), { timeout: 20_000 }).toContain("wait for the tock");
  const builder = await host.agentId("builder");
  await nextAskOf(host, "builder", [edit]);
  await open(`/agents/${builder}`);
  await expect(page.getByRole("button", { name: /Read and answer/ })).toBeVisible();
  yield "agent";
  await page.getByRole("button", { name: /Read and answer/ }).click();
  await expect(page.locator(".ask-inline .code-box.command")).toBeVisible();
  await page.waitForTimeout(SETTLED_MS);
  yield "agent-ask";
  await open(`/agents/${builder}/diff`);
  await page.getByText("wait for the tick").first().click();
  await page.locator(".diff-line.chosen").getByRole("button", { name: "Comment on this line" }).click();
  await page.getByLabel("Comment", { exact: true }).fill("Say what happens if no tick comes.");
  await page.getByRole("button", { name: "Add comment" }).click();
  yield "agent-changes";
  await open(`/agents/${builder}/terminals`);
  await expect(page.frameLocator("iframe").locator(".xterm-rows")).toContainText("A small clock", { timeout: 20_000 });
  yield "agent-terminals";
}

async function* tourOthers(page: Page, host: RealHost, open: Open): AsyncGenerator<string> {
  await open("/rules");
  await page.getByLabel("What it would do").fill("git status && git push");
  await expect(page.getByText("It would ask you.")).toBeVisible();
  yield "rules";
  await open("/timeline");
  await expect(page.locator(".event-row").first()).toBeVisible();
  yield "timeline";
  await open("/settings");
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  yield "settings";
  await open("/");
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog")).toBeVisible();
  yield "keys";
  await open("/");
  await page.keyboard.press("Control+k");
  await expect(page.getByRole("dialog")).toBeVisible();
  yield "commands";
  await page.goto(/http\S+\/login\/\S+/.exec(host.run("open"))?.[0] ?? "");
  await expect(page.getByRole("button")).toBeVisible();
  yield "login";
}
