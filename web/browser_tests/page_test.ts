// The test of this folder: any error in the console, any uncaught exception and any breach of the policy fails it.

import { test as base, expect, type Page } from "@playwright/test";
import { FakeHost } from "./fake_host.ts";
import { watchErrors } from "./page_errors.ts";

interface Fixtures {
  host: FakeHost;
}

export const test = base.extend<Fixtures>({
  host: async ({ page }, use) => {
    const errors = await watchErrors(page);
    const host = await FakeHost.attach(page);
    await use(host);
    expect(errors).toEqual([]);
  },
});

export { expect };

/** Longer than the guard waits after an ask appeared. */
export const SETTLED_MS = 600;
/** Longer than the guard wants between two acts. */
export const PROMPTED_MS = 300;

/** Reads a long ask to its end, a little less than a window at a time. It begins again if more of it arrives meanwhile. */
export async function readToEnd(page: Page): Promise<void> {
  const body = page.locator(".item-body");
  await expect(async () => {
    await body.evaluate(async (element) => {
      const nextFrame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      for (let top = 0; top < element.scrollHeight; top += element.clientHeight * 0.8) {
        element.scrollTo(0, top);
        await nextFrame();
        await nextFrame();
      }
    });
    await expect(page.getByText("read to its end ✓")).toBeVisible({ timeout: 1_000 });
  }).toPass({ timeout: 60_000 });
}
