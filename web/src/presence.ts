// Tells the host whether this page is in front and what it shows, so that other channels keep quiet meanwhile.

import { effect } from "@preact/signals";
import { guard } from "./guard_store.ts";
import { currentRoute } from "./route.ts";
import { call, hostStatus, isLive } from "./store.ts";

const REPEAT_MS = 20_000;

export function startPresence(): void {
  effect(() => {
    const { focused } = guard.value;
    const subject = currentRoute.value.screen === "inbox" ? currentRoute.value.askId : undefined;
    if (isLive.value) tell(focused, subject);
  });
  setInterval(() => {
    const route = currentRoute.value;
    if (guard.value.focused && isLive.value) tell(true, route.screen === "inbox" ? route.askId : undefined);
  }, REPEAT_MS);
}

let last = "";
let lastAt = 0;

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
