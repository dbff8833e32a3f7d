// Messages that wait for an agent. Each can be taken back until its turn begins.

import { useEffect } from "preact/hooks";
import { withdrawMessage } from "../agent_actions.ts";
import { call, clock, isLive } from "../store.ts";
import { agoText, whoName } from "../text.ts";
import { line } from "../visible.ts";
import type { QueuedMessage } from "../wire_agents.ts";
import type { Agent } from "../wire_types.ts";
import { useAction } from "./use_action.ts";
import { useLoaded } from "./use_loaded.ts";

interface MessageQueueProps {
  agent: Agent;
  onWithdrawn(text: string): void;
}

export function MessageQueue({ agent, onWithdrawn }: MessageQueueProps) {
  const waiting = useLoaded(agent.id, () => call("host.queued_messages", { agent_id: agent.id }));
  const { queued, turns, last_activity } = agent.managed ?? {};
  // Each event about the agent brings a new row of it, and may have changed what waits.
  useEffect(() => waiting.reload(), [queued, turns, last_activity]);
  const action = useAction();
  const withdraw = async (message: QueuedMessage) => {
    const taken = await action.run(async () => onWithdrawn(await withdrawMessage(agent, message.number)));
    // Whatever happened: the list may be older than that.
    if (!taken) waiting.reload();
  };
  if (!waiting.data?.length) return null;
  return (
    <div class="message-queue">
      <ol aria-label="Messages that wait">
        {waiting.data.map((message) => (
          <li key={message.number}>
            <span class="grow ellipsis">{line(message.text)}{message.truncated && "…"}</span>
            <span class="muted small nowrap wide-only">{whoName(message.sent_by)}, {agoText(message.sent_at, clock.value)}</span>
            {message.withdrawable && (
              <button class="plain small" disabled={action.sending || !isLive.value} aria-label={`Withdraw message ${message.number}`} onClick={() => void withdraw(message)}>
                Withdraw
              </button>
            )}
          </li>
        ))}
      </ol>
      {action.error && <p class="notice bad" role="alert">{action.error}</p>}
    </div>
  );
}
