// The acts that answer an ask, and the question for the second act.

import { useEffect, useRef } from "preact/hooks";
import { askSummary } from "../inbox_items.ts";
import { commandsVersion, handlerOf } from "../keys.ts";
import type { ReadingProgress } from "../reading.ts";
import { askerName } from "../text.ts";
import type { Approval } from "../wire_types.ts";
import { type Answering, needsConfirm } from "./answering.ts";
import { CommandButton } from "./command_button.tsx";
import { announce } from "./live_region.tsx";
import { Deadline, OtherViewers } from "./outcome.tsx";

interface AskActionsProps {
  row: Approval;
  alike: Approval[];
  answering: Answering;
  progress: ReadingProgress;
}

export function AskActions({ row, alike, answering, progress }: AskActionsProps) {
  const confirming = answering.mode.type === "confirm";
  const asksPeople = (row.questions?.length ?? 0) > 0;
  return (
    <footer class="item-foot">
      <OtherViewers subject={row.id} />
      <Deadline at={row.deadline} lapses={row.lapses_at} />
      {confirming && <ConfirmBar row={row} />}
      <div class="actions" inert={confirming}>
        {!asksPeople && (
          <CommandButton id="ask.allow" class={progress.whole ? "good approve" : "approve unread"}>
            {answering.mode.type === "sending" ? "Sending…" : progress.whole ? (needsConfirm(row) ? "Approve…" : "Approve") : "Read to the end to approve"}
          </CommandButton>
        )}
        {!asksPeople && <CommandButton id="ask.remember">Remember…</CommandButton>}
        <CommandButton id="ask.deny" class="bad">Deny</CommandButton>
        <CommandButton id="ask.deny_words">Deny, because…</CommandButton>
        <span class="more-actions">
          {!asksPeople && <CommandButton id="ask.allow_words" class="plain">Approve with a message…</CommandButton>}
          <OptionalButton id="ask.edit" word="Edit…" />
          <OptionalButton id="ask.reply" word="Other options…" />
          {alike.length > 0 && <OptionalButton id="ask.alike" word={`Answer all ${alike.length + 1}…`} />}
          <OptionalButton id="ask.input" word="Exact input" />
        </span>
      </div>
    </footer>
  );
}

/** A button for a command that not every ask has. */
function OptionalButton({ id, word }: { id: string; word: string }) {
  // Read so that the button comes and goes with its command.
  void commandsVersion.value;
  return handlerOf(id) ? <CommandButton id={id} class="plain">{word}</CommandButton> : null;
}

function ConfirmBar({ row }: { row: Approval }) {
  const bar = useRef<HTMLDivElement>(null);
  useEffect(() => {
    announce(`Allow once? y to allow, n to go back.`);
    // The button that was pressed is out of reach now; without this, focus would fall to the page.
    if (document.activeElement?.closest(".actions")) bar.current?.focus();
  }, []);
  return (
    <div class="confirm-bar fade-in" role="group" aria-label="Allow once?" tabIndex={-1} ref={bar}>
      <div class="confirm-text">
        <strong>Allow once:</strong> <code>{askSummary(row)}</code> <span class="muted">for {askerName(row)}</span>
      </div>
      <div class="confirm-buttons">
        <CommandButton id="confirm.yes" class="good confirm-yes">Allow once</CommandButton>
        <CommandButton id="confirm.no" class="confirm-no">No</CommandButton>
      </div>
    </div>
  );
}
