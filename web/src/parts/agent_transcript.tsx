// The transcript of an agent with its composer: opens at the end, and follows it only while it is in view.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { preferences } from "../preferences.ts";
import { type CommandHandler, useCommands } from "../keys.ts";
import { call, hostState, isLive } from "../store.ts";
import { plural } from "../text.ts";
import { countAfter, lineCount, shownItems, type TranscriptItem } from "../transcript.ts";
import { TranscriptFeed } from "../transcript_feed.ts";
import type { Agent, Approval } from "../wire_types.ts";
import { AskBar } from "./ask_bar.tsx";
import { Composer, focusComposer } from "./composer.tsx";
import { EndList, type EndListControl } from "./end_list.tsx";
import { PlanView, type TranscriptLook, TranscriptRow } from "./transcript_row.tsx";
import { useLoaded } from "./use_loaded.ts";

const ASKS_MAX = 200;
const ROW_PIXELS = 36;
const LINE_PIXELS = 21;
const LINE_CHARS = 110;

export function AgentTranscript({ agent }: { agent: Agent }) {
  const feed = useFeed(agent.id);
  const control = useRef<EndListControl | undefined>(undefined);
  const [atEnd, setAtEnd] = useState(true);
  const [seen, setSeen] = useState(0);
  const [formatted, setFormatted] = useState(preferences.value.formatted);
  const [foldedTurns, setFolded] = useState<ReadonlySet<number>>(new Set());
  const [openedKeys, setOpened] = useState<ReadonlySet<string>>(new Set());
  const asks = useAsks(agent.id, feed.loaded.value);
  const version = feed.version.value;
  const items = useMemo(() => shownItems(feed.items, foldedTurns), [feed, version, foldedTurns]);
  const lastSequence = feed.items.at(-1)?.sequence ?? 0;
  useEffect(() => {
    if (!atEnd) return;
    setSeen(lastSequence);
    feed.trim();
  }, [atEnd, lastSequence]);
  const look: TranscriptLook = {
    formatted, foldedTurns, openedKeys, asks,
    onFold: (turn) => setFolded((before) => toggled(before, turn)),
    onOpen: (key) => setOpened((before) => toggled(before, key)),
  };
  const toEnd = () => control.current?.scrollToEnd();
  useCommands(transcriptCommands(items, control, toEnd, () => setFormatted((before) => !before)));
  const newCount = atEnd ? 0 : countAfter(feed.items, seen);
  return (
    <div class="transcript">
      <div class="transcript-main">
        <FormatSwitch formatted={formatted} onChange={setFormatted} />
        {feed.error.value && <p class="notice bad" role="alert">{feed.error.value}</p>}
        {items.length === 0 ? <p class="empty muted">{feed.loaded.value ? "Nothing was said yet." : feed.error.value ? "" : "Loading…"}</p> : (
          <EndList
            count={items.length} estimate={(index) => rowPixels(items[index])} label="Transcript" control={control} onEnd={setAtEnd}
            onNearStart={() => void feed.loadOlder()} keyOf={(index) => items[index]?.key ?? ""}
            render={(index) => <TranscriptRow item={items[index]} look={look} />}
          />
        )}
        {!atEnd && <button class="new-chip" onClick={toEnd}>{newCount > 0 ? `${newCount} new` : "To the end"} ↓</button>}
      </div>
      <PlanAside agent={agent} />
      <div class="transcript-foot">
        <AskBar agent={agent} />
        <Composer agent={agent} />
      </div>
    </div>
  );
}

/** About how high an entry is: a list that takes a text of a hundred lines for one draws a hundred times too much. */
function rowPixels(item: TranscriptItem | undefined): number {
  if (item?.kind !== "assistant" && item?.kind !== "user") return ROW_PIXELS;
  return ROW_PIXELS + LINE_PIXELS * Math.max(lineCount(item.text) - 1, Math.floor(item.text.length / LINE_CHARS));
}

function useFeed(agentId: string): TranscriptFeed {
  const feed = useMemo(() => new TranscriptFeed(agentId), [agentId]);
  useEffect(() => () => feed.close(), [feed]);
  const live = isLive.value;
  useEffect(() => {
    if (live) void feed.refresh();
  }, [feed, live]);
  return feed;
}

/**
 * The asks of an agent by its tool calls: those that ended before, and those that events told of since. They are
 * fetched after the transcript, which is what a person waits for.
 */
function useAsks(agentId: string, ready: boolean): ReadonlyMap<string, Approval> {
  const fetchEarlier = () => call("host.approvals", { agent_id: agentId, status: "all", limit: ASKS_MAX });
  const earlier = useLoaded(ready ? `asks-${agentId}` : "", () => (ready ? fetchEarlier() : Promise.resolve([])));
  const { approvals } = hostState.value;
  return useMemo(() => {
    const rows = [...(earlier.data ?? []), ...[...approvals.values()].filter((row) => row.agent_id === agentId)];
    return new Map(rows.flatMap((row) => (row.tool_call_id === undefined ? [] : [[row.tool_call_id, row] as const])));
  }, [earlier.data, approvals, agentId]);
}

function toggled<Value>(values: ReadonlySet<Value>, value: Value): ReadonlySet<Value> {
  const changed = new Set(values);
  if (!changed.delete(value)) changed.add(value);
  return changed;
}

function FormatSwitch({ formatted, onChange }: { formatted: boolean; onChange(formatted: boolean): void }) {
  return (
    <div class="segmented format-switch" role="group" aria-label="How texts are shown">
      <button aria-pressed={formatted} onClick={() => onChange(true)}>Formatted</button>
      <button aria-pressed={!formatted} onClick={() => onChange(false)}>Text</button>
    </div>
  );
}

function PlanAside({ agent }: { agent: Agent }) {
  const plan = agent.managed?.plan ?? [];
  if (plan.length === 0) return null;
  const done = plan.filter((step) => step.status === "completed").length;
  return (
    <aside class="plan-aside" aria-label="Plan">
      <details open={matchMedia("(min-width: 1200px)").matches}>
        <summary><strong>Plan</strong> <span class="muted small">{done} of {plural(plan.length, "step")} done</span></summary>
        <PlanView steps={plan} />
      </details>
    </aside>
  );
}

type ControlRef = { current: EndListControl | undefined };

function transcriptCommands(items: TranscriptItem[], control: ControlRef, toEnd: () => void, onFormat: () => void): Record<string, CommandHandler> {
  const moveTurn = (direction: 1 | -1) => {
    const place = control.current?.firstInView() ?? 0;
    const turns = items.flatMap((item, index) => (item.kind === "turn" ? [index] : []));
    const target = direction === 1 ? turns.find((index) => index > place) : turns.findLast((index) => index < place);
    if (target !== undefined) control.current?.scrollToIndex(target);
    else if (direction === 1) toEnd();
  };
  return {
    "agent.follow": { run: toEnd },
    "agent.formatted": { run: onFormat },
    "agent.turn_before": { run: () => moveTurn(-1) },
    "agent.turn_after": { run: () => moveTurn(1) },
    "agent.compose": { run: focusComposer },
  };
}
