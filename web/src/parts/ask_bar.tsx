// What an agent asks, above its composer: one line, and on request the whole of it with everything that answers it.
// The answer goes through the same guard as in the inbox.

import { useEffect } from "preact/hooks";
import { askSummary, inlineId } from "../inbox_items.ts";
import { useCommands } from "../keys.ts";
import { isOpen } from "../state.ts";
import { clock, hostState } from "../store.ts";
import { age, plural } from "../text.ts";
import { line } from "../visible.ts";
import type { Agent, Approval, Question } from "../wire_types.ts";
import { CommandButton } from "./command_button.tsx";
import { ItemPane } from "./item_pane.tsx";
import { type ItemPlace, ItemPlaceContext } from "./item_place.ts";

const close = () => (inlineId.value = undefined);
/** An answer leads back to the transcript, whatever else waits. */
const inlinePlace: ItemPlace = { onAnswered: close, onBack: close, onNext: close };

export function AskBar({ agent }: { agent: Agent }) {
  const waiting = openOf(agent.id);
  const [first] = waiting;
  const shown = inlineId.value;
  useEffect(() => () => void close(), [agent.id]);
  useCommands({
    "agent.ask": first && shown === undefined ? { run: () => (inlineId.value = first.id) } : undefined,
    back: shown === undefined ? undefined : { run: close },
  });
  if (shown !== undefined) {
    return (
      <section class="ask-inline" aria-label="Ask of this agent">
        <ItemPlaceContext.Provider value={inlinePlace}><ItemPane key={shown} id={shown} /></ItemPlaceContext.Provider>
      </section>
    );
  }
  if (!first) return null;
  const others = waiting.length - 1;
  return (
    <p class="ask-bar">
      <span class="accent nowrap">{"options" in first ? "◐ it asks" : "? it asks"}</span>
      <code class="grow ellipsis">{"options" in first ? askSummary(first) : line(first.question)}</code>
      <span class="muted small nowrap">{age(first.created_at, clock.value)}{others > 0 && ` · ${plural(others, "more", "more")}`}</span>
      <CommandButton id="agent.ask">Read and answer</CommandButton>
    </p>
  );
}

/** What waits of one agent, asks first, oldest first. */
function openOf(agentId: string): (Approval | Question)[] {
  const { approvals, questions } = hostState.value;
  const asks = [...approvals.values()].filter((row) => row.agent_id === agentId && isOpen(row));
  const open = [...questions.values()].filter((row) => row.agent_id === agentId && row.state === "pending");
  return [...asks.sort((a, b) => a.sequence - b.sequence), ...open];
}
