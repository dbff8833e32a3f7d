// Whether the host has a newer page than this one.

import { effect, signal } from "@preact/signals";
import { isLive } from "./store.ts";

export const isOutdated = signal(false);

const scriptName = (html: string): string | undefined => /\/(app-[A-Za-z0-9]+\.js)/.exec(html)?.[1];

/** Looks each time the host was away: it may have come back as another version. */
export function watchPageVersion(): void {
  const own = scriptName([...document.scripts].map((script) => script.src).join(" "));
  effect(() => {
    if (isLive.value && own !== undefined) void compare(own);
  });
}

async function compare(own: string): Promise<void> {
  try {
    const page = await fetch("/", { cache: "no-store" });
    const served = page.ok ? scriptName(await page.text()) : undefined;
    isOutdated.value = served !== undefined && served !== own;
  } catch {
    return;
  }
}
