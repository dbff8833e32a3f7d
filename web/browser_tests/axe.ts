// axe on a page, run through the debugger, because the page's policy allows no script but its own.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "@playwright/test";

const source = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface AxeResult {
  violations: { id: string; nodes: { html: string; target: string[] }[] }[];
}

/** What axe finds, one line for each; empty if all is well. */
export async function violations(page: Page): Promise<string[]> {
  const found = (await page.evaluate(`(() => { ${source}; return axe.run(document, { resultTypes: ["violations"] }); })()`)) as AxeResult;
  return found.violations.map(({ id, nodes }) => `${new URL(page.url()).pathname} ${id}: ${nodes.map((node) => node.html).join(" | ")}`);
}
