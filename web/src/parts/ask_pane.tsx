// One ask: its content, and the acts that answer it.

import { useEffect, useRef, useState } from "preact/hooks";
import { approvingOption, canDeny, contentVersion, editableCommand, exactInput, otherOptions, whyIncomplete } from "../ask_facts.ts";
import { tellGuard } from "../guard_store.ts";
import type { InboxItem } from "../inbox_items.ts";
import { type CommandHandler, useCommands } from "../keys.ts";
import { useReading } from "../reading.ts";
import { navigate } from "../route.ts";
import { isBrief } from "../state.ts";
import { canDecide, isLive, loadApproval, storeError } from "../store.ts";
import type { Approval } from "../wire_types.ts";
import { type Answering, needsConfirm, useAnswering } from "./answering.ts";
import { AskActions } from "./ask_actions.tsx";
import { AskContent } from "./ask_content.tsx";
import { AskForms } from "./ask_forms.tsx";
import { ItemHead } from "./item_head.tsx";
import { useItemPlace } from "./item_place.ts";
import { ChoiceForm } from "./choice_form.tsx";
import { AskEnd, OutcomeNotice } from "./outcome.tsx";
import { useSwipe } from "./swipe.ts";

export function AskPane({ item }: { item: Extract<InboxItem, { kind: "ask" }> }) {
  const { row } = item;
  const scroller = useRef<HTMLDivElement>(null);
  const [showsInput, setShowsInput] = useState(false);
  const version = contentVersion(row);
  const answering = useAnswering(row);
  const progress = useReading(scroller, version, () => tellGuard({ type: "seen" }));
  useGuard(row, version);
  const place = useItemPlace();
  useSwipe(scroller, (direction) => (direction === "right" ? place.onBack() : place.onNext()));
  useEffect(() => {
    if (isBrief(row) && isLive.value) void loadApproval(row.id).catch(() => undefined);
  }, [isBrief(row), row.id, isLive.value]);
  useCommands(askCommands(item, answering, scroller.current, () => setShowsInput((shown) => !shown)));
  const asksPeople = (row.questions?.length ?? 0) > 0;
  return (
    <article class="item-pane" aria-label={`Ask of ${item.asker}`}>
      <ItemHead item={item} />
      <div class="item-body" ref={scroller} tabIndex={0} role="region" aria-label="What it asks">
        <div class="item-text">
          {asksPeople && <ChoiceForm row={row} answering={answering} />}
          <AskContent row={row} showsInput={showsInput} asksPeople={asksPeople} />
          <AskEnd row={row} progress={progress} />
        </div>
      </div>
      {answering.outcome && <OutcomeNotice outcome={answering.outcome} unsentText={answering.unsentText} row={row} />}
      {!item.ended && <AskActions row={row} alike={item.alike} answering={answering} progress={progress} />}
      <AskForms row={row} alike={item.alike} answering={answering} />
    </article>
  );
}

/** Tells the guard what is shown, and when it is not any more. */
function useGuard(row: Approval, version: string): void {
  const confirm = needsConfirm(row);
  useEffect(() => {
    tellGuard({ type: "show", subject: row.id, version, confirm });
    if (row.state !== "pending") tellGuard({ type: "ended" });
  }, [row.id, version, confirm, row.state]);
  useEffect(() => () => void tellGuard({ type: "hide" }), []);
}

/** Why nothing at all can be decided here. */
export function whyNoAnswer(row: Approval, answering: Answering): string | undefined {
  if (row.state !== "pending") return "it has ended";
  if (!canDecide.value) return "you signed in as an observer";
  if (storeError.value) return "the record cannot be written";
  if (!isLive.value) return "not connected: nothing can be sent";
  if (answering.mode.type === "sending") return "sending…";
  return undefined;
}

function askCommands(
  item: Extract<InboxItem, { kind: "ask" }>, answering: Answering, scroller: HTMLElement | null, toggleInput: () => void,
): Record<string, CommandHandler | undefined> {
  const { row } = item;
  const asksPeople = (row.questions?.length ?? 0) > 0;
  const approving = approvingOption(row);
  const editable = editableCommand(row);
  const whyNone = () => whyNoAnswer(row, answering);
  const whyNoAllow = () => whyNone() ?? (asksPeople ? "this is a question: answer it below" : undefined) ?? ("why" in approving ? approving.why : undefined) ?? whyIncomplete(row);
  const whyNoDeny = () => whyNone() ?? (canDeny(row) ? undefined : "no option is called “deny”: r to choose another");
  const form = (name: Parameters<Answering["openForm"]>[1], whyNot: () => string | undefined): CommandHandler => ({ run: (act) => answering.openForm(act, name), whyNot });
  const scroll = (share: number) => scroller?.scrollBy({ top: share * scroller.clientHeight });
  const reading: Record<string, CommandHandler | undefined> = {
    "ask.agent": row.agent_id === undefined ? undefined : { run: () => navigate({ screen: "agent", agentId: row.agent_id ?? "", tab: "transcript" }) },
    "ask.input": exactInput(row) === undefined ? undefined : { run: toggleInput },
    // A line less than a page, so that nothing is jumped over.
    "ask.down": { run: () => scroll(0.9) },
    "ask.up": { run: () => scroll(-0.9) },
  };
  if (item.ended) return reading;
  if (answering.mode.type === "confirm") {
    const { option } = answering.mode;
    return {
      ...reading,
      "confirm.yes": { run: (act) => void answering.confirm(act, { resolution: option }), whyNot: whyNoAllow },
      "confirm.no": { run: () => answering.cancel() },
    };
  }
  return {
    ...reading,
    "ask.allow": { run: (act) => "option" in approving && answering.allow(act, approving.option), whyNot: whyNoAllow },
    "ask.remember": form("remember", whyNoAllow),
    "ask.deny": { run: (act) => void answering.deny(act, { resolution: "deny" }), whyNot: whyNoDeny },
    "ask.deny_words": form("deny_words", whyNoDeny),
    "ask.allow_words": form("allow_words", whyNoAllow),
    "ask.edit": "command" in editable ? form("edit", whyNoAllow) : undefined,
    "ask.reply": otherOptions(row).length > 0 ? form("options", () => whyNone() ?? whyIncomplete(row)) : undefined,
    "ask.alike": item.alike.length > 0 ? form("alike", whyNoAllow) : undefined,
  };
}
