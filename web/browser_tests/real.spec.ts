// The page against the built host: what is decided here happens there, and nothing is lost when the host dies.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Browser, expect, type Page, test as base } from "@playwright/test";
import { RealHost } from "./real_host.ts";

const SETTLED_MS = 600;
const PROMPTED_MS = 300;

// The offline shell is one of the things under test here.
base.use({ serviceWorkers: "allow" });

const test = base.extend<{ host: RealHost }>({
  host: async ({}, use) => {
    const host = await RealHost.start();
    await use(host);
    await host.stop();
  },
});

/** Every error in the console and every breach of the policy of a page; a lost socket is not one. */
function watchErrors(page: Page): string[] {
  const errors: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().includes("WebSocket")) errors.push(message.text());
  });
  page.on("pageerror", (error) => errors.push(String(error)));
  return errors;
}

async function openAskOf(page: Page, host: RealHost, agent: string): Promise<string> {
  const row = host.inbox().find((ask) => ask.agent_name === agent);
  if (!row) throw new Error(`${agent} asks nothing`);
  await page.goto(`http://${host.address}/ask/${row.id}`);
  await expect(page.getByText("read to its end ✓")).toBeVisible();
  await page.waitForTimeout(SETTLED_MS);
  return row.id;
}

async function approve(page: Page): Promise<void> {
  await page.locator("[data-command='ask.allow']").click();
  await page.waitForTimeout(PROMPTED_MS);
  await page.locator("[data-command='confirm.yes']").click();
}

async function secondPage(browser: Browser, host: RealHost): Promise<Page> {
  const context = await browser.newContext();
  const page = await context.newPage();
  await host.login(page);
  return page;
}

test("what is approved happens, and is gone everywhere", async ({ page, host }) => {
  const errors = watchErrors(page);
  await host.login(page);
  const id = await openAskOf(page, host, "builder");
  await expect(page.locator(".code-box.command")).toHaveText("git log --oneline && cat src/clock.txt");
  await approve(page);
  await expect(page.getByText("builder: sent “approve”.").first()).toBeVisible();
  expect(host.inbox().map((ask) => ask.id)).not.toContain(id);
  const row = JSON.parse(host.run("show", id, "--json")) as { state: string; door: string; considered_ms: number };
  expect([row.state, row.door]).toEqual(["allowed", "web"]);
  expect(row.considered_ms).toBeGreaterThanOrEqual(SETTLED_MS);
  // Its next ask is the change of a file; allowed, the file is written.
  await expect.poll(() => host.inbox().some((ask) => ask.agent_name === "builder"), { timeout: 20_000 }).toBe(true);
  await openAskOf(page, host, "builder");
  await expect(page.locator(".diff-line.added").first()).toBeVisible();
  await approve(page);
  const file = join(host.home, "clockwork.worktrees", "builder", "src", "clock.txt");
  await expect.poll(() => existsSync(file) && readFileSync(file, "utf8")).toContain("wait for the tock");
  expect(errors).toEqual([]);
});

test("the loser of a race between two browsers is told who was first", async ({ page, host, browser }) => {
  await host.login(page);
  const other = await secondPage(browser, host);
  const id = await openAskOf(page, host, "writer");
  // The loser has not heard of the other answer when it sends its own.
  await page.routeWebSocket("**/rpc", (socket) => {
    const server = socket.connectToServer();
    server.onMessage((message) => {
      if (!String(message).includes("approval.resolved")) socket.send(message);
    });
  });
  await openAskOf(page, host, "writer");
  await openAskOf(other, host, "writer");
  await other.locator("[data-command='ask.deny']").click();
  await expect.poll(() => host.inbox().some((ask) => ask.id === id)).toBe(false);
  await approve(page);
  await expect(page.getByText(/answered “deny”, .* before you/)).toBeVisible();
  await other.context().close();
});

test("a host that is killed with an ask open comes back with it", async ({ page, host }) => {
  await host.login(page);
  const id = await openAskOf(page, host, "writer");
  host.kill();
  await expect(page.getByText(/The host cannot be reached/).first()).toBeVisible();
  await expect(page.locator("[data-command='ask.deny']")).toHaveAttribute("aria-disabled", "true");
  await host.restart();
  await expect(page.getByText("● live")).toBeVisible({ timeout: 6_000 });
  expect(new URL(page.url()).pathname).toBe(`/ask/${id}`);
  await expect(page.locator("[data-command='ask.deny']")).not.toHaveAttribute("aria-disabled", "true");
  await page.waitForTimeout(SETTLED_MS);
  await page.locator("[data-command='ask.deny']").click();
  await expect.poll(() => host.inbox().some((ask) => ask.id === id)).toBe(false);
});

test("a rule that is remembered is in the list of rules", async ({ page, host }) => {
  await host.login(page);
  await openAskOf(page, host, "builder");
  await page.keyboard.press("s");
  await expect(page.getByText(/would have answered/).first()).toBeVisible();
  await page.waitForTimeout(PROMPTED_MS);
  await page.getByRole("button", { name: /Allow and save/ }).click();
  await expect(page.getByText(/and it was remembered/).first()).toBeVisible();
  expect(host.run("rules", "list")).toContain("Bash(git log --oneline)");
});

test("a link on another site opens the page", async ({ page, host }) => {
  await host.login(page);
  const [row] = host.inbox();
  await page.goto("data:text/html,<a id=link>link</a>");
  await page.locator("#link").evaluate((link, address) => link.setAttribute("href", address), `http://${host.address}/ask/${row?.id}`);
  await page.locator("#link").click();
  await expect(page.getByText("● live")).toBeVisible();
});

test("a login link that a preview fetched still works", async ({ page, host }) => {
  const link = /http\S+\/login\/\S+/.exec(host.run("open"))?.[0] ?? "";
  const preview = await fetch(link);
  expect(preview.headers.get("set-cookie")).toBe(null);
  await page.goto(link);
  await page.getByRole("button").click();
  await expect(page.getByText("● live")).toBeVisible();
});

test("the shell opens without a host", async ({ page, host }) => {
  await host.login(page);
  await page.waitForFunction(() => navigator.serviceWorker.ready.then((found) => found.active?.state === "activated"));
  host.kill();
  await page.goto(`http://${host.address}/`);
  await expect(page.getByText(/The host cannot be reached/).first()).toBeVisible();
});
