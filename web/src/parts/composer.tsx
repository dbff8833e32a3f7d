// Writes to an agent.

import { sendMessage } from "../agent_actions.ts";
import { hasEnded } from "../agent_facts.ts";
import { useCommands } from "../keys.ts";
import { canDecide, isLive } from "../store.ts";
import { line } from "../visible.ts";
import type { Agent } from "../wire_types.ts";
import { CommandButton } from "./command_button.tsx";
import { MessageQueue } from "./message_queue.tsx";
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
  /** The text is written on here, before what was begun meanwhile. */
  const takeBack = (withdrawn: string) => {
    setText(text.trim() ? `${withdrawn}\n\n${text}` : withdrawn);
    focusComposer();
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
      {queued > 0 && <MessageQueue agent={agent} onWithdrawn={takeBack} />}
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
