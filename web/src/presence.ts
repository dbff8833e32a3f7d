// Tells the host whether this page is in front and what it shows, so that other channels keep quiet meanwhile and other
// screens can say so.

import { effect } from "@preact/signals";
import { guard } from "./guard_store.ts";
import { openId } from "./inbox_items.ts";
import { call, hostStatus, isLive } from "./store.ts";

const REPEAT_MS = 20_000;

let last = "";
let lastAt = 0;

export function startPresence(): void {
  effect(() => {
    const { focused } = guard.value;
    const subject = openId.value;
    if (isLive.value) tell(focused, subject);
    // The next connection knows nothing of what was said on this one.
    else last = "";
  });
  setInterval(() => {
    if (guard.value.focused && isLive.value) tell(true, openId.value);
  }, REPEAT_MS);
}

/** Nothing is lost if it does not arrive: a host that hears nothing tells its channels. */
function tell(focused: boolean, subject: string | undefined): void {
  // A host that does not say how to confirm does not know the method either.
  if (hostStatus.value?.decide_confirm === undefined) return;
  const text = JSON.stringify([focused, subject]);
  if (text === last && Date.now() - lastAt < REPEAT_MS / 2) return;
  last = text;
  lastAt = Date.now();
  call("host.presence", { focused, subject }).catch(() => undefined);
}
