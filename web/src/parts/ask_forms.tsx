// The forms of an ask: each is opened by a first act, and its own button is the second.

import { useState } from "preact/hooks";
import { answerMany } from "../answers.ts";
import { allows, approvingOption, editableCommand, editedInput, whyIncomplete } from "../ask_facts.ts";
import { clickAct } from "../keys.ts";
import { askerName, folderName, plural } from "../text.ts";
import { line } from "../visible.ts";
import type { Approval, ManyResult } from "../wire_types.ts";
import { type Answering, isAccepted, secondAct } from "./answering.ts";
import { Dialog } from "./dialog.tsx";
import { clearDraft, useDraft } from "./draft.ts";
import { RememberForm } from "./remember_form.tsx";

export interface FormProps {
  row: Approval;
  answering: Answering;
}

export function AskForms({ row, alike, answering }: FormProps & { alike: Approval[] }) {
  // The form for several stays, to show what became of each.
  const isOver = row.state !== "pending" && !(answering.mode.type === "form" && answering.mode.form === "alike");
  if (answering.mode.type !== "form" || isOver) return null;
  switch (answering.mode.form) {
    case "remember":
      return <RememberForm row={row} answering={answering} />;
    case "edit":
      return <EditForm row={row} answering={answering} />;
    case "deny_words":
      return <WordsForm row={row} answering={answering} effect="deny" />;
    case "allow_words":
      return <WordsForm row={row} answering={answering} effect="allow" />;
    case "options":
      return <OptionsForm row={row} answering={answering} />;
    case "alike":
      return <AlikeForm rows={[row, ...alike]} answering={answering} />;
  }
}

function WordsForm({ row, answering, effect }: FormProps & { effect: "allow" | "deny" }) {
  const [text, setText] = useDraft(row.id);
  const approving = approvingOption(row);
  const send = (event: MouseEvent | KeyboardEvent, place: string) => {
    const message = text.trim();
    const act = { trusted: event.isTrusted, pressed_at: event.timeStamp, place };
    const sent = effect === "deny"
      ? answering.deny(act, { resolution: "deny", message })
      : "option" in approving && answering.confirm(act, { resolution: approving.option, message });
    if (sent) clearDraft(row.id);
  };
  const word = effect === "deny" ? "Deny with this message" : "Allow with this message";
  return (
    <Dialog title={effect === "deny" ? `Tell ${askerName(row)} why not` : `Allow, and tell ${askerName(row)}`} onClose={() => answering.cancel()}>
      <textarea
        autofocus rows={4} aria-label="Message" value={text} onInput={(event) => setText(event.currentTarget.value)}
        placeholder={effect === "deny" ? "What it should do instead" : "What it should keep in mind"}
        onKeyDown={(event) => {
          const isSendChord = event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.repeat;
          if (isSendChord && effect === "deny" && text.trim()) send(event, "key:Mod+Enter");
        }}
      />
      {effect === "allow" && <WhatIsAllowed row={row} />}
      <div class="dialog-actions">
        <button onClick={() => answering.cancel()}>Back</button>
        <button class={effect === "deny" ? "bad" : "good"} disabled={text.trim() === ""} onClick={(event) => send(event, "button:words")}>{word}</button>
      </div>
    </Dialog>
  );
}

/** What the button of a form lets run, so that it can be read beside it. */
function WhatIsAllowed({ row }: { row: Approval }) {
  return <pre class="code-box" tabIndex={0}>{row.view?.command ?? row.view?.summary ?? line(row.action)}</pre>;
}

function EditForm({ row, answering }: FormProps) {
  const editable = editableCommand(row);
  const proposed = "command" in editable ? editable.command : "";
  const [command, setCommand] = useState(proposed);
  const approving = approvingOption(row);
  const isChanged = command !== proposed && command.trim() !== "";
  const send = (event: MouseEvent) => {
    if ("option" in approving) answering.confirm(clickAct(event, "edit"), { resolution: approving.option, edited_input: editedInput(row, command) });
  };
  return (
    <Dialog title="Edit the command, then allow it" wide onClose={() => answering.cancel()}>
      <textarea class="code" autofocus rows={6} spellcheck={false} aria-label="Command" value={command} onInput={(event) => setCommand(event.currentTarget.value)} />
      <EditedLines before={proposed} after={command} />
      <p class="muted small">The agent is told that its input was changed.</p>
      <div class="dialog-actions">
        <button onClick={() => answering.cancel()}>Back</button>
        <button class="good" disabled={!isChanged} onClick={send}>Allow the edited command</button>
      </div>
    </Dialog>
  );
}

