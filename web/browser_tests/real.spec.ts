// The page against the built host: what is decided here happens there.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "@playwright/test";
import { PROMPTED_MS, readToEnd, SETTLED_MS } from "./page_test.ts";
import type { RealHost } from "./real_host.ts";
import { approve, choose, expect, nextAskOf, openAsk, openAskOf, showAsk, test } from "./real_test.ts";

async function secondPage(browser: Browser, host: RealHost): Promise<Page> {
  const context = await browser.newContext();
  const page = await context.newPage();
  await host.login(page);
  return page;
}

test("what is approved happens, and is gone everywhere", async ({ page, demo }) => {
  await demo.login(page);
  const id = await openAskOf(page, demo, "builder");
  await expect(page.locator(".code-box.command")).toHaveText("git log --oneline && cat src/clock.txt");
  await approve(page);
  await expect(page.getByText("builder: allowed.").first()).toBeVisible();
  expect(demo.inbox().map((ask) => ask.id)).not.toContain(id);
  const row = showAsk(demo, id);
  expect([row.state, row.door]).toEqual(["allowed", "web"]);
  expect(row.considered_ms).toBeGreaterThanOrEqual(SETTLED_MS);
  // Its next ask is the change of a file; allowed, the file is written.
  await openAsk(page, demo, await nextAskOf(demo, "builder", [id]));
  await expect(page.locator(".diff-line.added").first()).toBeVisible();
  await approve(page);
  const file = join(demo.home, "clockwork.worktrees", "builder", "src", "clock.txt");
  await expect.poll(() => existsSync(file) && readFileSync(file, "utf8")).toContain("wait for the tock");
});

test("a denial with a message reaches the asker", async ({ page, host }) => {
  const { id } = await host.ask("git push --force");
  await host.login(page);
  await openAsk(page, host, id);
  await page.locator("[data-command='ask.deny_words']").click();
  await page.getByLabel("Message").fill("not on Fridays");
  await page.getByRole("button", { name: "Deny with this message" }).click();
  await expect.poll(() => showAsk(host, id)).toMatchObject({ state: "denied", message: "not on Fridays", door: "web" });
});

test("a question is answered with text", async ({ page, host }) => {
  const { id } = await host.api<{ id: string }>("POST", "/questions", { question: "Which database?" });
  await host.login(page);
  await page.goto(host.url(`/ask/${id}`));
  await page.getByLabel("Your answer").fill("SQLite");
  await page.waitForTimeout(SETTLED_MS);
  await page.getByRole("button", { name: "Send answer" }).click();
  await expect.poll(() => host.api("GET", `/questions/${id}`)).toMatchObject({ state: "answered", answer: "SQLite" });
});

test("an edited command is what runs", async ({ page, demo }) => {
  await demo.login(page);
  const id = await openAskOf(page, demo, "builder");
  const edit = page.locator("[data-command='ask.edit']");
  // An agent that speaks ACP cannot be given another input, and the page says so instead of offering it.
  await expect(edit).toHaveCount(0);
  expect((showAsk(demo, id).view as { editable: boolean }).editable).toBe(false);
  const { id: scripted } = await demo.ask("git push --force");
  await openAsk(page, demo, scripted);
  await choose(page, "ask.edit", "Edit, then approve…");
  await page.getByLabel("Command", { exact: true }).fill("git push");
  await page.waitForTimeout(PROMPTED_MS);
  await page.getByRole("button", { name: "Allow the edited command" }).click();
  await expect.poll(() => showAsk(demo, scripted)).toMatchObject({ state: "allowed", edited_input: { command: "git push" } });
});

test("a rule that is remembered is in the list of rules", async ({ page, demo }) => {
  await demo.login(page);
  await openAskOf(page, demo, "builder");
  await page.locator("[data-command='ask.remember']").click();
  await expect(page.getByText(/would (not )?have settled|to compare it with/).first()).toBeVisible();
  await page.waitForTimeout(PROMPTED_MS);
  await page.getByRole("button", { name: /Allow and save/ }).click();
  await expect(page.getByText(/and it was remembered/).first()).toBeVisible();
  expect(demo.run("rules", "list")).toContain("Bash(git log --oneline)");
});

