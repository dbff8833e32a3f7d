// What screen readers are told: one polite region for news, one assertive for the loss of the host.

import { signal } from "@preact/signals";

const polite = signal("");
const assertive = signal("");

export function announce(text: string): void {
  polite.value = text;
}

export function announceLoss(text: string): void {
  assertive.value = text;
}

export function LiveRegions() {
  return (
    <div class="visually-hidden">
      <div role="status" aria-live="polite">{polite}</div>
      <div role="alert" aria-live="assertive">{assertive}</div>
    </div>
  );
}
