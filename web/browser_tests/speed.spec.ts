// How quick the page is. Each figure is the best of several rounds, because other work on the machine only ever makes
// it worse; the first round that is within its limit ends the measurement.

import type { TestInfo } from "@playwright/test";
import { makeAsk } from "./fake_host.ts";
import { expect, test } from "./page_test.ts";

const ROUNDS_MAX = 12;

/** The best of some rounds, none of which is asked for once the limit is met. */
async function bestOf(info: TestInfo, what: string, limit: number, round: () => Promise<number>): Promise<number> {
  const figures: number[] = [];
  while (figures.length < ROUNDS_MAX && Math.min(...figures) > limit) figures.push(await round());
  info.annotations.push({ type: `${what}, ms`, description: figures.map((figure) => figure.toFixed(1)).join(" ") });
  return Math.min(...figures);
}

test.beforeEach(({ page: _page }, info) => {
  test.skip(info.project.name === "phone", "measured once");
  test.setTimeout(90_000);
});

test("the first paint is quick on a slow processor", async ({ page, host }, info) => {
  host.snapshot.approvals = [makeAsk("cargo test")];
  const session = await page.context().newCDPSession(page);
  await session.send("Emulation.setCPUThrottlingRate", { rate: 4 });
  await page.route("**/bare", (route) => route.fulfill({ contentType: "text/html", body: "<!doctype html><p>bare" }));
  const firstPaint = () => page.evaluate(() => new Promise<number>((resolve) => {
    new PerformanceObserver((list) => resolve(list.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Infinity)).observe({ type: "paint", buffered: true });
  }));
  // What a page without anything takes is the machine's share.
  const best = await bestOf(info, "first paint", 300, async () => {
    await page.goto("/bare");
    const bare = await firstPaint();
    await page.goto("/");
    return (await firstPaint()) - bare;
  });
  expect(best).toBeLessThanOrEqual(300);
});

test("an event is on screen within a tenth of a second", async ({ page, host }, info) => {
  await page.goto("/");
  await expect(page.getByText("● live")).toBeVisible();
  // From before the frame is sent to the paint after the row that came of it: the way through the debugger is included.
  await page.evaluate(() => {
    let sentAt = 0;
    let drawn = (_time: number) => {};
    Object.assign(globalThis, { expectRow: () => {
      sentAt = performance.now();
      return new Promise<number>((resolve) => (drawn = resolve));
    } });
    new MutationObserver(() => {
      if (sentAt > 0) requestAnimationFrame(() => drawn(performance.now() - sentAt));
    }).observe(document.body, { childList: true, subtree: true });
  });
  let count = 0;
  const best = await bestOf(info, "event to screen", 100, async () => {
    const drawn = page.evaluate(() => (globalThis as unknown as { expectRow(): Promise<number> }).expectRow());
    host.open(makeAsk(`echo ${count++}`));
    return drawn;
  });
  expect(best).toBeLessThanOrEqual(100);
});

test("among a thousand asks the next is shown without a pause", async ({ page, host }, info) => {
  host.snapshot.approvals = Array.from({ length: 1_000 }, (_, index) => makeAsk(`echo ${index}`));
  await page.goto(`/ask/${host.snapshot.approvals[0]?.id}`);
  await expect(page.getByText("1000 asks")).toBeVisible();
  const best = await bestOf(info, "j", 16, () => page.evaluate(() => new Promise<number>((resolve) => {
    const start = performance.now();
    document.dispatchEvent(new KeyboardEvent("keydown", { key: "j" }));
    // After the work that the key caused, which is drawn in a microtask.
    const channel = new MessageChannel();
    channel.port1.onmessage = () => resolve(performance.now() - start);
    queueMicrotask(() => queueMicrotask(() => channel.port2.postMessage(0)));
  })));
  expect(best).toBeLessThanOrEqual(16);
});
