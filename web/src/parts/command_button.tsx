// A button for a command of the table, with its key beside its word.

import type { ComponentChildren } from "preact";
import { clickAct, commandRow, commandsVersion, handlerOf, keyOf, keyText, runCommand } from "../keys.ts";
import { preferences } from "../preferences.ts";

interface CommandButtonProps {
  id: string;
  /** Instead of the table's word. */
  children?: ComponentChildren;
  class?: string;
}

export function CommandButton({ id, children, class: className }: CommandButtonProps) {
  const row = commandRow(id);
  // Read so that the button is drawn again when the command comes, goes or can be run.
  void commandsVersion.value;
  const why = handlerOf(id)?.whyNot?.();
  return (
    <button
      class={className}
      data-command={id}
      aria-disabled={why === undefined ? undefined : "true"}
      title={why}
      onClick={(event) => runCommand(id, clickAct(event, id))}
    >
      {preferences.value.letterKeys && <kbd aria-hidden="true">{keyText(keyOf(row))}</kbd>}
      <span>{children ?? row.word}</span>
    </button>
  );
}
