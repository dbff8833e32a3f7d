// One hunk that can be commented on, line by line.

import { useEffect, useRef, useState } from "preact/hooks";
import { type IndexedLine, splitRows } from "../diff_rows.ts";
import { commentOn, commentsAt, type ReviewComment } from "../review.ts";
import { changeReview, reviewOf } from "../review_store.ts";
import type { DiffHunk } from "../wire_types.ts";
import { block } from "../visible.ts";
import { numberLines } from "./diff_view.tsx";

/** Lines that the keys stand on: in which hunk of which file, and from where to where. */
export interface LineCursor {
  path: string;
  hunk: number;
  from: number;
  to: number;
}

interface ReviewHunkProps {
  agentId: string;
  path: string;
  hunk: DiffHunk;
  index: number;
  split: boolean;
  cursor: LineCursor | undefined;
  /** Whether a comment is being written at the cursor. */
  writes: boolean;
  onCursor(cursor: LineCursor): void;
  onWrite(writes: boolean): void;
}

export function ReviewHunk(props: ReviewHunkProps) {
  const { agentId, path, hunk, index, split, cursor, writes, onCursor, onWrite } = props;
  const lines: IndexedLine[] = numberLines(hunk).map((row, position) => ({ ...row, index: position }));
  const comments = commentsAt(reviewOf(agentId), path, hunk);
  const here = cursor?.path === path && cursor.hunk === index ? cursor : undefined;
  const choose = (line: number, extends_: boolean) => {
    const from = extends_ && here ? Math.min(here.from, line) : line;
    const to = extends_ && here ? Math.max(here.to, line) : line;
    onCursor({ path, hunk: index, from, to });
  };
  const below = (line: number) => (
    <>
      {comments.filter((comment) => comment.to === line).map((comment) => <CommentView key={comment.id} agentId={agentId} comment={comment} />)}
      {writes && here?.to === line && (
        <CommentForm
          onCancel={() => onWrite(false)}
          onSave={(text) => {
            changeReview(agentId, (review) => ({ ...review, comments: [...review.comments, commentOn(newId(), path, hunk, here.from, here.to, text)] }));
            onWrite(false);
          }}
        />
      )}
    </>
  );
  const isHere = (row: IndexedLine | undefined) => row !== undefined && here !== undefined && row.index >= here.from && row.index <= here.to;
  const begin = (line: number) => { choose(line, isHere(lines[line])); onWrite(true); };
  return (
    <div class="hunk">
      <div class="hunk-head muted">@@ −{hunk.old_start} +{hunk.new_start} @@ {hunk.header}</div>
      {split ? splitRows(lines).map((row, position) => (
        <div key={position}>
          <div class="split-row">
            <LineCell row={row.left} number={row.left?.oldNumber} chosen={isHere(row.left)} onChoose={choose} onComment={begin} />
            <LineCell row={row.right} number={row.right?.newNumber} chosen={isHere(row.right)} onChoose={choose} onComment={begin} />
          </div>
          {row.left && row.left !== row.right && below(row.left.index)}
          {row.right && below(row.right.index)}
        </div>
      )) : lines.map((row) => (
        <div key={row.index}>
          <LineCell row={row} number={row.newNumber ?? row.oldNumber} chosen={isHere(row)} onChoose={choose} onComment={begin} />
          {below(row.index)}
        </div>
      ))}
    </div>
  );
}

function newId(): string {
  return `${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 8)}`;
}

const marks = { context: " ", added: "+", removed: "−" };
const kindWords = { context: "", added: "added: ", removed: "removed: " };

interface LineCellProps {
  row: IndexedLine | undefined;
  number: number | undefined;
  chosen: boolean;
  onChoose(index: number, extend: boolean): void;
  onComment(index: number): void;
}

function LineCell({ row, number, chosen, onChoose, onComment }: LineCellProps) {
  if (!row) return <div class="diff-line nothing" />;
  return (
    <div class={`diff-line ${row.kind} ${chosen ? "chosen" : ""}`} onClick={(event) => onChoose(row.index, event.shiftKey)}>
      <span class="line-number" aria-hidden="true">{number}</span>
      <span class="line-mark" aria-hidden="true">{marks[row.kind]}</span>
      <span class="line-text">
        {row.kind !== "context" && <span class="visually-hidden">{kindWords[row.kind]}</span>}
        {row.segments ? row.segments.map((part, index) => (part.changed ? <mark key={index}>{part.text}</mark> : part.text)) : row.text}
      </span>
      <button class="plain comment-button" tabIndex={-1} aria-label="Comment on this line" onClick={(event) => { event.stopPropagation(); onComment(row.index); }}>+</button>
    </div>
  );
}

export function CommentView({ agentId, comment }: { agentId: string; comment: ReviewComment }) {
  const [edits, setEdits] = useState(false);
  const change = (text: string | undefined) => changeReview(agentId, (review) => ({
    ...review,
    comments: review.comments.flatMap((other) => (other.id !== comment.id ? [other] : text === undefined ? [] : [{ ...other, text }])),
  }));
  if (edits) return <CommentForm text={comment.text} onCancel={() => setEdits(false)} onSave={(text) => { change(text); setEdits(false); }} />;
  return (
    <div class="comment">
      <div class="grow"><span class="muted small">{comment.place}</span><div class="plain-text">{block(comment.text)}</div></div>
      <button class="plain small" onClick={() => setEdits(true)}>Edit</button>
      <button class="plain small" onClick={() => change(undefined)}>Delete</button>
    </div>
  );
}

interface CommentFormProps {
  text?: string;
  onSave(text: string): void;
  onCancel(): void;
}

/** Opened by a person at this line, so it may take the focus. */
function CommentForm({ text: before = "", onSave, onCancel }: CommentFormProps) {
  const [text, setText] = useState(before);
  const element = useRef<HTMLTextAreaElement>(null);
  useEffect(() => element.current?.focus(), []);
  const save = () => text.trim() && onSave(text);
  const handleKey = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save();
    else if (event.key === "Escape" && !text.trim()) onCancel();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="comment stack">
      <textarea
        ref={element} rows={3} value={text} aria-label="Comment" placeholder="Comment, kept here until the review is sent"
        onInput={(event) => setText(event.currentTarget.value)} onKeyDown={handleKey}
      />
      <div class="dialog-actions">
        <button onClick={onCancel}>Cancel</button>
        <button class="primary" disabled={!text.trim()} onClick={save}>{before ? "Save" : "Add comment"}</button>
      </div>
    </div>
  );
}
