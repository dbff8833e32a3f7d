// What an agent changed, and a review of it that is sent as one message.

import { useEffect, useState } from "preact/hooks";
import { sendMessage } from "../agent_actions.ts";
import { type CommandHandler, useCommands } from "../keys.ts";
import { readStored, writeStored } from "../stored_preferences.ts";
import { afterSending, digestOf, fileDigest, outdatedComments, type ReviewComment, reviewMessage, sinceReview } from "../review.ts";
import { changeReview, reviewOf } from "../review_store.ts";
import { call, canDecide, onHostEvent } from "../store.ts";
import { plural } from "../text.ts";
import { block, line } from "../visible.ts";
import type { DiffFile } from "../wire_agents.ts";
import type { Agent } from "../wire_types.ts";
import { CommandButton } from "./command_button.tsx";
import { Dialog } from "./dialog.tsx";
import { DiffCounts } from "./diff_view.tsx";
import { CommentView, type LineCursor, ReviewHunk } from "./review_hunk.tsx";
import { showToast } from "./toasts.tsx";
import { useAction } from "./use_action.ts";
import { useLoaded } from "./use_loaded.ts";

const SPLIT_KEY = "countersign.diff_split";
const SPLIT_MIN = "(min-width: 1100px)";

export function AgentDiffTab({ agent }: { agent: Agent }) {
  const loaded = useLoaded(`diff-${agent.id}`, () => call("host.agent_diff", { agent_id: agent.id, form: "hunks" }));
  const stale = useStale(agent.id, loaded.data);
  const [extra, setExtra] = useState<Record<string, DiffFile>>({});
  const [split, setSplit] = useState(readStored(SPLIT_KEY) === true);
  const [onlySince, setOnlySince] = useState(false);
  const [cursor, setCursor] = useState<LineCursor | undefined>(undefined);
  const [writes, setWrites] = useState(false);
  const [sends, setSends] = useState(false);
  const review = reviewOf(agent.id);
  const all = (loaded.data?.files ?? []).map((file) => extra[file.path] ?? file);
  const later = review.sent ? sinceReview(all, review) : [];
  const files = onlySince ? later : all;
  const toggleSplit = () => {
    writeStored(SPLIT_KEY, !split);
    setSplit(!split);
  };
  useCommands(diffCommands({ agent, files, cursor, setCursor, setWrites, toggleSplit, onSend: () => setSends(true) }));
  if (loaded.error) return <p class="notice bad diff-problem" role="alert">{loaded.error}</p>;
  if (!loaded.data) return <p class="empty muted">Loading its changes…</p>;
  if (all.length === 0) return <div class="empty"><p>{agent.managed?.worktree ? "It has changed nothing." : "It has no worktree of its own, so its changes are not known."}</p></div>;
  const loadFile = async (path: string) => {
    const { files: rows } = await call("host.agent_diff", { agent_id: agent.id, form: "hunks", path });
    const row = rows.find((file) => file.path === path);
    if (row) setExtra((before) => ({ ...before, [path]: row }));
  };
  return (
    <div class="diff-tab">
      <FileList agent={agent} files={files} all={all} cursor={cursor} />
      <div class="diff-files">
        <div class="diff-tools">
          <strong>{plural(all.length, "file")}</strong>
          <DiffCounts added={sum(all, "added")} removed={sum(all, "removed")} />
          <span class="grow" />
          {review.sent && (
            <div class="segmented" role="group" aria-label="Which changes">
              <button aria-pressed={!onlySince} onClick={() => setOnlySince(false)}>All</button>
              <button aria-pressed={onlySince} onClick={() => setOnlySince(true)}>Since your review ({later.length})</button>
            </div>
          )}
          <div class="segmented split-switch" role="group" aria-label="How changes are shown">
            <button aria-pressed={!split} onClick={() => split && toggleSplit()}>Unified</button>
            <button aria-pressed={split} onClick={() => !split && toggleSplit()}>Split</button>
          </div>
          <button class="small" onClick={loaded.reload} disabled={loaded.loading}>{loaded.loading ? "Loading…" : stale ? "Reload: it worked since" : "Reload"}</button>
        </div>
        {loaded.data.truncated && <p class="notice warn">There are more changes than are shown here. All of them: <code>countersign diff {line(agent.name)}</code></p>}
        <OutdatedComments agent={agent} comments={outdatedComments(review, all)} />
        {files.length === 0 && <p class="muted diff-problem">Nothing changed since your review.</p>}
        {files.map((file) => (
          <FileSection key={file.path} agent={agent} file={file} onLoad={loadFile}>
            {file.hunks?.map((hunk, index) => (
              <ReviewHunk
                key={digestOf(hunk)} agentId={agent.id} path={file.path} hunk={hunk} index={index} split={split && matchMedia(SPLIT_MIN).matches}
                cursor={cursor} writes={writes} onCursor={setCursor} onWrite={setWrites}
              />
            ))}
          </FileSection>
        ))}
      </div>
      {sends && <SendReview agent={agent} files={all} onClose={() => setSends(false)} />}
    </div>
  );
}

