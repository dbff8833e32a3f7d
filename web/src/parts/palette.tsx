// The palette: every command that exists here, by its word.

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { availableCommands, type CommandPlace, type CommandRow, handlerOf, keyOf, keyText, runCommand } from "../keys.ts";
import { Dialog } from "./dialog.tsx";

// The typed attributes want a native list beside this role; ours is drawn here.
const comboboxRole: object = { role: "combobox" };

export const paletteOpen = signal(false);

const placeOrder: CommandPlace[] = ["ask", "agent", "diff", "anywhere", "list", "confirm", "dialog"];

/** Rows whose word or id has all words of the text, those that begin with it first. */
export function findCommands(rows: readonly CommandRow[], text: string): CommandRow[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = rows.filter((row) => words.every((word) => `${row.word} ${row.id}`.toLowerCase().includes(word)));
  const first = words[0] ?? "";
  const begins = (row: CommandRow) => Number(first !== "" && row.word.toLowerCase().startsWith(first));
  // What belongs to the thing that is open is what is looked for most.
  const rank = (row: CommandRow) => placeOrder.indexOf(row.where);
  return found.sort((a, b) => begins(b) - begins(a) || rank(a) - rank(b));
}

/** An allow is never one of them: its act has to be at the ask itself. Moving on by one is done with its key alone. */
function isListed(row: CommandRow): boolean {
  return row.where !== "confirm" && row.where !== "dialog" && row.id !== "palette" && !row.repeats;
}

export function Palette() {
  return paletteOpen.value ? <OpenPalette /> : null;
}

function OpenPalette() {
  const [text, setText] = useState("");
  const [index, setIndex] = useState(0);
  const rows = findCommands(availableCommands().filter(isListed), text);
  const close = () => (paletteOpen.value = false);
  const run = (row: CommandRow | undefined) => {
    close();
    if (row) setTimeout(() => runCommand(row.id, { trusted: true, place: "palette" }));
  };
  const move = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setIndex(Math.min(index + 1, rows.length - 1));
    else if (event.key === "ArrowUp") setIndex(Math.max(index - 1, 0));
    else if (event.key === "Enter" && !event.repeat && !event.isComposing) run(rows[index]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Commands" onClose={close}>
      <input
        type="text" {...comboboxRole} aria-label="Find a command" aria-expanded="true" aria-controls="palette-list"
        aria-activedescendant={rows[index] && `palette-${rows[index].id}`} placeholder="Find a command" autofocus
        value={text} onInput={(event) => { setText(event.currentTarget.value); setIndex(0); }} onKeyDown={move}
      />
      <ul id="palette-list" role="listbox" aria-label="Commands" class="palette-list">
        {rows.map((row, position) => {
          const why = handlerOf(row.id)?.whyNot?.();
          return (
            <li key={row.id} id={`palette-${row.id}`} role="option" aria-selected={position === index} onClick={() => run(row)} class="row spread">
              <span>{row.word}{why !== undefined && <span class="muted small"> · {why}</span>}</span>
              <kbd>{keyText(keyOf(row))}</kbd>
            </li>
          );
        })}
        {rows.length === 0 && <li class="muted">No command has these words.</li>}
      </ul>
    </Dialog>
  );
}
