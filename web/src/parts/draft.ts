// Text that is being written, kept in this tab until it is sent: a reload or a lost session does not lose it.

import { useState } from "preact/hooks";

const keyOf = (id: string) => `countersign.draft.${id}`;

function readDraft(id: string): string {
  try {
    return sessionStorage.getItem(keyOf(id)) ?? "";
  } catch {
    return "";
  }
}

function writeDraft(id: string, text: string): void {
  try {
    if (text) sessionStorage.setItem(keyOf(id), text);
    else sessionStorage.removeItem(keyOf(id));
  } catch {
    return;
  }
}

export function clearDraft(id: string): void {
  writeDraft(id, "");
}

export function useDraft(id: string): [string, (text: string) => void] {
  const [text, setText] = useState(() => readDraft(id));
  return [text, (next) => {
    setText(next);
    writeDraft(id, next);
  }];
}
