// Changes of files, drawn from hunks that the host computed.

import type { DiffHunk, DiffLine, FileEdit } from "../wire_types.ts";
import { plural } from "../text.ts";

/** Lines of a hunk that are drawn and read as one part. */
const CHUNK_LINES = 60;

export interface NumberedLine extends DiffLine {
  oldNumber?: number;
  newNumber?: number;
}

/** The lines of a hunk with their numbers, counted from its beginning. */
export function numberLines(hunk: DiffHunk): NumberedLine[] {
  let oldNumber = hunk.old_start;
  let newNumber = hunk.new_start;
  return hunk.lines.map((row) => ({
    ...row,
    oldNumber: row.kind === "added" ? undefined : oldNumber++,
    newNumber: row.kind === "removed" ? undefined : newNumber++,
  }));
}

export function chunk<Row>(rows: readonly Row[], size: number): Row[][] {
  const chunks: Row[][] = [];
  for (let start = 0; start < rows.length; start += size) chunks.push(rows.slice(start, start + size));
  return chunks;
}

const notes = { agent_copy: "compared with the agent's copy", whole_file: "the whole file is written" };

export function FileEditView({ edit }: { edit: FileEdit }) {
  return (
    <section class="diff" aria-label={`Changes of ${edit.path}`}>
      <header class="diff-head">
        <code class="grow">{edit.path}</code>
        <DiffCounts added={edit.added} removed={edit.removed} />
        {edit.note && <span class="muted small">{notes[edit.note]}</span>}
      </header>
      {edit.hunks.map((hunk, index) => <HunkView key={index} hunk={hunk} />)}
      {edit.hunks.length === 0 && <p class="muted small diff-empty" data-read>No line changes.</p>}
    </section>
  );
}

export function DiffCounts({ added, removed }: { added: number; removed: number }) {
  return (
    <span class="nowrap small" aria-label={`${plural(added, "line")} added, ${removed} removed`}>
      <span class="good">+{added}</span> <span class="bad">−{removed}</span>
    </span>
  );
}

export function HunkView({ hunk }: { hunk: DiffHunk }) {
  return (
    <div class="hunk">
      <div class="hunk-head muted">@@ −{hunk.old_start} +{hunk.new_start} @@ {hunk.header}</div>
      {chunk(numberLines(hunk), CHUNK_LINES).map((lines, index) => (
        <div key={index} class="hunk-lines" data-read>{lines.map((row, position) => <LineView key={position} row={row} />)}</div>
      ))}
    </div>
  );
}

const marks = { context: " ", added: "+", removed: "−" };
const kindWords = { context: "", added: "added: ", removed: "removed: " };

export function LineView({ row }: { row: NumberedLine }) {
  return (
    <div class={`diff-line ${row.kind}`}>
      <span class="line-number" aria-hidden="true">{row.oldNumber}</span>
      <span class="line-number" aria-hidden="true">{row.newNumber}</span>
      <span class="line-mark" aria-hidden="true">{marks[row.kind]}</span>
      <span class="line-text">
        {row.kind !== "context" && <span class="visually-hidden">{kindWords[row.kind]}</span>}
        {row.segments ? row.segments.map((part, index) => (part.changed ? <mark key={index}>{part.text}</mark> : part.text)) : row.text}
      </span>
    </div>
  );
}
