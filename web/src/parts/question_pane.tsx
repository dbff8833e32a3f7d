// A question that is answered with text.

import { useEffect, useRef, useState } from "preact/hooks";
import { answerQuestion, type AnswerOutcome } from "../answers.ts";
import { tellGuard } from "../guard_store.ts";
import type { InboxItem } from "../inbox_items.ts";
import { clickAct, useCommands } from "../keys.ts";
import { useReading } from "../reading.ts";
import { canDecide, isLive } from "../store.ts";
import { block, line } from "../visible.ts";
import { isAccepted, type PlacedAct } from "./answering.ts";
import { clearDraft, useDraft } from "./draft.ts";
import { ItemHead } from "./item_head.tsx";
import { useItemPlace } from "./item_place.ts";
import { LongText } from "./long_text.tsx";
import { Deadline, OtherViewers, OutcomeNotice, QuestionEnded } from "./outcome.tsx";
import { useSwipe } from "./swipe.ts";
import { showToast } from "./toasts.tsx";

export function QuestionPane({ item }: { item: Extract<InboxItem, { kind: "question" }> }) {
  const { row } = item;
  const scroller = useRef<HTMLDivElement>(null);
  const box = useRef<HTMLTextAreaElement>(null);
  const [draft, setDraft] = useDraft(row.id);
  const [isSending, setSending] = useState(false);
  const [outcome, setOutcome] = useState<AnswerOutcome | undefined>(undefined);
  useReading(scroller, row.question, () => tellGuard({ type: "seen" }));
  useEffect(() => {
    tellGuard({ type: "show", subject: row.id, version: row.question, confirm: false });
    if (item.ended) tellGuard({ type: "ended" });
  }, [row.id, row.question, item.ended]);
  useEffect(() => () => void tellGuard({ type: "hide" }), []);
  const place = useItemPlace();
  useSwipe(scroller, (direction) => (direction === "right" ? place.onBack() : place.onNext()));
  useCommands({ "ask.reply": item.ended ? undefined : { run: () => box.current?.focus() } });

  const send = async (act: PlacedAct) => {
    const decision = tellGuard({ type: "answer", ...act });
    if (!isAccepted(decision) || decision.type !== "answer") return;
    setSending(true);
    const result = await answerQuestion(row, draft.trim(), decision.considered_ms);
    setSending(false);
    setOutcome(result);
    if (result.type !== "taken") return;
    clearDraft(row.id);
    showToast({ tone: "good", text: `Answered ${item.asker}.` });
    place.onAnswered(undefined);
  };
  const canSend = draft.trim() !== "" && !isSending && isLive.value && canDecide.value;
  return (
    <article class="item-pane" aria-label={`Question of ${item.asker}`}>
      <ItemHead item={item} />
      <div class="item-body" ref={scroller} tabIndex={0} role="region" aria-label="The question">
        <div class="item-text">
          <LongText class="question-text" text={block(row.question)} />
          {row.for_people === false && <p class="notice">It was asked of {line(row.to_name ?? row.to ?? "its orchestrator")} first. You may answer it at any time.</p>}
          {item.ended && <QuestionEnded row={row} />}
        </div>
      </div>
      {outcome && outcome.type !== "taken" && <OutcomeNotice outcome={outcome} unsentText={item.ended ? draft : undefined} row={row} />}
      {!item.ended && (
        <footer class="item-foot">
          <OtherViewers subject={row.id} />
          <Deadline at={row.deadline} />
          <label class="visually-hidden" for="answer">Your answer</label>
          <textarea
            id="answer" ref={box} placeholder={`Answer ${item.asker}…`} value={draft} rows={3}
            onInput={(event) => setDraft(event.currentTarget.value)}
            onKeyDown={(event) => {
              // The chord is meant for sending text, so its modifier does not speak against it.
              const isSendChord = event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.repeat;
              if (isSendChord && canSend) void send({ trusted: event.isTrusted, pressed_at: event.timeStamp, place: "key:Mod+Enter" });
            }}
          />
          <div class="actions">
            <button class="primary" disabled={!canSend} onClick={(event) => void send(clickAct(event, "send"))}>{isSending ? "Sending…" : "Send answer"}</button>
            <span class="muted small wide-only">Ctrl ↵ sends</span>
          </div>
        </footer>
      )}
    </article>
  );
}
