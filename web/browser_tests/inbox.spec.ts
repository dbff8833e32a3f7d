// The list, trouble with the host, hostile text, accessibility.

import { violations } from "./axe.ts";
import { makeAsk, makeQuestion, makeView } from "./fake_host.ts";
import { expect, test } from "./page_test.ts";

test("a thousand asks keep few rows in the document, and moving is quick", async ({ page, host }, info) => {
  host.snapshot.approvals = Array.from({ length: 1_000 }, (_, index) => makeAsk(`echo ${index}`));
  await page.goto("/");
  await expect(page.getByText("1000 asks")).toBeVisible();
  expect(await page.locator(".item-row").count()).toBeLessThanOrEqual(80);
  if (info.project.name === "phone") return;
  await page.keyboard.press("G");
  await expect(page.getByText("echo 999", { exact: true })).toBeVisible();
  await page.keyboard.press("g");
  await page.keyboard.press("g");
  await expect(page.getByText("echo 0", { exact: true })).toBeVisible();
});

test("a new ask takes neither focus nor the open item", async ({ page, host }) => {
  const question = makeQuestion("Which?");
  host.snapshot.questions = [question];
  await page.goto(`/ask/${question.id}`);
  const box = page.getByLabel("Your answer");
  await box.fill("half an ans");
  host.open(makeAsk("cargo test"));
  await expect(page).toHaveTitle("(2) Countersign");
  await page.keyboard.type("wer");
  await expect(box).toHaveValue("half an answer");
  await expect(box).toBeFocused();
});

test("a session that ended says so and keeps what was typed", async ({ page, host }) => {
  const question = makeQuestion("Which?");
  host.snapshot.questions = [question];
  await page.goto(`/ask/${question.id}`);
  await page.getByLabel("Your answer").fill("a draft");
  host.handlers.set("host.subscribe", () => ({ error: { code: -32001, message: "authenticate first", data: { reason: "auth_required" } } }));
  await host.kill();
  host.restart();
  await expect(page.getByText(/Your session ended/)).toBeVisible({ timeout: 10_000 });
  await expect(page.getByLabel("Your answer")).toHaveValue("a draft");
});

test("a host that comes back is noticed within a second", async ({ page, host }) => {
  host.snapshot.approvals = [makeAsk("cargo test")];
  await page.goto("/");
  await expect(page.getByText("● live")).toBeVisible();
  await host.kill();
  await page.waitForTimeout(300);
  host.restart();
  await expect(page.getByText("● live")).toBeVisible({ timeout: 1_000 });
});

test("a record that cannot be written stops decisions in words", async ({ page, host }) => {
  const row = makeAsk("cargo test");
  host.snapshot.approvals = [row];
  host.status = { ...host.status, store_error: "no space left on device" };
  await page.goto(`/ask/${row.id}`);
  await expect(page.getByText(/Nothing can be decided until the record can be written: no space left/)).toBeVisible();
  await expect(page.locator("[data-command='ask.deny']")).toHaveAttribute("aria-disabled", "true");
});

test("an observer is shown why nothing can be decided", async ({ page, host }) => {
  const row = makeAsk("cargo test");
  host.snapshot.approvals = [row];
  host.status = { ...host.status, you: { name: "guest", role: "observer" } };
  await page.goto(`/ask/${row.id}`);
  await expect(page.getByText(/signed in as an observer/).first()).toBeVisible();
  await expect(page.locator("[data-command='ask.allow']")).toHaveAttribute("aria-disabled", "true");
});

/** What an agent sends, and how the host shows it. */
const hostile: [string, string][] = [
  ["bidi \u202egnirts", "bidi \\u{202e}gnirts"],
  ["zero\u200bwidth", "zero\\u{200b}width"],
  [`e${"\u0301".repeat(400)}`, `e${"\u0301".repeat(8)}${"\\u{301}".repeat(392)}`],
  ["</script><img src=x onerror=alert(1)>", "</script><img src=x onerror=alert(1)>"],
  ["\u001b]0;title\u0007", "\\u{1b}]0;title\\u{7}"],
  [`ls${" ".repeat(500)}rm -rf /`, "ls⟨500 spaces⟩rm -rf /"],
  ["<b>bold</b> &amp; javascript:alert(1)", "<b>bold</b> &amp; javascript:alert(1)"],
];

test("hostile text is shown as text, to its last character", async ({ page, host }) => {
  const name = `agent \u202e${"x".repeat(300)}`;
  const rows = hostile.map(([text, shown]) => makeAsk(text, { agent_name: name, view: makeView({ summary: `Bash: ${shown}`, command: shown }) }));
  host.snapshot.approvals = rows;
  host.snapshot.questions = [makeQuestion(hostile.map(([text]) => text).join("\n"))];
  for (const [index, row] of rows.entries()) {
    await page.goto(`/ask/${row.id}`);
    expect(await page.locator(".code-box.command").textContent()).toBe(hostile[index]?.[1]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
  }
  // Without the host's view, as a question has none, the page escapes by itself.
  await page.goto(`/ask/${host.snapshot.questions[0]?.id}`);
  expect(await page.locator(".question-text").textContent()).toBe(hostile.map(([, shown]) => shown).join("\n"));
  const text = "x".repeat(2_000_000);
  const huge = makeAsk("huge", { view: makeView({ summary: "Bash: huge", command: text }) });
  host.snapshot.approvals = [huge];
  await page.goto(`/ask/${huge.id}`);
  await expect(page.locator(".code-box.command")).toBeVisible();
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
});

for (const theme of ["light", "dark"] as const) {
  test(`axe finds nothing in the ${theme} theme`, async ({ page, host }) => {
    await page.emulateMedia({ colorScheme: theme });
    const ask = makeAsk("cargo test && git push", { view: makeView({ summary: "Bash: cargo test", command: "cargo test && git push", warnings: ["It has 1 hidden character."], title: "Run it", input_text: "{}" }) });
    const edit = makeAsk("edit", { tool: "Edit", view: makeView({ summary: "Edit: a", edits: [{ path: "a", added: 1, removed: 1, hunks: [{ old_start: 1, new_start: 1, lines: [{ kind: "removed", text: "a" }, { kind: "added", text: "b", segments: [{ text: "b", changed: true }] }] }] }] }) });
    const question = makeQuestion("Which?");
    host.snapshot.approvals = [ask, edit];
    host.snapshot.questions = [question];
    const found: string[] = [];
    for (const path of ["/", `/ask/${ask.id}`, `/ask/${edit.id}`, `/ask/${question.id}`]) {
      await page.goto(path);
      await expect(page.locator("main")).toBeVisible();
      await page.waitForTimeout(400);
      found.push(...(await violations(page)));
    }
    await page.goto("/");
    await expect(page.getByText("● live")).toBeVisible();
    await page.keyboard.press("?");
    await expect(page.getByRole("dialog")).toBeVisible();
    found.push(...(await violations(page)).map((violation) => `help ${violation}`));
    expect(found).toEqual([]);
  });
}
