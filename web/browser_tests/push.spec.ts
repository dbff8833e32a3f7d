// Push messages, delivered through the debugger as a push service would: what is shown, and where its buttons lead.

import type { CDPSession, Page } from "@playwright/test";
import { makeAsk } from "./fake_host.ts";
import { expect, test } from "./page_test.ts";

test.use({ serviceWorkers: "allow", permissions: ["notifications"] });

/** A service worker is started for each message, which takes its time on a busy machine. */
const patient = { timeout: 20_000 };
const DENY_PATH = "/notify/deny/CODE-1";

interface ShownNotice {
  title: string;
  body: string;
  tag: string;
  actions: string[];
}

/** A browser that can be sent push messages. */
class PushTarget {
  private constructor(private readonly page: Page, private readonly session: CDPSession, private readonly registrationId: string) {}

  static async attach(page: Page): Promise<PushTarget> {
    const session = await page.context().newCDPSession(page);
    const found = new Promise<string>((resolve) => session.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => {
      const own = registrations.find((row) => row.scopeURL.startsWith(new URL(page.url()).origin));
      if (own) resolve(own.registrationId);
    }));
    await page.waitForFunction(() => navigator.serviceWorker.ready.then((ready) => ready.active?.state === "activated"));
    await session.send("ServiceWorker.enable");
    return new PushTarget(page, session, await found);
  }

  async deliver(data: string): Promise<void> {
    await this.session.send("ServiceWorker.deliverPushMessage", { origin: new URL(this.page.url()).origin, registrationId: this.registrationId, data });
  }

  shown(): Promise<ShownNotice[]> {
    return this.page.evaluate(async () => {
      const rows = await (await navigator.serviceWorker.ready).getNotifications();
      return (rows as (Notification & { actions: { action: string }[] })[]).map((row) => ({
        title: row.title, body: row.body, tag: row.tag, actions: row.actions.map(({ action }) => action),
      }));
    });
  }

  /** Presses a button of the notification that is shown; without an action, the notification itself. */
  async click(action = ""): Promise<void> {
    const worker = this.page.context().serviceWorkers()[0];
    if (!worker) throw new Error("no service worker");
    await worker.evaluate(async (pressed) => {
      const scope = globalThis as unknown as { registration: ServiceWorkerRegistration; NotificationEvent: new (type: string, init: object) => Event };
      const [notification] = await scope.registration.getNotifications();
      const event = new scope.NotificationEvent("notificationclick", { notification, action: pressed });
      // The browser accepts `waitUntil` only on events of its own.
      let work: Promise<unknown> = Promise.resolve();
      Object.defineProperty(event, "waitUntil", { value: (promise: Promise<unknown>) => (work = promise) });
      dispatchEvent(event);
      // Only a real click may bring a window to the front.
      await work.catch((error: Error) => {
        if (error.name !== "InvalidAccessError") throw error;
      });
    }, action);
  }
}

const row = makeAsk("cargo test");
const content = {
  id: "evt_7", kind: "approval.requested", title: "builder asks: Bash", text: "cargo test", path: `/ask/${row.id}`, deny_path: DENY_PATH,
  allow_path: "/notify/allow/x", actions: [{ action: "allow", title: "Allow" }], subject: row.id, waits: true,
};
const message = JSON.stringify(content);

test("a push message is shown once, and can be denied and opened but not allowed", async ({ page, host }) => {
  host.snapshot.approvals = [row];
  await page.goto("/");
  const target = await PushTarget.attach(page);
  await target.deliver(message);
  const expected = [{ title: "builder asks: Bash", body: "cargo test", tag: row.id, actions: ["deny", "open"] }];
  await expect.poll(() => target.shown(), patient).toEqual(expected);
  // The host sends a message again after a crash. With another text here, which shows that the second one was handled.
  await target.deliver(JSON.stringify({ ...content, text: "cargo test, again" }));
  await expect.poll(() => target.shown(), patient).toEqual(expected.map((notice) => ({ ...notice, body: "cargo test, again" })));
  await target.click("open");
  await expect(page).toHaveURL(new RegExp(`/ask/${row.id}$`));
  await expect.poll(() => target.shown(), patient).toEqual([]);
});

test("Deny in a push message denies, and says so", async ({ page, host, context }) => {
  host.snapshot.approvals = [row];
  const posted: { method: string; cookie: string | null }[] = [];
  await context.route(`**${DENY_PATH}`, async (route) => {
    posted.push({ method: route.request().method(), cookie: await route.request().headerValue("cookie") });
    await route.fulfill({ status: posted.length === 1 ? 200 : 404, body: "denied\n" });
  });
  await page.goto("/");
  const target = await PushTarget.attach(page);
  await target.deliver(message);
  await expect.poll(async () => (await target.shown()).length, patient).toBe(1);
  await target.click("deny");
  await expect.poll(() => target.shown(), patient).toEqual([{ title: "builder asks: Bash", body: "Denied.", tag: row.id, actions: [] }]);
  expect(posted).toEqual([{ method: "POST", cookie: null }]);
  await target.deliver(message);
  await expect.poll(async () => (await target.shown())[0]?.body, patient).toBe("cargo test");
  await target.click("deny");
  await expect.poll(async () => (await target.shown())[0]?.body, patient).toMatch(/^Not denied/);
});

test("a push message that cannot be read is shown without its content", async ({ page, host }) => {
  host.snapshot.approvals = [];
  await page.goto("/");
  const target = await PushTarget.attach(page);
  await target.deliver("<script>");
  await expect.poll(() => target.shown(), patient).toEqual([{ title: "Countersign", body: "Open the page to see what is new.", tag: "countersign", actions: ["open"] }]);
});
