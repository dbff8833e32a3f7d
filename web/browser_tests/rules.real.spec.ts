// Rule files of a project, against the built host: they are trusted in the page, after their text was read there.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test as base } from "@playwright/test";
import { RealHost } from "./real_host.ts";

const test = base.extend<{ host: RealHost }>({
  host: async ({}, use) => {
    const host = await RealHost.startDemo();
    await use(host);
    await host.stop();
  },
});

test("a project's rule file is trusted as it was read, and not before its end was seen", async ({ page, host }) => {
  const project = join(host.home, "clockwork");
  const lines = Array.from({ length: 80 }, (_, index) => `# line ${index}`);
  const text = `${lines.join("\n")}\nallow = ["Bash(make check)"]\n`;
  mkdirSync(join(project, ".countersign"), { recursive: true });
  writeFileSync(join(project, ".countersign", "rules.toml"), text);
  const counts = () => (JSON.parse(host.run("rules", "list", "--json", "--cwd", project)) as { files: { rule: string; counts: boolean }[] }).files.map((rule) => [rule.rule, rule.counts]);
  await expect.poll(counts, { timeout: 20_000 }).toContainEqual(["Bash(make check)", false]);
  await host.login(page);
  await page.goto(`http://${host.address}/rules`);
  await page.getByRole("button", { name: "Read it…" }).click();
  const box = page.getByLabel(/^Text of /);
  await expect(box).toHaveText(text.trimEnd());
  await expect(page.getByRole("button", { name: "Read to the end to trust it" })).toBeDisabled();
  await box.evaluate((element) => element.scrollTo(0, element.scrollHeight));
  await page.getByRole("button", { name: "Trust exactly this" }).click();
  await expect.poll(counts, { timeout: 20_000 }).toContainEqual(["Bash(make check)", true]);
  await expect(page.getByText("is not trusted")).toHaveCount(0);
});
