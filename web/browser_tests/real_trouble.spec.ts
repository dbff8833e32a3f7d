// The page against the built host in trouble: hosts that die, floods, hostile text, stray keys.

import type { Page, WebSocketRoute } from "@playwright/test";
import { readToEnd, SETTLED_MS } from "./page_test.ts";
import type { RealHost } from "./real_host.ts";
import { expect, openAsk, openAskOf, showAsk, test } from "./real_test.ts";

test.describe("a host that is killed", () => {
  test.use({ killsHost: true });

  test("comes back with the ask that is open", async ({ page, demo }) => {
    await demo.login(page);
    const id = await openAskOf(page, demo, "writer");
    demo.kill();
    await expect(page.getByText(/The host cannot be reached/).first()).toBeVisible();
    await expect(page.locator("[data-command='ask.deny']")).toHaveAttribute("aria-disabled", "true");
    demo.restart();
    await expect(page.getByText("● live")).toBeAttached({ timeout: 10_000 });
    expect(new URL(page.url()).pathname).toBe(`/ask/${id}`);
    await expect(page.locator("[data-command='ask.deny']")).not.toHaveAttribute("aria-disabled", "true");
    await page.waitForTimeout(SETTLED_MS);
    await page.locator("[data-command='ask.deny']").click();
    await expect.poll(() => demo.inbox().some((ask) => ask.id === id)).toBe(false);
  });

  test("with an answer that it took leaves it unknown, and then says what it has", async ({ page, host }) => {
    const { id } = await host.ask("cargo test");
    const answers = await withholdReplies(page, "pass on");
    await host.login(page);
    await openAsk(page, host, id);
    await page.locator("[data-command='ask.deny']").click();
    await expect.poll(() => showAsk(host, id).state).toBe("denied");
    host.kill();
    await expect(page.getByText(/it is not known whether the host took it/)).toBeVisible();
    host.restart();
    await expect(page.getByText("The host has it as “denied”.")).toBeVisible({ timeout: 10_000 });
    expect(answers.count).toBe(1);
  });

  test("with an answer that never arrived keeps the ask open and sends nothing by itself", async ({ page, host }) => {
    const { id } = await host.ask("cargo test");
    const answers = await withholdReplies(page, "lose");
    await host.login(page);
    await openAsk(page, host, id);
    await page.locator("[data-command='ask.deny']").click();
    await expect.poll(() => answers.count).toBe(1);
    host.kill();
    await expect(page.getByText(/it is not known whether the host took it/)).toBeVisible();
    host.restart();
    await expect(page.getByText("● live")).toBeAttached({ timeout: 10_000 });
    expect([answers.count, showAsk(host, id).state]).toEqual([1, "pending"]);
    // A person may answer again.
    await page.waitForTimeout(SETTLED_MS);
    await page.locator("[data-command='ask.deny']").click();
    await expect.poll(() => showAsk(host, id).state).toBe("denied");
  });

  test("leaves a page that opens without it", async ({ page, host }) => {
    await host.login(page);
    await page.waitForFunction(() => navigator.serviceWorker.ready.then((found) => found.active?.state === "activated"));
    host.kill();
    await page.goto(host.url("/"));
    await expect(page.getByText(/The host cannot be reached/).first()).toBeVisible();
  });
});

/** Keeps the replies to the first answer from the page; `lose` keeps the answer from the host as well. */
async function withholdReplies(page: Page, what: "pass on" | "lose"): Promise<{ count: number }> {
  const answers = { count: 0 };
  await page.routeWebSocket("**/rpc", (socket: WebSocketRoute) => {
    const server = socket.connectToServer();
    let isHeld = false;
    socket.onMessage((message) => {
      const isAnswer = String(message).includes("host.resolve_approval");
      if (isAnswer) answers.count++;
      const isFirst = isAnswer && answers.count === 1;
      isHeld ||= isFirst;
      if (!isFirst || what === "pass on") server.send(message);
    });
    server.onMessage((message) => {
      if (!isHeld) socket.send(message);
    });
  });
  return answers;
}

test("a thousand random keys while asks arrive allow nothing @keyboard", async ({ page, host }) => {
  test.setTimeout(180_000);
  const { id } = await host.ask("first");
  await host.ask("second");
  await host.login(page);
  await openAsk(page, host, id);
  const keys = [..."aaayyysstejkwgiGJKx=/?zu nm", "Enter", "Escape", "Tab", "ArrowDown", "PageDown"];
  let seed = 11;
  const pressed: Promise<void>[] = [];
  for (let count = 0; count < 1_000; count++) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    // Not one after the other: keys come as fast as the browser takes them.
    pressed.push(page.keyboard.press(keys[seed % keys.length] ?? "a"));
    if (count % 20 === 0) await Promise.all([...pressed.splice(0), host.ask(`ask ${count}`)]);
  }
  await Promise.all(pressed);
  const rows = await host.api<{ state: string }[]>("GET", "/approvals?status=all&limit=200");
  expect(rows.length).toBe(52);
  expect(rows.filter((row) => row.state !== "pending" && row.state !== "denied")).toEqual([]);
});

