// The keys of this place, from the table of commands.

import { signal } from "@preact/signals";
import { availableCommands, type CommandPlace, keyOf, keyText } from "../keys.ts";
import { Dialog } from "./dialog.tsx";

export const helpOpen = signal(false);

const placeNames: Record<CommandPlace, string> = {
  anywhere: "Anywhere",
  list: "In the list",
  ask: "At an ask",
  confirm: "When asked for the second act",
  agent: "At an agent",
  diff: "In a diff",
  dialog: "In this dialog",
};

export function Help() {
  if (!helpOpen.value) return null;
  const rows = availableCommands();
  const places = (Object.keys(placeNames) as CommandPlace[]).filter((place) => rows.some((row) => row.where === place));
  return (
    <Dialog title="Keys" wide onClose={() => (helpOpen.value = false)}>
      <div class="help-columns">
        {places.map((place) => (
          <section key={place}>
            <h3>{placeNames[place]}</h3>
            <dl class="key-list">
              {rows.filter((row) => row.where === place).map((row) => (
                <div key={row.id}>
                  <dt>{[keyOf(row), ...(row.others ?? [])].map((key) => <kbd key={key}>{keyText(key)}</kbd>)}</dt>
                  <dd>{row.word}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <p class="muted small">Letters act only where nothing is typed. They can be changed or switched off in Settings.</p>
    </Dialog>
  );
}
