// Rules, timeline and settings; and every screen beside the inbox read by axe in both themes.

import { FakeTranscript, serveScreens } from "./agent_host.ts";
import { violations } from "./axe.ts";
import { makeAsk } from "./fake_host.ts";
import { expect, test } from "./page_test.ts";

test("a rule is tried while it is typed, and saved as it is shown", async ({ page, host }) => {
  serveScreens(host);
  const row = makeAsk("git push");
  host.snapshot.approvals = [row];
  const result = { agreed: 3, already_settled_by_rules: 0, contradicted: [], examined: 9, settled: 3, skipped_by_others: 0, would_settle: [row.id] };
  host.handlers.set("host.backtest_rule", () => ({ result }));
  host.handlers.set("host.add_rule", () => ({ result: { grant: {}, settled: 1 } }));
  await page.goto("/rules");
  await page.getByLabel("Rule", { exact: true }).fill("Bash(git push)");
  await expect(page.getByText("Of your last 9 decisions it would have settled 3, 0 of them against you.")).toBeVisible();
  await expect(page.getByText("Saved now, it settles 1 open ask:")).toBeVisible();
  expect(host.callsOf("host.backtest_rule").at(-1)).toEqual({ rule: "Bash(git push)", effect: "allow" });
  await page.getByLabel("1 hour").check();
  await page.getByRole("button", { name: "Save the rule" }).click();
  await expect(page.locator(".toasts")).toContainText("added Bash(git push); it settled 1 ask");
  expect(host.callsOf("host.add_rule")).toEqual([{ rule: "Bash(git push)", effect: "allow", project: "/srv/app", expires_in_ms: 3_600_000 }]);
});

test("what would happen is said part by part", async ({ page, host }) => {
  serveScreens(host);
  const parts = [{ effect: "allow", kind: "command", subject: "ls" }, { effect: "ask", kind: "command", subject: "git push" }];
  host.handlers.set("host.check_rules", () => ({ result: { verdict: { effect: "ask", parts }, candidates: [{ rule: "Bash(git push)", note: "exactly this", part: 1 }] } }));
  await page.goto("/rules");
  await page.getByLabel("What it would do").fill("ls && git push");
  await expect(page.getByText("It would ask you.")).toBeVisible();
  expect(host.callsOf("host.check_rules").at(-1)).toEqual({ tool: "Bash", input: { command: "ls && git push" }, cwd: "/srv/app" });
  await page.getByRole("button", { name: "Bash(git push)" }).click();
  await expect(page.getByLabel("Rule", { exact: true })).toHaveValue("Bash(git push)");
});

test("revoking takes a second act", async ({ page, host }) => {
  serveScreens(host);
  host.handlers.set("host.remove_rule", () => ({ result: {} }));
  await page.goto("/rules");
  await page.getByRole("button", { name: "Revoke…" }).click();
  expect(host.callsOf("host.remove_rule")).toEqual([]);
  await page.getByRole("button", { name: "Revoke", exact: true }).click();
  await expect.poll(() => host.callsOf("host.remove_rule")).toEqual([{ id: "grant-1" }]);
});

test("the timeline is live, and a link leads to one event", async ({ page, host }) => {
  const agent = serveScreens(host);
  await page.goto("/timeline");
  await expect(page.getByText("fix started turn 1")).toBeVisible();
  host.send("turn.ended", {}, { message: "fix ended turn 1", agent_id: agent.id, agent_name: "fix" });
  await expect(page.getByText("fix ended turn 1")).toBeVisible();
  await page.getByLabel("Kind").selectOption("turns");
  await expect.poll(() => host.callsOf("host.events").at(-1)?.kinds).toEqual(["turn.started", "turn.interrupted", "turn.ended"]);
  await page.goto("/timeline?at=1");
  await expect(page.locator(".event-row.marked")).toContainText("fix started turn 1");
});

test("a device is signed out by a second act", async ({ page, host }) => {
  serveScreens(host);
  host.handlers.set("host.revoke_token", () => ({ result: { ok: true } }));
  await page.goto("/settings");
  await page.getByRole("button", { name: "Sign out…" }).click();
  await page.getByRole("button", { name: "Sign out", exact: true }).click();
  await expect.poll(() => host.callsOf("host.revoke_token")).toEqual([{ token_id: "token-1" }]);
});

test("a changed key acts, and one that is taken is refused", async ({ page, host }, info) => {
  test.skip(info.project.name === "phone", "a phone has no keyboard");
  serveScreens(host);
  await page.goto("/settings");
  const button = page.getByRole("button", { name: /change the key of Go to agents/ });
  await button.click();
  await page.keyboard.press("w");
  await expect(page.getByText("w is “Next that waits” already")).toBeVisible();
  await page.keyboard.press("q");
  await expect(button.locator("kbd")).toHaveText("q");
  await page.locator("h1").click();
  await page.keyboard.press("q");
  await expect(page).toHaveURL(/\/agents$/);
});

for (const colorScheme of ["light", "dark"] as const) {
  test(`axe finds nothing on the screens beside the inbox, ${colorScheme}`, async ({ page, host }) => {
    test.setTimeout(120_000);
    await page.emulateMedia({ colorScheme });
    const agent = serveScreens(host);
    new FakeTranscript(host, agent.id).add(1, { type: "user", text: "go" }, { type: "assistant", text: "**a** `b`" }, { type: "tool_use", id: "t", tool: "Bash", title: "ls" }, { type: "tool_result", id: "t", status: "completed", text: "a\nb" });
    for (const path of ["/agents", `/agents/${agent.id}`, `/agents/${agent.id}/diff`, `/agents/${agent.id}/terminals`, "/rules", "/timeline", "/settings"]) {
      await page.goto(path);
      await expect(page.locator("h1")).toBeVisible();
      await page.waitForTimeout(400);
      expect(await violations(page)).toEqual([]);
    }
  });
}