/** Proposed against edited, without the lines that both have at their beginning and end. */
function EditedLines({ before, after }: { before: string; after: string }) {
  if (before === after) return <p class="muted small">Nothing is changed yet.</p>;
  const [old, edited] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < Math.min(old.length, edited.length) && old[start] === edited[start]) start++;
  let end = 0;
  while (end < Math.min(old.length, edited.length) - start && old.at(-1 - end) === edited.at(-1 - end)) end++;
  return (
    <div class="diff hunk-lines" aria-label="What you changed">
      {old.slice(start, old.length - end).map((text, index) => <div key={`-${index}`} class="diff-line removed"><span class="line-mark">−</span><span class="line-text">{text}</span></div>)}
      {edited.slice(start, edited.length - end).map((text, index) => <div key={`+${index}`} class="diff-line added"><span class="line-mark">+</span><span class="line-text">{text}</span></div>)}
    </div>
  );
}

function OptionsForm({ row, answering }: FormProps) {
  const [option, setOption] = useState<string | undefined>(undefined);
  const why = option !== undefined && allows(row, option) ? whyIncomplete(row) : undefined;
  const send = (event: MouseEvent) => {
    if (option === undefined) return;
    const act = clickAct(event, "option");
    if (allows(row, option)) answering.confirm(act, { resolution: option });
    else answering.deny(act, { resolution: option });
  };
  return (
    <Dialog title="Choose an answer" onClose={() => answering.cancel()}>
      <fieldset class="stack">
        <legend class="visually-hidden">Options</legend>
        {row.options.map((other) => (
          <label key={other} class="choice">
            <input type="radio" name="option" checked={other === option} onChange={() => setOption(other)} />
            <span>{line(other)}{allows(row, other) && <span class="good small"> allows it</span>}</span>
          </label>
        ))}
      </fieldset>
      <WhatIsAllowed row={row} />
      {why !== undefined && <p class="notice bad">{why}</p>}
      <div class="dialog-actions">
        <button onClick={() => answering.cancel()}>Back</button>
        <button class="primary" disabled={option === undefined || why !== undefined} onClick={send}>Send this answer</button>
      </div>
    </Dialog>
  );
}

function AlikeForm({ rows, answering }: { rows: Approval[]; answering: Answering }) {
  // As they were when the form was opened: one that comes later was not read about here.
  const [shown] = useState(rows);
  const [chosen, setChosen] = useState(new Set(rows.map((row) => row.id)));
  const [results, setResults] = useState<ManyResult[] | undefined>(undefined);
  const [isSending, setSending] = useState(false);
  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  const send = async (event: MouseEvent) => {
    const decision = secondAct(clickAct(event, "alike"));
    if (!isAccepted(decision) || decision.type !== "allow") return;
    setSending(true);
    const answers = shown.filter((row) => chosen.has(row.id)).flatMap((row) => {
      const approving = approvingOption(row);
      return "option" in approving ? [{ approval_id: row.id, resolution: approving.option, considered_ms: decision.considered_ms }] : [];
    });
    setResults(await answerMany(answers));
    setSending(false);
  };
  const first = shown[0];
  return (
    <Dialog title={`The same, asked ${plural(shown.length, "time")}`} onClose={() => answering.cancel()}>
      {first && <WhatIsAllowed row={first} />}
      <ul class="alike-list">
        {shown.map((row) => (
          <li key={row.id}>
            <label class="choice">
              <input type="checkbox" checked={chosen.has(row.id)} disabled={results !== undefined} onChange={() => toggle(row.id)} />
              <span class="grow"><strong>{askerName(row)}</strong>{row.cwd !== undefined && <span class="muted small"> in {folderName(row.cwd)}</span>}</span>
              <AlikeResult result={results?.find((result) => result.approval_id === row.id)} />
            </label>
          </li>
        ))}
      </ul>
      <p class="muted small">Each is answered and recorded by itself.</p>
      <div class="dialog-actions">
        <button onClick={() => answering.cancel()}>{results ? "Close" : "Back"}</button>
        {!results && <button class="good" disabled={chosen.size === 0 || isSending} onClick={(event) => void send(event)}>{isSending ? "Sending…" : `Allow ${chosen.size}, each once`}</button>}
      </div>
    </Dialog>
  );
}

function AlikeResult({ result }: { result: ManyResult | undefined }) {
  if (!result) return null;
  if (result.error) return <span class="bad small">{line(result.error.message)}</span>;
  return <span class="good small">✓ {line(result.approval?.state ?? "sent")}</span>;
}