/** Whether the agent may have changed something since the changes were loaded. */
function useStale(agentId: string, data: unknown): boolean {
  const [stale, setStale] = useState(false);
  useEffect(() => {
    setStale(false);
    return onHostEvent((event) => {
      if (event.agent_id === agentId && ["turn.ended", "approval.resolved", "agent.exited"].includes(event.kind)) setStale(true);
    });
  }, [agentId, data]);
  return stale;
}

function sum(files: DiffFile[], key: "added" | "removed"): number {
  return files.reduce((total, file) => total + file[key], 0);
}

const sectionId = (path: string) => `file-${path}`;

function scrollToFile(path: string): void {
  document.getElementById(sectionId(path))?.scrollIntoView({ block: "start" });
}

interface FileListProps {
  agent: Agent;
  files: DiffFile[];
  all: DiffFile[];
  cursor: LineCursor | undefined;
}

function FileList({ agent, files, cursor }: FileListProps) {
  const review = reviewOf(agent.id);
  return (
    <nav class="diff-list" aria-label="Changed files">
      <ul>
        {files.map((file) => {
          const viewed = review.viewed[file.path] === fileDigest(file);
          return (
            <li key={file.path}>
              <button class={`plain ${cursor?.path === file.path ? "chosen" : ""}`} onClick={() => scrollToFile(file.path)}>
                <span aria-hidden="true">{viewed ? "✓" : "·"}</span>{viewed && <span class="visually-hidden">viewed: </span>}
                <span class={`grow ellipsis ${viewed ? "muted" : ""}`} title={line(file.path)}>{line(file.path)}</span>
                <DiffCounts added={file.added} removed={file.removed} />
              </button>
            </li>
          );
        })}
      </ul>
      <div class="review-box">
        <span class="small">{review.comments.length === 0 ? <span class="muted">No comments yet. <kbd>c</kbd> writes one on a line.</span> : `Review: ${plural(review.comments.length, "comment")}`}</span>
        <CommandButton id="diff.send" class="primary">Send as one message…</CommandButton>
      </div>
    </nav>
  );
}

interface FileSectionProps {
  agent: Agent;
  file: DiffFile;
  children: preact.ComponentChildren;
  onLoad(path: string): Promise<void>;
}

function FileSection({ agent, file, children, onLoad }: FileSectionProps) {
  const action = useAction();
  const viewed = reviewOf(agent.id).viewed[file.path] === fileDigest(file);
  return (
    <section id={sectionId(file.path)} class="diff file-section" aria-label={line(file.path)}>
      <header class="diff-head">
        <code class="grow">{file.from && <span class="muted">{line(file.from)} → </span>}{line(file.path)}</code>
        {file.status !== "modified" && <span class="muted small">{line(file.status.replace("_", " "))}</span>}
        <DiffCounts added={file.added} removed={file.removed} />
        <label class="viewed small"><input type="checkbox" checked={viewed} onChange={() => toggleViewed(agent, file)} /> Viewed</label>
      </header>
      {!viewed && children}
      {!viewed && file.binary && <p class="muted small diff-empty">A binary file: there are no lines to show.</p>}
      {!viewed && file.too_large && !file.hunks && (
        <p class="diff-empty">
          <button disabled={action.sending} onClick={() => void action.run(() => onLoad(file.path))}>{action.sending ? "Loading…" : "A large change: show it"}</button>
          {action.error && <span class="bad"> {action.error}</span>}
        </p>
      )}
    </section>
  );
}

function toggleViewed(agent: Agent, file: DiffFile): void {
  changeReview(agent.id, (review) => {
    const viewed = { ...review.viewed };
    if (viewed[file.path] === fileDigest(file)) delete viewed[file.path];
    else viewed[file.path] = fileDigest(file);
    return { ...review, viewed };
  });
}

