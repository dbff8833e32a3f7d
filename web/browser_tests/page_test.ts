// The test of this folder: any error in the console, any uncaught exception and any breach of the policy fails it.

import { test as base, expect } from "@playwright/test";
import { FakeHost } from "./fake_host.ts";

interface Fixtures {
  host: FakeHost;
}

export const test = base.extend<Fixtures>({
  host: async ({ page }, use) => {
    const problems: string[] = [];
    page.on("console", (message) => {
      if (message.type() === "error") problems.push(message.text());
    });
    page.on("pageerror", (error) => problems.push(String(error)));
    const host = await FakeHost.attach(page);
    await use(host);
    expect(problems).toEqual([]);
  },
});

export { expect };

/** Longer than the guard waits after an ask appeared. */
export const SETTLED_MS = 600;
/** Longer than the guard wants between two acts. */
export const PROMPTED_MS = 300;