test("equal asks are answered together, each by itself", async ({ page, host }) => {
  const rows = await Promise.all([1, 2, 3].map(() => host.ask("cargo test")));
  await host.login(page);
  await openAsk(page, host, rows[0]?.id ?? "");
  await choose(page, "ask.alike", "Answer all like this…");
  await page.waitForTimeout(PROMPTED_MS);
  await page.getByRole("button", { name: "Allow 3, each once" }).click();
  await expect(page.getByText("✓ allowed")).toHaveCount(3);
  expect(rows.map((row) => showAsk(host, row.id).state)).toEqual(["allowed", "allowed", "allowed"]);
});

test("a long ask has to be scrolled through before it is allowed", async ({ page, host }) => {
  const { id } = await host.ask(Array.from({ length: 400 }, (_, index) => `echo line ${index}`).join("\n"));
  await host.login(page);
  await page.goto(host.url(`/ask/${id}`));
  await expect(page.locator(".code-box.command")).toBeVisible();
  await page.waitForTimeout(SETTLED_MS);
  await page.locator("[data-command='ask.allow']").click();
  await expect(page.getByText("read it to the end first")).toBeVisible();
  await readToEnd(page);
  await approve(page);
  await expect.poll(() => showAsk(host, id).state).toBe("allowed");
});

test("the loser of a race between two browsers is told who was first", async ({ page, host, browser }) => {
  const { id } = await host.ask("git push");
  // The loser has not heard of the other answer when it sends its own.
  await page.routeWebSocket("**/rpc", (socket) => {
    const server = socket.connectToServer();
    server.onMessage((message) => {
      if (!String(message).includes("approval.resolved")) socket.send(message);
    });
  });
  await host.login(page);
  const other = await secondPage(browser, host);
  await openAsk(page, host, id);
  await openAsk(other, host, id);
  await other.locator("[data-command='ask.deny']").click();
  await expect.poll(() => showAsk(host, id).state).toBe("denied");
  await approve(page);
  await expect(page.getByText(/answered “deny”, .* before you/)).toBeVisible();
  expect(showAsk(host, id).state).toBe("denied");
  await other.context().close();
});

test("an ask says on which other device it is open, until it is closed there", async ({ page, host, browser }) => {
  const [first, second] = await Promise.all([host.ask("git push"), host.ask("git pull")]);
  await host.login(page);
  const other = await secondPage(browser, host);
  await openAsk(page, host, first.id);
  await expect(page.locator(".viewers")).toHaveCount(0);
  await openAsk(other, host, first.id);
  // Each sees the other, under the name of its device.
  await expect(page.locator(".viewers")).toHaveText(/^also open: on .*(Chrome|Chromium)/);
  await expect(other.locator(".viewers")).toHaveText(/^also open: on /);
  await openAsk(other, host, second.id);
  await expect(page.locator(".viewers")).toHaveCount(0);
  await openAsk(other, host, first.id);
  await expect(page.locator(".viewers")).toHaveCount(1);
  await other.context().close();
  await expect(page.locator(".viewers")).toHaveCount(0);
});

test("what is answered elsewhere is gone here at once", async ({ page, host }) => {
  const [first, second] = await Promise.all([host.ask("cargo test"), host.ask("cargo doc")]);
  await host.login(page);
  await expect(page).toHaveTitle("(2) Countersign");
  host.run("approve", first.id);
  await expect(page).toHaveTitle("(1) Countersign");
  host.run("deny", second.id);
  await expect(page).toHaveTitle("Countersign");
});

test("a link on another site opens the page", async ({ page, host }) => {
  const { id } = await host.ask("cargo test");
  await host.login(page);
  await page.goto("data:text/html,<a id=link>link</a>");
  await page.locator("#link").evaluate((link, address) => link.setAttribute("href", address), host.url(`/ask/${id}`));
  await page.locator("#link").click();
  await expect(page.getByText("● live")).toBeAttached();
});

test("a login link that a preview fetched still works", async ({ page, host }) => {
  const link = /http\S+\/login\/\S+/.exec(host.run("open"))?.[0] ?? "";
  const preview = await fetch(link);
  expect(preview.headers.get("set-cookie")).toBe(null);
  await page.goto(link);
  await page.getByRole("button").click();
  await expect(page.getByText("● live")).toBeAttached();
});