function OutdatedComments({ agent, comments }: { agent: Agent; comments: ReviewComment[] }) {
  if (comments.length === 0) return null;
  return (
    <section class="notice warn outdated">
      <div class="stack grow">
        <strong>The code changed since you wrote {comments.length === 1 ? "this comment" : "these comments"}.</strong>
        {comments.map((comment) => (
          <div key={comment.id}>
            <span class="small muted">{line(comment.path)}, as it was:</span>
            <pre class="code-box">{comment.quoted.join("\n")}</pre>
            <CommentView agentId={agent.id} comment={comment} />
          </div>
        ))}
      </div>
    </section>
  );
}

function SendReview({ agent, files, onClose }: { agent: Agent; files: DiffFile[]; onClose(): void }) {
  const action = useAction();
  const { comments } = reviewOf(agent.id);
  const message = reviewMessage(comments);
  const send = async () => {
    const sent = await action.run(async () => showToast({ text: await sendMessage(agent, message) }));
    if (!sent) return;
    changeReview(agent.id, (review) => afterSending(review, files, new Date().toISOString()));
    onClose();
  };
  return (
    <Dialog title={`Send the review to ${line(agent.name)}`} wide onClose={onClose}>
      <p class="muted small">{agent.managed?.turn ? "It works: it gets the message when this turn ends." : "It gets exactly this as one message."}</p>
      <pre class="code-box review-text">{block(message)}</pre>
      {action.error && <p class="notice bad" role="alert">{action.error}</p>}
      <div class="dialog-actions">
        <button onClick={onClose}>Cancel</button>
        <button class="primary" disabled={action.sending} onClick={() => void send()}>{action.sending ? "Sending…" : `Send ${plural(comments.length, "comment")}`}</button>
      </div>
    </Dialog>
  );
}

interface DiffCommandContext {
  agent: Agent;
  files: DiffFile[];
  cursor: LineCursor | undefined;
  setCursor(cursor: LineCursor): void;
  setWrites(writes: boolean): void;
  toggleSplit(): void;
  onSend(): void;
}

function diffCommands({ agent, files, cursor, setCursor, setWrites, toggleSplit, onSend }: DiffCommandContext): Record<string, CommandHandler> {
  const lines = files.flatMap((file) => (file.hunks ?? []).flatMap((hunk, index) => hunk.lines.map((_, at): LineCursor => ({ path: file.path, hunk: index, from: at, to: at }))));
  const place = cursor === undefined ? -1 : lines.findIndex((row) => row.path === cursor.path && row.hunk === cursor.hunk && row.from === cursor.to);
  const go = (row: LineCursor | undefined) => {
    if (!row) return;
    setCursor(row);
    setWrites(false);
    requestAnimationFrame(() => document.querySelector(".diff-line.chosen")?.scrollIntoView({ block: "nearest" }));
  };
  const current = lines[place];
  const isStart = (row: LineCursor, index: number) => row.from === 0 && (index === 0 || lines[index - 1]?.hunk !== row.hunk || lines[index - 1]?.path !== row.path);
  const goFile = (step: 1 | -1) => {
    const index = files.findIndex((file) => file.path === current?.path);
    const file = files[Math.min(Math.max(index + step, 0), files.length - 1)];
    if (!file) return;
    go(lines.find((row) => row.path === file.path));
    scrollToFile(file.path);
  };
  const noLine = () => (cursor ? undefined : "no line is selected: j selects the first");
  const file = files.find((row) => row.path === current?.path);
  return {
    "diff.down": { run: () => go(lines[Math.min(place + 1, lines.length - 1)]) },
    "diff.up": { run: () => go(lines[Math.max(place - 1, 0)]) },
    "diff.next_file": { run: () => goFile(1) },
    "diff.previous_file": { run: () => goFile(-1) },
    "diff.next_hunk": { run: () => go(lines.find((row, index) => index > place && isStart(row, index))) },
    "diff.previous_hunk": { run: () => go(lines.findLast((row, index) => index < place && isStart(row, index))) },
    "diff.comment": { run: () => setWrites(true), whyNot: noLine },
    "diff.viewed": { run: () => file && toggleViewed(agent, file), whyNot: noLine },
    "diff.split": { run: toggleSplit },
    "diff.send": {
      run: onSend,
      whyNot: () => {
        if (!canDecide.value) return "an observer cannot send messages";
        return reviewOf(agent.id).comments.length > 0 ? undefined : "there are no comments to send";
      },
    },
  };
}
