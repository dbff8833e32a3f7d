// Everything that a browser complains about on a page: errors in the console, uncaught exceptions, breaches of the policy.

import type { Page } from "@playwright/test";

/** What a browser says when the host is not there; the tests that kill it expect that. */
const LOST_HOST = /WebSocket connection to|net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING|SOCKET_NOT_CONNECTED)/;

export async function watchErrors(page: Page): Promise<string[]> {
  const errors: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error") errors.push(message.text());
  });
  page.on("pageerror", (error) => errors.push(String(error)));
  await page.exposeFunction("reportViolation", (text: string) => errors.push(text));
  await page.addInitScript(() => addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) => {
    (globalThis as unknown as { reportViolation(text: string): void }).reportViolation(`policy: ${violatedDirective} ${blockedURI}`);
  }));
  return errors;
}

export function withoutLostHost(errors: string[]): string[] {
  return errors.filter((text) => !LOST_HOST.test(text));
}
