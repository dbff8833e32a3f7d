// Figures that tests measure. Each is printed, because whether it is within its limit says little about how far.

import type { Page, TestInfo } from "@playwright/test";

const ROUNDS_MAX = 12;

export function report(info: TestInfo, what: string, figure: string): void {
  info.annotations.push({ type: what, description: figure });
  console.log(`    ${what}: ${figure}`);
}

/**
 * The best of some rounds, because other work on the machine only ever makes a figure worse; no further round is made
 * once the limit is met.
 */
export async function bestOf(info: TestInfo, what: string, limit: number, round: () => Promise<number>): Promise<number> {
  const figures: number[] = [];
  while (figures.length < ROUNDS_MAX && Math.min(...figures) > limit) figures.push(await round());
  report(info, `${what}, ms, limit ${limit}`, figures.map((figure) => figure.toFixed(0)).join(" "));
  return Math.min(...figures);
}

export function percentile(figures: readonly number[], share: number): number {
  const sorted = [...figures].sort((a, b) => a - b);
  return sorted[Math.ceil(sorted.length * share) - 1] ?? Infinity;
}

/** When the page that was just opened painted something, in milliseconds since the navigation began. */
export function firstPaint(page: Page): Promise<number> {
  return page.evaluate(() => new Promise<number>((resolve) => {
    new PerformanceObserver((list) => resolve(list.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Infinity)).observe({ type: "paint", buffered: true });
  }));
}

/** When an element that a script looks for was painted, in milliseconds since the navigation began. */
export function paintedAt(page: Page, selector: string): Promise<number> {
  return page.evaluate((wanted) => new Promise<number>((resolve) => {
    const look = () => {
      if (document.querySelector(wanted)) requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
      else requestAnimationFrame(look);
    };
    look();
  }), selector);
}
