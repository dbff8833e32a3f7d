// The decision guard of this page: fed with real time, focus and the state of the link.

import { effect, signal } from "@preact/signals";
import { type Decision, type GuardEvent, type GuardState, newGuard, type Refusal, step } from "./decision_guard.ts";
import { isLive } from "./store.ts";

export const guard = signal<GuardState>(newGuard(false, false));

type Untimed<E> = E extends { at: number } ? Omit<E, "at"> : never;

/** Gives an event to the guard, at the time it is now. */
export function tellGuard(event: Untimed<GuardEvent>): Decision {
  const [state, decision] = step(guard.value, { ...event, at: performance.now() } as GuardEvent);
  guard.value = state;
  return decision;
}

const refusalTexts: Record<Refusal, string> = {
  nothing_shown: "nothing is selected",
  ended: "it has ended",
  not_connected: "not connected: nothing can be sent",
  not_focused: "this window is not in front",
  not_a_single_act: "only a single key or click counts",
  too_soon: "ignored: this just appeared or changed; read it first",
  not_seen: "read it to the end first",
  not_asked: "press a first",
  same_place: "the second act has to be another key or button",
};

export function refusalText(reason: Refusal): string {
  return refusalTexts[reason];
}

export function startGuard(): void {
  const checkFocus = () => {
    const focused = document.hasFocus() && document.visibilityState === "visible";
    if (focused !== guard.peek().focused) tellGuard({ type: focused ? "focus" : "blur" });
  };
  checkFocus();
  for (const name of ["focus", "blur", "pageshow"]) addEventListener(name, checkFocus);
  document.addEventListener("visibilitychange", checkFocus);
  effect(() => {
    const live = isLive.value;
    if (live !== guard.peek().connected) tellGuard({ type: live ? "connected" : "lost" });
  });
}
