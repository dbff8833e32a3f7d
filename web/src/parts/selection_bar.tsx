// What can be done with several selected asks: deny them, each by its own decision.

import { useState } from "preact/hooks";
import { type CommandHandler, useCommands } from "../keys.ts";
import type { InboxItem } from "../inbox_items.ts";
import { answerMany, describeMany } from "../answers.ts";
import { canDeny } from "../ask_facts.ts";
import { plural } from "../text.ts";
import { CommandButton } from "./command_button.tsx";
import { showToast } from "./toasts.tsx";

interface SelectionBarProps {
  ids: ReadonlySet<string>;
  items: InboxItem[];
  onDone(): void;
}

export function SelectionBar({ ids, items, onDone }: SelectionBarProps) {
  const [sending, setSending] = useState(false);
  const rows = items.flatMap((item) => (item.kind === "ask" && ids.has(item.id) && !item.ended ? [item.row, ...item.alike] : []));
  const deny = async () => {
    setSending(true);
    // An option that is called `deny` and counts as an approval must not be sent as a no.
    const results = await answerMany(rows.filter(canDeny).map((row) => ({ approval_id: row.id, resolution: "deny" })));
    setSending(false);
    showToast({ text: describeMany(results, "denied") });
    onDone();
  };
  const denyCommand: CommandHandler = { run: (act) => act.trusted !== false && !act.repeat && void deny(), whyNot: () => (sending ? "sending…" : rows.some(canDeny) ? undefined : "none of them can be denied") };
  useCommands({ "list.deny_selected": rows.length > 0 ? denyCommand : undefined });
  if (rows.length === 0) return null;
  return (
    <div class="selection-bar">
      <span class="grow">{plural(rows.length, "ask")} selected</span>
      <CommandButton id="list.deny_selected" class="bad">{sending ? "Sending…" : "Deny all"}</CommandButton>
      <button class="plain" onClick={onDone}>Clear</button>
    </div>
  );
}
