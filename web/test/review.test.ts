import assert from "node:assert/strict";
import { test } from "node:test";
import { splitRows } from "../src/diff_rows.ts";
import { afterSending, commentOn, commentsAt, emptyReview, outdatedComments, placeText, reviewMessage, sinceReview } from "../src/review.ts";
import type { DiffFile } from "../src/wire_agents.ts";
import type { DiffHunk } from "../src/wire_types.ts";

const hunk: DiffHunk = {
  old_start: 40, new_start: 50, digest: "d1",
  lines: [{ kind: "context", text: "a" }, { kind: "removed", text: "b" }, { kind: "added", text: "c" }, { kind: "added", text: "d" }, { kind: "context", text: "e" }],
};
const file: DiffFile = { path: "src/a.rs", status: "modified", added: 2, removed: 1, hunks: [hunk] };

test("lines are named by their new numbers, removed ones by their old", () => {
  assert.deepEqual([[2, 2], [2, 4], [1, 1], [0, 2]].map(([from = 0, to = 0]) => placeText(hunk, from, to)), ["line 51", "lines 51–53", "removed line 41", "lines 50–51"]);
});

test("a review is one message with path, lines and quoted code", () => {
  const comments = [commentOn("1", "src/a.rs", hunk, 1, 2, "handle \\r\\n as well\n"), commentOn("2", "src/a.rs", hunk, 4, 4, "why?")];
  assert.equal(
    reviewMessage(comments),
    "Review of your changes, 2 comments.\n\nsrc/a.rs, line 51:\n> -b\n> +c\n\nhandle \\r\\n as well\n\nsrc/a.rs, line 53:\n>  e\n\nwhy?",
  );
});

test("a comment stays with its hunk, and is outdated when the hunk changes", () => {
  const comment = commentOn("1", "src/a.rs", hunk, 2, 2, "x");
  const review = { ...emptyReview, comments: [comment] };
  assert.deepEqual(commentsAt(review, "src/a.rs", hunk), [comment]);
  assert.deepEqual(outdatedComments(review, [file]), []);
  assert.deepEqual(outdatedComments(review, [{ ...file, hunks: [{ ...hunk, digest: "d2" }] }]), [comment]);
  assert.deepEqual(outdatedComments(review, []), [comment]);
});

test("since a review only later hunks are shown", () => {
  const review = afterSending({ ...emptyReview, comments: [commentOn("1", "src/a.rs", hunk, 2, 2, "x")] }, [file], "2026-01-01T00:00:00Z");
  assert.deepEqual(review, { comments: [], viewed: {}, sent: { at: "2026-01-01T00:00:00Z", digests: ["d1"] } });
  assert.deepEqual(sinceReview([file], review), []);
  const later = { ...hunk, digest: "d2" };
  assert.deepEqual(sinceReview([{ ...file, hunks: [hunk, later] }], review), [{ ...file, hunks: [later] }]);
});

test("removed lines stand beside the added ones that follow them", () => {
  const lines = hunk.lines.map((row, index) => ({ ...row, index }));
  assert.deepEqual(splitRows(lines).map(({ left, right }) => [left?.text, right?.text]), [["a", "a"], ["b", "c"], [undefined, "d"], ["e", "e"]]);
});