test("a thousand open asks keep few rows in the document, and all can be reached", async ({ page, host }, info) => {
  test.setTimeout(180_000);
  await host.askMany(Array.from({ length: 1_000 }, (_, index) => `echo ${index}`));
  const frames: number[] = [];
  page.on("websocket", (socket) => socket.on("framereceived", ({ payload }) => frames.push(payload.length)));
  await host.login(page);
  await expect(page.getByText("1000 asks")).toBeVisible();
  info.annotations.push({ type: "brief snapshot of 1,000 asks, bytes", description: String(Math.max(...frames)) });
  expect(await page.locator(".item-row").count()).toBeLessThanOrEqual(80);
  const list = page.getByRole("listbox", { name: "Asks and questions" });
  await list.evaluate((element) => element.scrollTo(0, element.scrollHeight));
  await expect(page.locator(".item-row").last()).toBeInViewport();
  expect(await page.locator(".item-row").count()).toBeLessThanOrEqual(80);
  await page.locator(".item-row").last().click();
  await expect(page.getByText("read to its end ✓")).toBeVisible();
  await page.waitForTimeout(SETTLED_MS);
  await page.locator("[data-command='ask.deny']").click();
  await expect(page).toHaveTitle("(999) Countersign");
});

/** What hostile agents send. The host escapes it, and the page shows what the host shows. */
const hostile = [
  "bidi \u202egnirts\u202c end",
  "zero\u200bwidth and \ufeffmark",
  `e${"\u0301".repeat(400)}`,
  "</script><img src=x onerror=alert(1)><svg onload=alert(2)>",
  "\u001b]0;title\u0007\u001b[2J\u001b[31mred",
  `ls${" ".repeat(500)}rm -rf /`,
  "<b>bold</b> &amp; javascript:alert(1) %3Cscript%3E",
  "tab\tcarriage\rreturn\u0000nul\u0085next\u2028line",
  "x".repeat(60_000),
];

async function expectShownAsHostDoes(page: Page, host: RealHost, id: string): Promise<void> {
  await page.goto(host.url(`/ask/${id}`));
  const box = page.locator(".code-box.command");
  await expect(box).toBeVisible();
  await readToEnd(page);
  const view = showAsk(host, id).view as { command: string };
  expect(await box.textContent()).toBe(view.command);
  expect(view.command).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/);
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
  expect(await page.locator("main img, main svg[onload], main script").count()).toBe(0);
}

test("hostile text is shown as the host shows it, to its last character", async ({ page, host }) => {
  test.setTimeout(180_000);
  const rows = [];
  for (const text of hostile) rows.push(await host.ask(text, { action: text.slice(0, 1_000), details: { note: text.slice(0, 1_000) } }));
  await host.login(page);
  for (const { id } of rows) await expectShownAsHostDoes(page, host, id);
  await page.goto(host.url("/"));
  await expect(page.locator(".item-row").first()).toBeVisible();
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
});

test("a line of two megabytes, equal keys and a hundred levels of JSON are shown to their end", async ({ page, host }) => {
  test.setTimeout(180_000);
  const long = await host.ask(`echo ${"y".repeat(2_000_000)}END`);
  const deep = await host.api<{ id: string }>("POST", "/approvals", {
    action: "deep", tool: "Custom", input: Array.from({ length: 98 }).reduce<object>((inner) => ({ level: inner }), { last: "DEEPEST" }),
  });
  await host.login(page);
  await page.goto(host.url(`/ask/${long.id}`));
  const box = page.locator(".code-box.command");
  await expect(box).toContainText(/END$/, { timeout: 30_000 });
  await page.locator(".item-body").evaluate((element) => element.scrollTo(0, element.scrollHeight));
  await expect(page.locator(".end-mark")).toBeInViewport();
  // A jump to the end is not reading.
  await expect(page.getByText("read to its end ✓")).toHaveCount(0);
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
  await page.goto(host.url(`/ask/${deep.id}`));
  await readToEnd(page);
  await expect(page.getByText("DEEPEST").first()).toBeAttached();
  const twice = await host.askRaw('{"action":"twice","tool":"Bash","input":{"command":"ls","command":"rm -rf /"}}');
  await page.goto(host.url(`/ask/${twice.id}`));
  await readToEnd(page);
  const shown = await page.locator(".item-body").textContent();
  expect([shown?.includes("\"ls\""), shown?.includes("\"rm -rf /\"")]).toEqual([true, true]);
  await expect(page.locator(".notice.warn, .warning").first()).toBeVisible();
});
