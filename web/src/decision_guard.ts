// Decides whether an act of a person may answer an ask. Pure: the same events always give the same decisions.
//
// Invariants: an allow takes a subject whose whole content was on screen, some time since it appeared, changed or the
// window got focus, and (unless settings say otherwise) a second act at another place, some time after the first;
// only real, single acts count. A denial takes one act after the same time. `test/guard_cases.json` holds the cases,
// which the terminal UI runs as well.

import type { ConfirmSetting } from "./wire_types.ts";

/** Acts do not count for this long after the subject appeared or changed, or the window got focus. */
export const SETTLE_MS = 500;
/** Nobody reads the question for the second act faster than this. */
export const PROMPT_MS = 250;

/** What makes an ask deserve a second look. */
export interface AskRisk {
  /** The host warns about it, or nobody knows whether it does. */
  warned: boolean;
  /** A rule or the built-in floor says that a person is asked; else nothing covers it. */
  askedByRule: boolean;
}

/** Whether an allow takes a second act. The setting is about asks without warnings alone. */
export function needsSecondAct(setting: ConfirmSetting | undefined, risk: AskRisk): boolean {
  if (risk.warned) return true;
  if (setting === "risky") return risk.askedByRule;
  // A word that this page does not know counts as `always`.
  return setting !== "never";
}

export interface Act {
  /** False for an event that a script made. */
  trusted?: boolean;
  /** A key that is held down. */
  repeat?: boolean;
  /** Part of an input method's composition. */
  composing?: boolean;
  /** With Ctrl, Alt or Meta held. */
  modified?: boolean;
  /** Comes from a paste or a drop. */
  pasted?: boolean;
  /** When the key or button was pressed. A busy screen handles it later, and nobody reads faster because of that. */
  pressed_at?: number;
}

export type GuardEvent =
  /** A subject is shown. `version` changes with its content; `confirm` says whether a second act is needed. */
  | { type: "show"; at: number; subject: string; version: string; confirm: boolean }
  | { type: "hide"; at: number }
  /** The last unseen part of the content was on screen. */
  | { type: "seen"; at: number }
  | { type: "focus"; at: number }
  | { type: "blur"; at: number }
  | { type: "lost"; at: number }
  | { type: "connected"; at: number }
  /** The subject ended elsewhere. */
  | { type: "ended"; at: number }
  /** A person wants to allow; `place` is the key or the button. With `form`, a form follows whose button is the second act. */
  | ({ type: "allow"; at: number; place: string; option?: string; form?: boolean } & Act)
  | ({ type: "confirm"; at: number; place: string } & Act)
  | ({ type: "deny"; at: number; place: string } & Act)
  /** A person sends what they typed or chose: one act, on a subject that was read. */
  | ({ type: "answer"; at: number; place: string } & Act)
  | { type: "cancel"; at: number }
  /** Another key in between: somebody types, and the second act would be one of their letters. */
  | { type: "other_key"; at: number };

export type Refusal =
  | "nothing_shown" | "ended" | "not_connected" | "not_focused" | "not_a_single_act" | "too_soon" | "not_seen" | "not_asked" | "same_place";

export type Decision =
  | { type: "none" }
  | { type: "confirm"; subject: string }
  | { type: "allow"; subject: string; option?: string; considered_ms: number }
  | { type: "deny" | "answer"; subject: string; considered_ms: number }
  | { type: "refused"; reason: Refusal };

export interface GuardState {
  subject?: string;
  version: string;
  needsConfirm: boolean;
  settledFrom: number;
  focused: boolean;
  connected: boolean;
  ended: boolean;
  seen: boolean;
  /** The first act of an allow that waits for its second. */
  first?: { at: number; place: string; option?: string };
  /** Time for which the whole subject was on a focused screen, up to `countedFrom`. */
  consideredMs: number;
  countedFrom?: number;
}

export function newGuard(focused: boolean, connected: boolean): GuardState {
  return { version: "", needsConfirm: true, settledFrom: 0, focused, connected, ended: false, seen: false, consideredMs: 0 };
}

/** Takes in one event and says what may happen because of it. */
export function step(state: GuardState, event: GuardEvent): [GuardState, Decision] {
  switch (event.type) {
    case "show":
      return [show(state, event), { type: "none" }];
    case "hide":
      return [{ ...newGuard(state.focused, state.connected) }, { type: "none" }];
    case "seen":
      return [countTime({ ...state, seen: true }, event.at), { type: "none" }];
    case "focus":
      return [restart({ ...state, focused: true }, event.at), { type: "none" }];
    case "blur":
      return [restart({ ...state, focused: false }, event.at), { type: "none" }];
    case "lost":
      return [restart({ ...state, connected: false }, event.at), { type: "none" }];
    case "connected":
      return [restart({ ...state, connected: true }, event.at), { type: "none" }];
    case "ended":
      return [restart({ ...state, ended: true }, event.at), { type: "none" }];
    case "cancel":
    case "other_key":
      return [{ ...state, first: undefined }, { type: "none" }];
    case "allow":
      return allow(state, event);
    case "confirm":
      return confirm(state, event);
    case "deny":
      return deny(state, event);
    case "answer":
      return answer(state, event);
  }
}

