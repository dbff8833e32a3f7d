// Lines of a hunk side by side. Pure.

import type { NumberedLine } from "./parts/diff_view.tsx";

export interface IndexedLine extends NumberedLine {
  /** Its place in the hunk. */
  index: number;
}

export interface SplitRow {
  left?: IndexedLine;
  right?: IndexedLine;
}

/** Removed lines beside the added ones that follow them; context on both sides. */
export function splitRows(lines: readonly IndexedLine[]): SplitRow[] {
  const rows: SplitRow[] = [];
  let removed: IndexedLine[] = [];
  let added: IndexedLine[] = [];
  const flush = () => {
    for (let index = 0; index < Math.max(removed.length, added.length); index++) rows.push({ left: removed[index], right: added[index] });
    removed = [];
    added = [];
  };
  for (const row of lines) {
    if (row.kind === "removed" && added.length > 0) flush();
    if (row.kind === "removed") removed.push(row);
    else if (row.kind === "added") added.push(row);
    else {
      flush();
      rows.push({ left: row, right: row });
    }
  }
  flush();
  return rows;
}
