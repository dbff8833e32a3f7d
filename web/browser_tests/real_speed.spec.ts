// How quick the page is with the built host: long transcripts, many asks, and a host that returns.

import type { CDPSession, Locator, Page } from "@playwright/test";
import { bestOf, report } from "./figures.ts";
import { expect, openAsk, test } from "./real_test.ts";

test.beforeEach(({ page: _page }, info) => {
  test.skip(info.project.name === "host-phone", "measured once");
  test.setTimeout(240_000);
});

const LINES = 100_000;
const LAST_LINE = "the very last line";

/** Follows the link to an agent and measures until the end of its transcript is painted. */
function timeToEnd(page: Page, name: string): Promise<number> {
  return page.evaluate(([link, last]) => new Promise<number>((resolve) => {
    const start = performance.now();
    [...document.querySelectorAll<HTMLAnchorElement>("main a")].find((row) => row.textContent === link)?.click();
    const look = () => {
      const log = document.querySelector("[role=log]");
      const row = [...(log?.querySelectorAll(".entry") ?? [])].find((entry) => entry.textContent?.includes(last ?? ""));
      const isShown = log && row && row.getBoundingClientRect().bottom <= log.getBoundingClientRect().bottom + 1;
      if (isShown) requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - start)));
      else requestAnimationFrame(look);
    };
    look();
  }), [name, LAST_LINE]);
}

/** Scrolls to the beginning of what is loaded and measures until the row that was first there has others above it. */
function timeOfOlderPage(log: Locator): Promise<number> {
  return log.evaluate((element) => new Promise<number>((resolve) => {
    const start = performance.now();
    element.scrollTo(0, 0);
    let first: string | undefined;
    const look = () => {
      const rows = [...element.querySelectorAll<HTMLElement>(".virtual-row")];
      // The heading of the turn is always the first row.
      first ??= rows.find((row) => row.dataset.index === "1")?.textContent?.slice(0, 80);
      const isAbove = rows.some((row) => row.textContent?.slice(0, 80) === first && row.dataset.index !== "1");
      if (first !== undefined && isAbove) requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - start)));
      else if (performance.now() - start > 10_000) resolve(Infinity);
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }));
}

/** A row of the snapshot is brief: the whole ask comes in a reply. */
const WHOLE_ASK_MS = 100;

/** Presses `j` and measures until the command of the next ask is painted. */
function timeToWhole(page: Page): Promise<number> {
  return page.evaluate(() => new Promise<number>((resolve) => {
    const shown = () => document.querySelector(".item-body .code-box.command")?.textContent;
    const before = shown();
    const start = performance.now();
    document.dispatchEvent(new KeyboardEvent("keydown", { key: "j" }));
    const look = () => {
      const text = shown();
      if (text !== undefined && text !== before) requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - start)));
      else requestAnimationFrame(look);
    };
    look();
  }));
}

async function heapMegabytes(session: CDPSession): Promise<number> {
  await session.send("HeapProfiler.collectGarbage");
  const { metrics } = await session.send("Performance.getMetrics");
  return (metrics.find((row) => row.name === "JSHeapUsedSize")?.value ?? Infinity) / 1e6;
}

test("the end of 100,000 lines is there at once, and the page stays small", async ({ page, host }, info) => {
  await host.spawnScript("writer", [{ updates: { count: LINES, bytes: 60 } }, { say: `${LAST_LINE}\n` }]);
  host.run("wait", "writer");
  await host.login(page);
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  await page.goto(host.url("/agents"));
  const list = page.getByRole("list", { name: "Agents" });
  await expect(list.getByRole("link")).toHaveText(["writer"]);
  const best = await bestOf(info, "end of 100,000 lines", 200, async () => {
    await page.getByRole("link", { name: "Agents", exact: false }).first().click();
    await expect(list.getByRole("link")).toHaveText(["writer"]);
    return timeToEnd(page, "writer");
  });
  const log = page.getByRole("log", { name: "Transcript" });
  const older = await bestOf(info, "older page of 100,000 lines", 100, () => timeOfOlderPage(log));
  const megabytes = await heapMegabytes(session);
  report(info, "memory with 100,000 lines, MB, limit 150", megabytes.toFixed(0));
  expect(await log.locator(".entry").count()).toBeLessThanOrEqual(300);
  expect(megabytes).toBeLessThanOrEqual(150);
  expect([best <= 200, older <= 100]).toEqual([true, true]);
});

test("a thousand asks come as a small snapshot, and the next of them is whole at once", async ({ page, host }, info) => {
  await host.askMany(Array.from({ length: 1_000 }, (_, index) => `cargo test --package member-${index}`));
  const sizes: number[] = [];
  page.on("websocket", (socket) => socket.on("framereceived", ({ payload }) => sizes.push(payload.length)));
  await host.login(page);
  await expect(page.getByText("1000 asks")).toBeVisible();
  const kilobytes = Math.max(...sizes) / 1_000;
  report(info, "brief snapshot of 1,000 asks, kB, limit 400", kilobytes.toFixed(0));
  expect(kilobytes).toBeLessThanOrEqual(400);
  expect(await page.locator(".item-row").count()).toBeLessThanOrEqual(80);
  const first = host.inbox()[0]?.id ?? "";
  await openAsk(page, host, first);
  const best = await bestOf(info, "j to the whole of the next of 1,000 asks", WHOLE_ASK_MS, () => timeToWhole(page));
  expect(best).toBeLessThanOrEqual(WHOLE_ASK_MS);
});

test.describe("a host that returns", () => {
  test.use({ killsHost: true });

  test("is noticed within a second", async ({ page, host }, info) => {
    await host.login(page);
    const best = await bestOf(info, "live again after the host returned", 1_000, async () => {
      host.kill();
      await expect(page.getByText("● live")).toBeHidden();
      const live = page.evaluate(() => new Promise<number>((resolve) => {
        const look = () => (document.body.textContent?.includes("● live") ? resolve(Date.now()) : requestAnimationFrame(look));
        look();
      }));
      host.restart();
      const returnedAt = Date.now();
      return Math.max(0, (await live) - returnedAt);
    });
    expect(best).toBeLessThanOrEqual(1_000);
  });
});
