// A review of an agent's changes: comments on lines, what was viewed, and the one message that it becomes. Pure.
//
// Comments belong to a hunk by its digest, so that a comment on code that changed since says so.

import type { DiffFile } from "./wire_agents.ts";
import type { DiffHunk } from "./wire_types.ts";

export interface ReviewComment {
  id: string;
  path: string;
  digest: string;
  /** Where it was in the file when it was written, for people. */
  place: string;
  /** Places in the hunk, from zero. */
  from: number;
  to: number;
  /** The lines as they were, each with its mark. */
  quoted: string[];
  text: string;
}

export interface Review {
  comments: ReviewComment[];
  /** Digests of files as they were when they were marked as viewed, by path. */
  viewed: Record<string, string>;
  /** Hunks that existed when the last review was sent. */
  sent?: { at: string; digests: string[] };
}

export const emptyReview: Review = { comments: [], viewed: {} };

/** Changes whenever a hunk of the file does. */
export function fileDigest(file: DiffFile): string {
  const digests = (file.hunks ?? []).map((hunk) => digestOf(hunk));
  return [file.status, file.added, file.removed, ...digests].join(" ");
}

/** The host's digest of a hunk; its text where there is none. */
export function digestOf(hunk: DiffHunk): string {
  return hunk.digest ?? hunk.lines.map((row) => `${row.kind[0]}${row.text}`).join("\n");
}

const lineMarks = { context: " ", added: "+", removed: "-" };

/** A comment on lines of a hunk, counted from zero. */
export function commentOn(id: string, path: string, hunk: DiffHunk, from: number, to: number, text: string): ReviewComment {
  const quoted = hunk.lines.slice(from, to + 1).map((row) => `${lineMarks[row.kind]}${row.text}`);
  return { id, path, digest: digestOf(hunk), place: placeText(hunk, from, to), from, to, quoted, text };
}

/** Lines in words: by their new numbers, by their old ones where all of them are removed. */
export function placeText(hunk: DiffHunk, from: number, to: number): string {
  const rows = hunk.lines.slice(from, to + 1);
  const side = rows.every((row) => row.kind === "removed") ? "removed" : "added";
  const numberAt = (index: number) => {
    const before = hunk.lines.slice(0, index).filter((row) => row.kind === "context" || row.kind === side).length;
    return (side === "removed" ? hunk.old_start : hunk.new_start) + before;
  };
  const counted = hunk.lines.flatMap((row, index) => (index >= from && index <= to && (row.kind === "context" || row.kind === side) ? [numberAt(index)] : []));
  const first = counted[0] ?? numberAt(from);
  const last = counted.at(-1) ?? first;
  const word = side === "removed" ? "removed line" : "line";
  return first === last ? `${word} ${first}` : `${word}s ${first}–${last}`;
}

/** The comments of a file that belong to one of its hunks as it is now. */
export function commentsAt(review: Review, path: string, hunk: DiffHunk): ReviewComment[] {
  return review.comments.filter((comment) => comment.path === path && comment.digest === digestOf(hunk));
}

/** Comments on code that changed since they were written, or is no longer changed at all. */
export function outdatedComments(review: Review, files: readonly DiffFile[]): ReviewComment[] {
  const known = new Set(files.flatMap((file) => (file.hunks ?? []).map((hunk) => `${file.path}\n${digestOf(hunk)}`)));
  const unread = new Set(files.filter((file) => file.too_large && !file.hunks).map((file) => file.path));
  return review.comments.filter((comment) => !unread.has(comment.path) && !known.has(`${comment.path}\n${comment.digest}`));
}

/** All comments as one message to the agent. */
export function reviewMessage(comments: readonly ReviewComment[]): string {
  const count = comments.length === 1 ? "1 comment" : `${comments.length} comments`;
  const sections = comments.map(({ path, place, quoted, text }) => `${path}, ${place}:\n${quoted.map((row) => `> ${row}`).join("\n")}\n\n${text.trim()}`);
  return [`Review of your changes, ${count}.`, ...sections].join("\n\n");
}

/** The review after it was sent: its comments are gone, and what is there now counts as reviewed. */
export function afterSending(review: Review, files: readonly DiffFile[], at: string): Review {
  return { ...review, comments: [], sent: { at, digests: files.flatMap((file) => (file.hunks ?? []).map(digestOf)) } };
}

/** Only the hunks that are new since the last review was sent. */
export function sinceReview(files: readonly DiffFile[], review: Review): DiffFile[] {
  const reviewed = new Set(review.sent?.digests ?? []);
  return files
    .map((file) => ({ ...file, hunks: file.hunks?.filter((hunk) => !reviewed.has(digestOf(hunk))) }))
    .filter((file) => (file.hunks?.length ?? 0) > 0);
}
