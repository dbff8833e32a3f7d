// Answering the open item: acts go through the guard, answers to the host, outcomes to the screen.

import { useEffect, useRef, useState } from "preact/hooks";
import { answerAsk, type AnswerOutcome } from "../answers.ts";
import { riskOf } from "../ask_facts.ts";
import { type Act, type Decision, needsSecondAct } from "../decision_guard.ts";
import { refusalText, tellGuard } from "../guard_store.ts";
import { openItems } from "../inbox_items.ts";
import { isOtherKey, keyNotice } from "../keys.ts";
import { hostStatus } from "../store.ts";
import { askerName } from "../text.ts";
import { line } from "../visible.ts";
import type { Approval, Resolution } from "../wire_types.ts";
import { useItemPlace } from "./item_place.ts";
import { showToast } from "./toasts.tsx";

export type AnswerForm = "remember" | "edit" | "deny_words" | "allow_words" | "options" | "alike";
export type PlacedAct = Act & { place: string };

export type AnswerMode =
  | { type: "reading" }
  /** The second act is asked for. */
  | { type: "confirm"; option: string }
  | { type: "form"; form: AnswerForm }
  | { type: "sending" };

export interface Answering {
  mode: AnswerMode;
  outcome?: AnswerOutcome;
  /** What a person typed with an answer that did not count, to be copied. */
  unsentText?: string;
  setMode(mode: AnswerMode): void;
  /** The first act of a plain approval. */
  allow(act: PlacedAct, option: string): void;
  /** The first act of an approval that goes through a form. */
  openForm(act: PlacedAct, form: AnswerForm): void;
  /** The second act, with what is sent if it counts. Returns whether it did. */
  confirm(act: PlacedAct, resolution: Resolution): boolean;
  deny(act: PlacedAct, resolution: Resolution): boolean;
  /** Sends answers to what an ask wants to know. */
  reply(act: PlacedAct, resolution: Resolution): boolean;
  cancel(): void;
}

/** Says why an act did not count; true if it did. */
export function isAccepted(decision: Decision): boolean {
  keyNotice.value = decision.type === "refused" ? refusalText(decision.reason) : undefined;
  return decision.type !== "refused";
}

export function useAnswering(row: Approval): Answering {
  const [mode, setMode] = useState<AnswerMode>({ type: "reading" });
  const [outcome, setOutcome] = useState<AnswerOutcome | undefined>(undefined);
  const [unsentText, setUnsentText] = useState<string | undefined>(undefined);
  const isSending = useRef(false);
  const place = useItemPlace();

  useEffect(() => {
    if (mode.type !== "confirm") return undefined;
    const cancelByTyping = (event: KeyboardEvent) => {
      if (!isOtherKey(event)) return;
      tellGuard({ type: "other_key" });
      setMode({ type: "reading" });
      keyNotice.value = "nothing was sent: another key was pressed";
    };
    document.addEventListener("keydown", cancelByTyping, { capture: true });
    return () => document.removeEventListener("keydown", cancelByTyping, { capture: true });
  }, [mode.type]);

  const send = async (resolution: Resolution, decision: Decision) => {
    // Two acts that both counted would be two answers.
    if (isSending.current) return;
    isSending.current = true;
    setMode({ type: "sending" });
    const considered = "considered_ms" in decision ? decision.considered_ms : undefined;
    const result = await answerAsk(row, { ...resolution, considered_ms: considered });
    isSending.current = false;
    setMode({ type: "reading" });
    if (result.type === "taken") {
      showToast({ tone: "good", text: takenText(result.row as Approval, resolution) });
      return place.onAnswered(itemAfterAnswer(row.id));
    }
    setOutcome(result);
    setUnsentText(resolution.message);
  };
  const sendIf = (decision: Decision, wanted: Decision["type"], resolution: Resolution): boolean => {
    if (!isAccepted(decision) || decision.type !== wanted) return false;
    void send(resolution, decision);
    return true;
  };
  return {
    mode,
    outcome,
    unsentText,
    setMode,
    allow: (act, option) => {
      const decision = tellGuard({ type: "allow", ...act, option });
      if (!isAccepted(decision)) return;
      if (decision.type === "confirm") setMode({ type: "confirm", option });
      else void send({ resolution: option }, decision);
    },
    openForm: (act, form) => {
      if (form === "deny_words" || isAccepted(tellGuard({ type: "allow", ...act, form: true }))) setMode({ type: "form", form });
    },
    confirm: (act, resolution) => sendIf(secondAct(act), "allow", resolution),
    deny: (act, resolution) => sendIf(tellGuard({ type: "deny", ...act }), "deny", resolution),
    reply: (act, resolution) => sendIf(tellGuard({ type: "answer", ...act }), "answer", resolution),
    cancel: () => {
      tellGuard({ type: "cancel" });
      setMode({ type: "reading" });
    },
  };
}

/** The second act. Where the window was left since the first, this one counts as the first again. */
export function secondAct(act: PlacedAct): Decision {
  const decision = tellGuard({ type: "confirm", ...act });
  if (decision.type !== "refused" || decision.reason !== "not_asked") return decision;
  return tellGuard({ type: "allow", ...act, place: "form", form: true });
}

/** What the host made of an answer. */
function takenText(row: Approval, resolution: Resolution): string {
  return `${askerName(row)}: ${takenWord(row, resolution)}${resolution.remember ? ", and it was remembered" : ""}.`;
}

function takenWord(row: Approval, { resolution }: Resolution): string {
  if (resolution === "deny" && row.state === "denied") return "denied";
  if (resolution === "approve" && row.state === "allowed") return "allowed";
  return `sent “${line(resolution)}”`;
}

/** The item that waits after the one that was answered. */
function itemAfterAnswer(id: string): string | undefined {
  const items = openItems.value.filter((item) => item.kind !== "note" && item.section === "waiting");
  const index = items.findIndex((item) => item.id === id);
  const others = [...items.slice(index + 1), ...items.slice(0, Math.max(index, 0))].filter((item) => !item.ended);
  return others[0]?.id;
}

/** Whether an allow of it takes a second act, by what the host is set to and what it warns of. */
export function needsConfirm(row: Approval): boolean {
  return needsSecondAct(hostStatus.value?.decide_confirm, riskOf(row));
}