function show(state: GuardState, event: Extract<GuardEvent, { type: "show" }>): GuardState {
  // An event may repeat what is shown. It must not restart the time of an ask that looks the same as before.
  if (state.subject === event.subject && state.version === event.version) {
    return { ...state, needsConfirm: event.confirm };
  }
  return {
    ...newGuard(state.focused, state.connected),
    subject: event.subject,
    version: event.version,
    needsConfirm: event.confirm,
    settledFrom: event.at,
  };
}

/** Something changed around the subject: an act that was under way is void, and the time begins again. */
function restart(state: GuardState, at: number): GuardState {
  return countTime({ ...state, first: undefined, settledFrom: at }, at);
}

/** Adds the time until now, and continues to count if the subject is whole on a focused screen. */
function countTime(state: GuardState, at: number): GuardState {
  const counts = state.subject !== undefined && state.seen && state.focused && !state.ended;
  return { ...state, consideredMs: consideredMs(state, at), countedFrom: counts ? at : undefined };
}

export function consideredMs(state: GuardState, at: number): number {
  const running = state.countedFrom === undefined ? 0 : Math.max(0, at - state.countedFrom);
  return state.consideredMs + running;
}

/** Why no act at all counts now. */
function refusalOfAct(state: GuardState, at: number, act: Act): Refusal | undefined {
  if (act.trusted === false || act.repeat || act.composing || act.modified || act.pasted) return "not_a_single_act";
  if (state.subject === undefined) return "nothing_shown";
  if (state.ended) return "ended";
  if (!state.connected) return "not_connected";
  if (!state.focused) return "not_focused";
  if (pressTime(at, act) < state.settledFrom + SETTLE_MS) return "too_soon";
  return undefined;
}

function pressTime(at: number, { pressed_at }: Act): number {
  return Math.min(at, pressed_at ?? at);
}

/** Why an allow is not possible now, whatever the act; screens show it beside a button that is off. */
export function refusalOfAllow(state: GuardState, at: number, act: Act = {}): Refusal | undefined {
  return refusalOfAct(state, at, act) ?? (state.seen ? undefined : "not_seen");
}

function allow(state: GuardState, event: Extract<GuardEvent, { type: "allow" }>): [GuardState, Decision] {
  const reason = refusalOfAllow(state, event.at, event);
  if (reason !== undefined) return [state, { type: "refused", reason }];
  const subject = state.subject ?? "";
  if (!state.needsConfirm && !event.form) {
    return [{ ...state, first: undefined }, decided("allow", state, event.at, event.option)];
  }
  const first = { at: event.at, place: event.place, option: event.option };
  return [{ ...state, first }, { type: "confirm", subject }];
}

function confirm(state: GuardState, event: Extract<GuardEvent, { type: "confirm" }>): [GuardState, Decision] {
  const { first } = state;
  const reason = refusalOfAllow(state, event.at, event) ?? refusalOfSecond(first, event);
  if (reason !== undefined || first === undefined) return [state, { type: "refused", reason: reason ?? "not_asked" }];
  return [{ ...state, first: undefined }, decided("allow", state, event.at, first.option)];
}

function refusalOfSecond(first: GuardState["first"], event: Extract<GuardEvent, { type: "confirm" }>): Refusal | undefined {
  if (first === undefined) return "not_asked";
  if (pressTime(event.at, event) < first.at + PROMPT_MS) return "too_soon";
  return event.place === first.place ? "same_place" : undefined;
}

function deny(state: GuardState, event: Extract<GuardEvent, { type: "deny" }>): [GuardState, Decision] {
  const reason = refusalOfAct(state, event.at, event);
  if (reason !== undefined) return [state, { type: "refused", reason }];
  return [{ ...state, first: undefined }, decided("deny", state, event.at)];
}

function answer(state: GuardState, event: Extract<GuardEvent, { type: "answer" }>): [GuardState, Decision] {
  const reason = refusalOfAllow(state, event.at, event);
  if (reason !== undefined) return [state, { type: "refused", reason }];
  return [{ ...state, first: undefined }, decided("answer", state, event.at)];
}

function decided(type: "allow" | "deny" | "answer", state: GuardState, at: number, option?: string): Decision {
  const considered = Math.round(consideredMs(state, at));
  const subject = state.subject ?? "";
  if (type !== "allow") return { type, subject, considered_ms: considered };
  return option === undefined ? { type, subject, considered_ms: considered } : { type, subject, option, considered_ms: considered };
}
