// One entry of a transcript.

import { RouteLink } from "../app.tsx";
import { isOpen } from "../state.ts";
import { folderName, formatTime, plural, whoName } from "../text.ts";
import { lineCount, type TranscriptItem, type ToolItem, type TurnItem } from "../transcript.ts";
import { block, line } from "../visible.ts";
import type { Approval, PlanStep } from "../wire_types.ts";
import { FormattedText } from "./formatted_text.tsx";

/** Of a longer result only the beginning is drawn until a person asks for all of it. */
const RESULT_LINES_MAX = 400;

export interface TranscriptLook {
  formatted: boolean;
  foldedTurns: ReadonlySet<number>;
  openedKeys: ReadonlySet<string>;
  /** Asks by the agent's id of the tool call. */
  asks: ReadonlyMap<string, Approval>;
  onFold(turn: number): void;
  onOpen(key: string): void;
}

export function TranscriptRow({ item, look }: { item: TranscriptItem | undefined; look: TranscriptLook }) {
  switch (item?.kind) {
    case undefined:
      return null;
    case "turn":
      return <TurnHeading item={item} look={look} />;
    case "user":
      return (
        <div class="entry user">
          <span class="entry-mark" aria-hidden="true">{item.from === undefined ? "›" : "^"}</span>
          <div class="grow">
            {item.from !== undefined && <span class="muted small">from {line(item.from)}</span>}
            <div class="plain-text">{block(item.text)}</div>
          </div>
          <time class="muted small" dateTime={item.at}>{formatTime(item.at)}</time>
        </div>
      );
    case "assistant":
      return <div class="entry assistant">{look.formatted ? <FormattedText text={item.text} /> : <div class="plain-text">{block(item.text)}</div>}</div>;
    case "thinking":
      return (
        <details class="entry thinking" open={look.openedKeys.has(item.key)} onToggle={(event) => event.currentTarget.open !== look.openedKeys.has(item.key) && look.onOpen(item.key)}>
          <summary class="muted small">thought · {plural(lineCount(item.text), "line")}</summary>
          <div class="plain-text muted">{block(item.text)}</div>
        </details>
      );
    case "notice":
      return <p class="entry muted small">{line(item.text)}</p>;
    case "plan":
      return <p class="entry muted small">changed its plan: {item.steps.filter((step) => step.status === "completed").length} of {plural(item.steps.length, "step")} done</p>;
    case "tool":
      return <ToolEntry item={item} look={look} />;
    case "other":
      return <p class="entry muted small">an update of a kind that this page does not know</p>;
  }
}

function TurnHeading({ item, look }: { item: TurnItem; look: TranscriptLook }) {
  const folded = look.foldedTurns.has(item.turn);
  return (
    <div class="turn-heading">
      <button class="plain small" aria-expanded={!folded} onClick={() => look.onFold(item.turn)}>
        <span aria-hidden="true">{folded ? "▸" : "▾"}</span> {item.turn === 0 ? "before the first turn" : `turn ${item.turn}`}
      </button>
      {folded && <span class="muted small ellipsis">{line(item.message ?? "")} · {plural(item.count, "entry", "entries")}</span>}
    </div>
  );
}

const toolMarks: Record<string, [shape: string, word: string, tone: string]> = {
  pending: ["◌", "waiting", "muted"],
  in_progress: ["●", "running", "good"],
  completed: ["✓", "done", "muted"],
  failed: ["✕", "failed", "bad"],
};

function ToolEntry({ item, look }: { item: ToolItem; look: TranscriptLook }) {
  const ask = look.asks.get(item.id);
  const opened = look.openedKeys.has(item.key);
  const [shape, word, tone] = toolMarks[item.status ?? ""] ?? ["·", item.status ?? "", "muted"];
  const lines = item.result === undefined ? 0 : lineCount(item.result);
  return (
    <div class="entry tool">
      <div class="tool-line">
        <span class={`nowrap ${tone}`} title={word}><span aria-hidden="true">{shape}</span><span class="visually-hidden">{word}</span></span>
        <strong class="nowrap">{line(item.tool ?? "tool")}</strong>
        <code class="ellipsis grow">{toolSubject(item, ask)}</code>
        {ask && <AskMark ask={ask} />}
        {lines > 0 && <button class="plain small nowrap" aria-expanded={opened} onClick={() => look.onOpen(item.key)}>{opened ? "▾" : "▸"} {plural(lines, "line")}</button>}
      </div>
      {opened && <ToolResult text={item.result ?? ""} />}
    </div>
  );
}

/** What was done. The host's words about its ask come first: the title is what the agent says. */
function toolSubject(item: ToolItem, ask: Approval | undefined): string {
  const summary = ask?.view?.summary;
  if (summary === undefined) return line(item.title ?? "");
  const prefix = `${ask?.tool}: `;
  return summary.startsWith(prefix) ? summary.slice(prefix.length) : summary;
}

function ToolResult({ text }: { text: string }) {
  const lines = text.split("\n");
  const cut = lines.length > RESULT_LINES_MAX;
  return (
    <div class="tool-result">
      <pre>{block(cut ? lines.slice(0, RESULT_LINES_MAX).join("\n") : text)}</pre>
      {cut && <p class="muted small">The first {RESULT_LINES_MAX} of {lines.length} lines. All of it: <code>countersign logs</code></p>}
    </div>
  );
}

/** Who allowed or denied it, or that it waits. */
function AskMark({ ask }: { ask: Approval }) {
  const tone = isOpen(ask) ? "accent" : ask.state === "denied" ? "bad" : "muted";
  return <span class={`small nowrap ${tone}`}><RouteLink route={{ screen: "inbox", askId: ask.id }}>{askOutcome(ask)}</RouteLink></span>;
}

export function askOutcome(ask: Approval): string {
  if (isOpen(ask)) return "◐ it asks";
  const word = { allowed: "allowed", denied: "denied", answered: "answered" }[ask.state as string] ?? ask.state;
  const rule = ask.verdict?.parts.map((part) => part.rule).find((row) => row !== undefined);
  const byRule = ask.resolved_by?.role === "host" && rule;
  if (byRule) return `${word} by ${rule.grant ? "a remembered rule" : `${folderName(rule.source)}${rule.line === undefined ? "" : `:${rule.line}`}`}`;
  return ask.resolved_by ? `${word} by ${whoName(ask.resolved_by)}` : word;
}

const stepMarks: Record<string, [shape: string, word: string]> = { pending: ["○", "not begun"], in_progress: ["◐", "under way"], completed: ["✓", "done"] };

export function PlanView({ steps }: { steps: PlanStep[] }) {
  return (
    <ol class="plan">
      {steps.map((step, index) => {
        const [shape, word] = stepMarks[step.status] ?? ["·", step.status];
        return (
          <li key={index} class={step.status === "completed" ? "muted" : ""}>
            <span aria-hidden="true">{shape}</span><span class="visually-hidden">{word}: </span><span>{line(step.text)}</span>
          </li>
        );
      })}
    </ol>
  );
}
