// Pictures of every screen in both themes, for a person to look at: `make shots`.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "./real_test.ts";
import { tour } from "./tour.ts";

const folder = process.env.SHOTS_DIR ?? "shots";
/** Where the pictures of the README go, if they are to be replaced: small ones, by the name of the large one. */
const docsFolder = process.env.SHOTS_DOCS_DIR;
const docsPictures: Record<string, string> = { "ask-edit-of-a-file-desktop-light": "inbox-desktop.png", "ask-second-act-phone-dark": "ask-phone.jpg" };
const DOCS_QUALITY = 60;

for (const colorScheme of ["light", "dark"] as const) {
  test(`pictures, ${colorScheme}`, async ({ page, demo }, info) => {
    test.setTimeout(300_000);
    mkdirSync(folder, { recursive: true });
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    const viewport = info.project.name.replace("shots-", "");
    for await (const name of tour(page, demo)) {
      await page.mouse.move(0, 0);
      const picture = `${name}-${viewport}-${colorScheme}`;
      await page.screenshot({ path: join(folder, `${picture}.png`), animations: "disabled", caret: "hide" });
      const small = docsPictures[picture];
      if (docsFolder === undefined || small === undefined) continue;
      const quality = small.endsWith(".jpg") ? DOCS_QUALITY : undefined;
      await page.screenshot({ path: join(docsFolder, small), quality, scale: "css", animations: "disabled", caret: "hide" });
    }
  });
}
