// The keys, each of which can be changed.

import { useState } from "preact/hooks";
import { type CommandPlace, type CommandRow, commandTable, keyOf, keyText, pressedKey } from "../keys.ts";
import { preferences, setPreference } from "../preferences.ts";

const placeNames: Record<CommandPlace, string> = {
  anywhere: "Anywhere", list: "In a list", ask: "At an ask", confirm: "When asked for the second act", agent: "At an agent", diff: "In a diff", dialog: "In a dialog",
};

/** Another command that has a key where both would act. */
export function conflictOf(rows: readonly CommandRow[], row: CommandRow, key: string, keyFor: (row: CommandRow) => string): CommandRow | undefined {
  const meets = (other: CommandRow) => other.where === row.where || other.where === "anywhere" || row.where === "anywhere";
  return rows.find((other) => other.id !== row.id && meets(other) && [keyFor(other), ...(other.others ?? [])].includes(key));
}

export function KeySettings() {
  const [changing, setChanging] = useState<string | undefined>(undefined);
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const changed = preferences.value.changedKeys;
  const take = (row: CommandRow, event: KeyboardEvent) => {
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "Escape") return setChanging(undefined);
    const key = pressedKey(event);
    if (key === undefined || event.repeat) return;
    const other = conflictOf(commandTable, row, key, keyOf);
    if (other) return setProblem(`${keyText(key)} is “${other.word}” already`);
    setPreference("changedKeys", { ...changed, [row.id]: key });
    setProblem(undefined);
    setChanging(undefined);
  };
  // The second act of an allow keeps its keys: what was learned for it must not come to mean something else.
  const places = (Object.keys(placeNames) as CommandPlace[]).filter((place) => place !== "confirm" && commandTable.some((row) => row.where === place));
  return (
    <section class="card stack" aria-label="Keys">
      <h2>Keys</h2>
      <label class="choice"><input type="checkbox" checked={preferences.value.letterKeys} onChange={(event) => setPreference("letterKeys", event.currentTarget.checked)} /> <span>Single letters act as commands</span></label>
      {problem && <p class="warn small" role="alert">{problem}</p>}
      <div class="help-columns">
        {places.map((place) => (
          <section key={place}>
            <h3>{placeNames[place]}</h3>
            <dl class="key-list">
              {commandTable.filter((row) => row.where === place).map((row) => (
                <div key={row.id}>
                  <dt>
                    <button class="plain key-button" aria-label={changing === row.id ? "press a key" : `${keyText(keyOf(row))}: change the key of ${row.word}`} onClick={() => { setChanging(row.id); setProblem(undefined); }} onBlur={() => changing === row.id && setChanging(undefined)} onKeyDown={(event) => changing === row.id && take(row, event)}>
                      {changing === row.id ? <span class="accent small">press a key</span> : <kbd>{keyText(keyOf(row))}</kbd>}
                    </button>
                  </dt>
                  <dd>{row.word}{changed[row.id] !== undefined && <span class="muted small"> (changed)</span>}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      {Object.keys(changed).length > 0 && <div><button onClick={() => setPreference("changedKeys", {})}>Put all keys back</button></div>}
    </section>
  );
}
