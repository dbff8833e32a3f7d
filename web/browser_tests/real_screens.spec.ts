// Every screen of the built host, with the demo's agents at work, read by axe in both themes.

import { violations } from "./axe.ts";
import { expect, test } from "./real_test.ts";
import { tour } from "./tour.ts";

for (const colorScheme of ["light", "dark"] as const) {
  test(`axe finds nothing on any screen, ${colorScheme}`, async ({ page, demo }) => {
    test.setTimeout(300_000);
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    const found: string[] = [];
    for await (const name of tour(page, demo)) {
      found.push(...(await violations(page)).map((text) => `${name}: ${text}`));
      const fits = await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
      if (!fits) found.push(`${name}: is wider than the window`);
    }
    expect(found).toEqual([]);
  });
}
