// What an ask is about, in the order in which it is read: what would run, its parts, warnings, the agent's words.

import { useState } from "preact/hooks";
import { effectMark, exactInput, ruleSource, whyIncomplete } from "../ask_facts.ts";
import { isBrief } from "../state.ts";
import { call } from "../store.ts";
import { askerName, plural, sandboxText, shortId } from "../text.ts";
import { block, line } from "../visible.ts";
import type { Approval, AskView, TranscriptEntry, VerdictPart } from "../wire_types.ts";
import { FileEditView } from "./diff_view.tsx";
import { Icon } from "./icon.tsx";
import { LongText } from "./long_text.tsx";

interface AskContentProps {
  row: Approval;
  showsInput: boolean;
  /** Its questions stand above, and are what it is about. */
  asksPeople: boolean;
}

export function AskContent({ row, showsInput, asksPeople }: AskContentProps) {
  const rawInput = exactInput(row);
  return (
    <>
      {!asksPeople && <WhatRuns row={row} />}
      <Warnings row={row} />
      {!asksPeople && <Parts parts={row.verdict?.parts ?? []} />}
      {row.sandbox && <p class="muted small">Sandbox: {sandboxText(row.sandbox)}</p>}
      {showsInput && rawInput !== undefined && <Labelled title="Exact input"><LongText class="code-box" text={rawInput} /></Labelled>}
      <AgentWords row={row} />
      {row.agent_id !== undefined && <RecentTranscript agentId={row.agent_id} />}
    </>
  );
}

function Labelled({ title, children }: { title: string; children: preact.ComponentChildren }) {
  return <section class="labelled"><h3>{title}</h3>{children}</section>;
}

function WhatRuns({ row }: { row: Approval }) {
  if (row.view && !isBrief(row)) return <ViewedInput row={row} view={row.view} />;
  const why = whyIncomplete(row);
  return (
    <>
      {/* Without the input, what it wants to do is known by the agent's words alone. */}
      {row.view ? <LongText class="code-box" text={row.view.summary} /> : <blockquote class="agent-words" data-read>{block(row.action)}</blockquote>}
      {why !== undefined && <p class="notice warn" data-read><Icon name="warning" /><span>It cannot be approved here: {why}.</span></p>}
    </>
  );
}

function ViewedInput({ row, view }: { row: Approval; view: AskView }) {
  const hasPicture = view.command !== undefined || view.edits.length > 0;
  return (
    <>
      {view.command !== undefined && <LongText class="code-box command" text={view.command} />}
      {view.edits.map((edit, index) => <FileEditView key={index} edit={edit} />)}
      {!hasPicture && <LongText class="code-box" text={view.rest_text ?? view.input_text ?? block(row.action)} />}
      {hasPicture && view.rest_text !== undefined && <Labelled title="Also in its input"><LongText class="code-box" text={view.rest_text} /></Labelled>}
    </>
  );
}

/** The host's warnings are escaped already. */
function Warnings({ row }: { row: Approval }) {
  const warnings = [...(row.view?.warnings ?? [])];
  if (row.repeats !== undefined && !row.view) warnings.push(`An ask for exactly the same (${shortId(row.repeats)}) was allowed before, and it may already have run.`);
  return (
    <>
      {warnings.map((warning) => <p key={warning} class="notice warn" data-read><Icon name="warning" /><span>{warning}</span></p>)}
    </>
  );
}

function Parts({ parts }: { parts: VerdictPart[] }) {
  if (parts.length === 0) return null;
  return (
    <Labelled title="What your rules say">
      <ul class="verdict-parts" data-read>
        {parts.map((part, index) => (
          <li key={index} class={part.effect}>
            <span class="effect" aria-hidden="true">{effectMark(part.effect)}</span>
            <code class="grow">{line(part.subject)}</code>
            <span class="small nowrap">{part.effect === "ask" ? "asks you" : part.effect}</span>
            <span class="muted small rule-source" title={part.rule?.rule === undefined ? undefined : line(part.rule.rule)}>{line(ruleSource(part))}</span>
            {part.reason !== undefined && <span class="muted small part-reason">{line(part.reason)}</span>}
          </li>
        ))}
      </ul>
    </Labelled>
  );
}

function AgentWords({ row }: { row: Approval }) {
  const title = row.view?.title;
  const details = row.view?.details_text;
  if (title === undefined && details === undefined) return null;
  return (
    <Labelled title={`In the words of ${askerName(row)}`}>
      <blockquote class="agent-words">
        {title !== undefined && <p>{title}</p>}
        {details !== undefined && <details><summary class="small">More that it sent</summary><LongText text={details} /></details>}
      </blockquote>
    </Labelled>
  );
}

const RECENT_ENTRIES = 20;

function RecentTranscript({ agentId }: { agentId: string }) {
  const [entries, setEntries] = useState<TranscriptEntry[] | string | undefined>(undefined);
  const load = async () => {
    try {
      const page = await call("host.transcript", { agent_id: agentId, from_end: true, limit: RECENT_ENTRIES });
      setEntries(page.parts.flatMap((part) => part.entries).slice(-RECENT_ENTRIES));
    } catch (error) {
      setEntries(error instanceof Error ? line(error.message) : "could not be fetched");
    }
  };
  return (
    <details class="recent" onToggle={(event) => { if (event.currentTarget.open && entries === undefined) void load(); }}>
      <summary>What it did before</summary>
      {entries === undefined && <p class="muted small">loading…</p>}
      {typeof entries === "string" && <p class="muted small">{entries}</p>}
      {Array.isArray(entries) && <ol>{entries.map((entry, index) => <li key={index}><EntryLine entry={entry} /></li>)}</ol>}
      {Array.isArray(entries) && entries.length === 0 && <p class="muted small">Nothing yet.</p>}
    </details>
  );
}

function EntryLine({ entry }: { entry: TranscriptEntry }) {
  switch (entry.type) {
    case "user":
      return <p><span class="muted">&gt; </span>{block(entry.text)}</p>;
    case "assistant":
      return <p>{block(entry.text)}</p>;
    case "thinking":
    case "notice":
      return <p class="muted">{block(entry.text)}</p>;
    case "tool_use":
      return <p><span class="muted">* {line(entry.tool ?? "tool")} </span>{line(entry.title ?? "")}</p>;
    case "tool_result":
      return <p class="muted small">{line(entry.status)}{entry.text ? `, ${plural(entry.text.split("\n").length, "line")}` : ""}</p>;
    case "plan":
      return <p class="muted">{plural(entry.steps.length, "step")} planned</p>;
    case "other":
      return <p class="muted">another update</p>;
  }
}
