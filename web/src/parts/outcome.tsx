// The end of an ask's text: whether it was read, how long it may still be answered, how it ended, what became of an answer.

import type { AnswerOutcome } from "../answers.ts";
import { whyIncomplete } from "../ask_facts.ts";
import type { ReadingProgress } from "../reading.ts";
import { clock, otherViewers } from "../store.ts";
import { agoText, countdown, whoName } from "../text.ts";
import { viewersText } from "../viewer_text.ts";
import { block, line } from "../visible.ts";
import type { Approval, Question } from "../wire_types.ts";
import { Icon } from "./icon.tsx";
import { showToast } from "./toasts.tsx";

export function AskEnd({ row, progress }: { row: Approval; progress: ReadingProgress }) {
  if (row.state !== "pending") return <AskEnded row={row} />;
  const isRead = progress.whole && whyIncomplete(row) === undefined;
  return (
    <p class={`end-mark small ${isRead ? "good" : "muted"}`} role="status">
      {isRead ? "read to its end ✓" : "the end"}
    </p>
  );
}

const stateWords: Record<Approval["state"], string> = {
  pending: "It waits.",
  allowed: "allowed it",
  denied: "denied it",
  answered: "answered it",
  cancelled: "It was cancelled",
  expired: "It expired: nobody answered in time",
  gone: "Its agent has ended or disconnected",
  unknown: "It has ended",
};

function AskEnded({ row }: { row: Approval }) {
  const byPerson = ["allowed", "denied", "answered"].includes(row.state);
  const at = row.resolved_at === undefined ? "" : `, ${agoText(row.resolved_at, clock.value)}`;
  const by = byPerson ? `${whoName(row.resolved_by)} ${stateWords[row.state]}` : stateWords[row.state];
  return (
    <div class="notice ended-notice" role="status">
      <div class="stack">
        <p><strong>{by}{at}.</strong></p>
        {row.view?.edited_summary !== undefined && <p>Instead: <code>{row.view.edited_summary}</code></p>}
        {row.message !== undefined && <blockquote class="agent-words">{block(row.message)}</blockquote>}
      </div>
    </div>
  );
}

export function QuestionEnded({ row }: { row: Question }) {
  const by = row.answered_by ? `${whoName(row.answered_by)} answered` : row.state === "expired" ? "It expired: nobody answered in time" : "It has ended";
  return (
    <div class="notice ended-notice" role="status">
      <div class="stack">
        <p><strong>{by}.</strong></p>
        {row.answer !== undefined && <blockquote class="agent-words">{block(row.answer)}</blockquote>}
      </div>
    </div>
  );
}

const outcomeTones = { taken: "good", passed: "good", late: "warn", refused: "bad", unknown: "warn" };

interface OutcomeNoticeProps {
  outcome: AnswerOutcome;
  unsentText?: string;
  /** As it is now: after a lost connection it says what the host has. */
  row: Approval | Question;
}

export function OutcomeNotice({ outcome, unsentText, row }: OutcomeNoticeProps) {
  const copy = async () => {
    await navigator.clipboard?.writeText(unsentText ?? "");
    showToast({ text: "Copied." });
  };
  return (
    <div class={`notice outcome ${outcomeTones[outcome.type]}`} role="status">
      <Icon name="warning" />
      <div class="stack grow">
        <p>{outcomeText(outcome)}{outcome.type === "unknown" && row.state !== "pending" && <strong> The host has it as “{line(row.state)}”.</strong>}</p>
        {unsentText !== undefined && <p class="row"><q class="grow">{unsentText}</q><button onClick={() => void copy()}>Copy</button></p>}
      </div>
    </div>
  );
}

function outcomeText(outcome: AnswerOutcome): string {
  if (outcome.type === "taken") return "Sent.";
  if (outcome.type === "passed") return "It was passed to the program that owns this ask, which decides.";
  return outcome.text;
}

/** Who else has it open. Below what is read, so that nothing moves under the pointer. */
export function OtherViewers({ subject }: { subject: string }) {
  const text = viewersText(otherViewers.value, subject);
  return text === undefined ? null : <p class="viewers small muted ellipsis" title={text}>{text}</p>;
}

const BAR_MS = 5 * 60_000;

/** The time that is left, with a bar in the last five minutes. */
export function Deadline({ at, lapses }: { at?: string; lapses?: string }) {
  const end = lapses ?? at;
  if (end === undefined) return null;
  const left = Date.parse(end) - clock.value;
  const what = lapses === undefined ? "expires in" : "its program disconnected; ends in";
  return (
    <div class={`deadline small ${left < 60_000 ? "warn" : "muted"}`}>
      <span>{what} {countdown(left)}</span>
      {left < BAR_MS && <progress max={BAR_MS} value={Math.max(0, left)} aria-label="Time left" />}
    </div>
  );
}
