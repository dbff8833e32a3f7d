// The decision guard in a real browser: nothing is allowed by accident, unseen, or from afar.

import { makeAsk, makeView } from "./fake_host.ts";
import { expect, PROMPTED_MS, readToEnd, SETTLED_MS, test } from "./page_test.ts";

const ALLOWING = "host.resolve_approval";

test("a thousand random keys while asks arrive allow nothing", async ({ page, host }, info) => {
  test.skip(info.project.name === "phone", "a phone has no keyboard");
  test.setTimeout(90_000);
  host.snapshot.approvals = [makeAsk("first"), makeAsk("second")];
  await page.goto(`/ask/${host.snapshot.approvals[0]?.id}`);
  await page.waitForTimeout(SETTLED_MS);
  const keys = [..."aaayyysstejkwgiGJKx=/?zu nm", "Enter", "Escape", "Tab", "ArrowDown", "PageDown"];
  let seed = 7;
  for (let count = 0; count < 1_000; count++) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    await page.keyboard.press(keys[seed % keys.length] ?? "a");
    if (count % 50 === 0) host.open(makeAsk(`ask ${count}`));
  }
  const allowed = host.callsOf(ALLOWING).filter((call) => call.resolution !== "deny");
  expect([allowed, host.callsOf("host.resolve_approvals").length]).toEqual([[], 0]);
});

test("a long ask has to be scrolled through, and a jump to its end is not enough", async ({ page, host }) => {
  const command = Array.from({ length: 400 }, (_, index) => `echo line ${index}`).join("\n");
  const row = makeAsk(command);
  host.snapshot.approvals = [row];
  await page.goto(`/ask/${row.id}`);
  const body = page.getByRole("region", { name: "What it asks" });
  await expect(body).toBeVisible();
  await page.waitForTimeout(SETTLED_MS);
  await body.evaluate((element) => element.scrollTo(0, element.scrollHeight));
  await page.waitForTimeout(200);
  await page.keyboard.press("a");
  await expect(page.getByText("read it to the end first")).toBeVisible();
  await readToEnd(page);
  await page.waitForTimeout(PROMPTED_MS);
  await page.keyboard.press("a");
  await expect(page.getByRole("group", { name: "Allow once?" })).toBeVisible();
});

test("coming back to a window that waits for the second act does not give it", async ({ page, host }) => {
  await page.addInitScript(() => {
    let focused = true;
    Object.defineProperty(document, "hasFocus", { value: () => focused });
    Object.assign(globalThis, { setFocus: (value: boolean) => { focused = value; dispatchEvent(new Event(value ? "focus" : "blur")); } });
  });
  const row = makeAsk("cargo test");
  host.snapshot.approvals = [row];
  await page.goto(`/ask/${row.id}`);
  await expect(page.getByText("read to its end ✓")).toBeVisible();
  await page.waitForTimeout(SETTLED_MS);
  await page.keyboard.press("a");
  await expect(page.getByRole("group", { name: "Allow once?" })).toBeVisible();
  const setFocus = (value: boolean) => page.evaluate((focused) => (globalThis as unknown as { setFocus(value: boolean): void }).setFocus(focused), value);
  await setFocus(false);
  await setFocus(true);
  await page.keyboard.press("y");
  await page.waitForTimeout(SETTLED_MS);
  expect(host.callsOf(ALLOWING)).toEqual([]);
});

test("events that a script makes decide nothing", async ({ page, host }) => {
  const row = makeAsk("cargo test");
  host.snapshot.approvals = [row];
  await page.goto(`/ask/${row.id}`);
  await expect(page.getByText("read to its end ✓")).toBeVisible();
  await page.waitForTimeout(SETTLED_MS);
  await page.evaluate(() => {
    for (const key of ["a", "d", "y"]) document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    document.querySelector<HTMLElement>("[data-command='ask.deny']")?.click();
  });
  await page.waitForTimeout(PROMPTED_MS);
  expect(host.callsOf(ALLOWING)).toEqual([]);
});

test("an ask whose input is not shown cannot be approved here", async ({ page, host }) => {
  const row = makeAsk("cargo test", { view: undefined });
  host.snapshot.approvals = [row];
  await page.goto(`/ask/${row.id}`);
  await expect(page.getByText(/It cannot be approved here/)).toBeVisible();
  await page.waitForTimeout(SETTLED_MS);
  await page.keyboard.press("a");
  await expect(page.getByRole("group", { name: "Allow once?" })).toHaveCount(0);
  await page.keyboard.press("d");
  await expect.poll(() => host.callsOf(ALLOWING).length).toBe(1);
  expect(host.callsOf(ALLOWING)[0]).toMatchObject({ resolution: "deny" });
});

test("without a second act by setting, one act on a read ask is enough", async ({ page, host }) => {
  host.status = { ...host.status, decide_confirm: "risky" };
  const row = makeAsk("cargo test");
  host.snapshot.approvals = [row];
  await page.goto(`/ask/${row.id}`);
  await expect(page.getByText("read to its end ✓")).toBeVisible();
  await page.waitForTimeout(SETTLED_MS);
  await page.keyboard.press("a");
  await expect.poll(() => host.callsOf(ALLOWING).length).toBe(1);
});

test("an ask with a warning takes the second act whatever the setting is", async ({ page, host }) => {
  host.status = { ...host.status, decide_confirm: "never" };
  const row = makeAsk("cargo test", { view: makeView({ summary: "Bash: cargo test", command: "cargo test", warnings: ["It has 1 hidden character."] }) });
  host.snapshot.approvals = [row];
  await page.goto(`/ask/${row.id}`);
  await expect(page.getByText("read to its end ✓")).toBeVisible();
  await page.waitForTimeout(SETTLED_MS);
  await page.keyboard.press("a");
  await expect(page.getByRole("group", { name: "Allow once?" })).toBeVisible();
  expect(host.callsOf(ALLOWING)).toEqual([]);
  await page.waitForTimeout(PROMPTED_MS);
  await page.keyboard.press("y");
  await expect.poll(() => host.callsOf(ALLOWING).length).toBe(1);
});
