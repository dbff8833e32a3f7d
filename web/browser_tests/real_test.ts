// The test of those against the built host: a host of its own for each, and any complaint of the browser fails it.

import { expect, type Page, test as base, type TestInfo } from "@playwright/test";
import { watchErrors, withoutLostHost } from "./page_errors.ts";
import { PROMPTED_MS, SETTLED_MS } from "./page_test.ts";
import { RealHost } from "./real_host.ts";

interface RealFixtures {
  /** Whether the test ends the host, so that the browser may complain that it is not there. */
  killsHost: boolean;
  /** A host without agents. */
  host: RealHost;
  /** A host with the three agents of the demo, each of which asks. */
  demo: RealHost;
}

export const test = base.extend<RealFixtures>({
  killsHost: [false, { option: true }],
  // The page that is offered without a network is one of the things under test.
  serviceWorkers: "allow",
  page: async ({ page, killsHost }, use) => {
    const errors = await watchErrors(page);
    await use(page);
    expect(killsHost ? withoutLostHost(errors) : errors).toEqual([]);
  },
  host: async ({}, use, info) => useHost(await RealHost.start(), use, info),
  demo: async ({}, use, info) => useHost(await RealHost.startDemo(), use, info),
});

async function useHost(host: RealHost, use: (host: RealHost) => Promise<void>, info: TestInfo): Promise<void> {
  await use(host);
  // What the host said is gone with its folder.
  if (info.status !== info.expectedStatus) console.log(`${info.title}: the end of the host's log\n${host.logEnd()}`);
  await host.stop();
}

export { expect };

/** Opens an ask and waits until it may be answered. */
export async function openAsk(page: Page, host: RealHost, id: string): Promise<void> {
  await page.goto(host.url(`/ask/${id}`));
  await expect(page.getByText("read to its end ✓")).toBeVisible();
  await page.waitForTimeout(SETTLED_MS);
}

export async function openAskOf(page: Page, host: RealHost, agent: string): Promise<string> {
  const row = host.inbox().find((ask) => ask.agent_name === agent);
  if (!row) throw new Error(`${agent} asks nothing`);
  await openAsk(page, host, row.id);
  return row.id;
}

/** Waits until an agent asks something else than what it asked before. */
export async function nextAskOf(host: RealHost, agent: string, before: string[] = []): Promise<string> {
  const find = () => host.inbox().find((ask) => ask.agent_name === agent && !before.includes(ask.id))?.id;
  await expect.poll(find, { timeout: 30_000 }).toBeDefined();
  return find() ?? "";
}

/** Runs a command by its button, or from the list of commands where a phone has no room for the button. */
export async function choose(page: Page, id: string, word: string): Promise<void> {
  const button = page.locator(`[data-command='${id}']`);
  if (await button.isVisible()) return button.click();
  await page.getByRole("button", { name: "More commands" }).click();
  await page.getByRole("dialog").getByText(word).click();
}

/** The two acts of an approval. */
export async function approve(page: Page): Promise<void> {
  await page.locator("[data-command='ask.allow']").click();
  await page.waitForTimeout(PROMPTED_MS);
  await page.locator("[data-command='confirm.yes']").click();
}

export function showAsk(host: RealHost, id: string): Record<string, unknown> {
  return JSON.parse(host.run("show", id, "--json")) as Record<string, unknown>;
}
