// Writes to an agent. Above it stands what the agent asks.

import { sendMessage } from "../agent_actions.ts";
import { hasEnded } from "../agent_facts.ts";
import { RouteLink } from "../app.tsx";
import { askSummary } from "../inbox_items.ts";
import { useCommands } from "../keys.ts";
import { isOpen } from "../state.ts";
import { canDecide, clock, hostState, isLive } from "../store.ts";
import { age, plural } from "../text.ts";
import { line } from "../visible.ts";
import type { Agent } from "../wire_types.ts";
import { CommandButton } from "./command_button.tsx";
import { useDraft } from "./draft.ts";
import { showToast } from "./toasts.tsx";
import { useAction } from "./use_action.ts";

const COMPOSER_ID = "composer";

export function focusComposer(): void {
  document.getElementById(COMPOSER_ID)?.focus();
}

export function Composer({ agent }: { agent: Agent }) {
  const [text, setText] = useDraft(`message-${agent.id}`);
  const action = useAction();
  const whyNot = () => {
    if (!isLive.value) return "not connected: nothing can be sent";
    if (action.sending) return "sending…";
    return text.trim() ? undefined : "write a message first";
  };
  const send = async () => {
    const sent = await action.run(async () => showToast({ text: await sendMessage(agent, text) }));
    if (sent) setText("");
  };
  const possible = canDecide.value && agent.managed !== undefined && !agent.managed.archived;
  useCommands({ "agent.send": possible ? { run: () => void send(), whyNot } : undefined });
  if (!possible) return <p class="composer-closed muted small">{whyClosed(agent)}</p>;
  const queued = agent.managed?.queued ?? 0;
  return (
    <div class="composer">
      <textarea
        id={COMPOSER_ID} rows={2} value={text} aria-label={`Message to ${line(agent.name)}`} placeholder={placeholderOf(agent)}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <div class="composer-side">
        {queued > 0 && <span class="muted small nowrap">{queued} queued</span>}
        <CommandButton id="agent.send" class="primary">{action.sending ? "Sending…" : "Send"}</CommandButton>
      </div>
      {action.error && <p class="notice bad" role="alert">{action.error}</p>}
    </div>
  );
}

function placeholderOf(agent: Agent): string {
  const name = line(agent.name);
  if (hasEnded(agent)) return `Message to ${name}: it has ended, and the message restarts it`;
  return agent.managed?.turn ? `Message to ${name} (waits until this turn ends)` : `Message to ${name}`;
}

function whyClosed(agent: Agent): string {
  if (!canDecide.value) return "An observer can look, not write.";
  return agent.managed ? "It is archived: restore it to write to it." : "The host does not run this agent, so no message can reach it.";
}

/** What it asks, with the way to where it is answered: an answer is given only where the whole of it is shown. */
export function AskBar({ agent }: { agent: Agent }) {
  const { approvals, questions } = hostState.value;
  const asks = [...approvals.values()].filter((row) => row.agent_id === agent.id && isOpen(row)).sort((a, b) => a.sequence - b.sequence);
  const open = [...questions.values()].filter((row) => row.agent_id === agent.id && row.state === "pending");
  const first = asks[0] ?? open[0];
  if (!first) return null;
  const summary = "options" in first ? askSummary(first) : line(first.question);
  const others = asks.length + open.length - 1;
  return (
    <p class="ask-bar">
      <span class="accent nowrap">{"options" in first ? "◐ it asks" : "? it asks"}</span>
      <code class="grow ellipsis">{summary}</code>
      <span class="muted small nowrap">{age(first.created_at, clock.value)}{others > 0 && ` · ${plural(others, "more", "more")}`}</span>
      <RouteLink class="button" route={{ screen: "inbox", askId: first.id }}>Open</RouteLink>
    </p>
  );
}
