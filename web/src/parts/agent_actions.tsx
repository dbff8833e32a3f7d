// The actions of one agent: a menu, and a form for those that need more than a click.

import { useState } from "preact/hooks";
import { type AgentActionName, actionsFor, archiveAgent, interruptAgent, renameAgent } from "../agent_actions.ts";
import { canDecide, isLive } from "../store.ts";
import { line } from "../visible.ts";
import type { Agent } from "../wire_types.ts";
import { BypassForm, CeilingForm, ConfigureForm, ForkForm, KillForm, RenameForm, ResumeForm, SendForm } from "./agent_forms.tsx";
import { Dialog } from "./dialog.tsx";
import { StateMark } from "./state_mark.tsx";
import { showToast } from "./toasts.tsx";
import { useAction } from "./use_action.ts";

const actionWords: Record<AgentActionName, string> = {
  send: "Send a message…",
  interrupt: "Interrupt its turn",
  resume: "Resume its session…",
  fork: "Fork: a second agent from here…",
  configure: "Set mode or model…",
  rename: "Rename…",
  bypass: "Bypass: allow its asks without you…",
  ceiling: "Limit what it may approve…",
  archive: "Archive",
  restore: "Restore from the archive",
  kill: "Kill…",
};

const forms = {
  send: SendForm, resume: ResumeForm, fork: ForkForm, configure: ConfigureForm, rename: RenameForm, bypass: BypassForm, ceiling: CeilingForm, kill: KillForm,
};

type FormName = keyof typeof forms;

interface AgentActionsProps {
  agent: Agent;
  /** Begins with the form of one action instead of the menu. */
  first?: FormName;
  onClose(): void;
}

export function AgentActions({ agent, first, onClose }: AgentActionsProps) {
  const [form, setForm] = useState<FormName | undefined>(first);
  if (form === undefined) return <ActionMenu agent={agent} onForm={setForm} onClose={onClose} />;
  const Form = forms[form];
  return (
    <Dialog title={`${actionWords[form].replace("…", "")}: ${line(agent.name)}`} onClose={onClose}>
      <Form agent={agent} onClose={onClose} />
    </Dialog>
  );
}

interface ActionMenuProps {
  agent: Agent;
  onForm(name: FormName): void;
  onClose(): void;
}

function ActionMenu({ agent, onForm, onClose }: ActionMenuProps) {
  const action = useAction();
  const run = async (name: AgentActionName) => {
    if (name in forms) return onForm(name as FormName);
    if (await action.run(() => runAtOnce(agent, name))) onClose();
  };
  return (
    <Dialog title={line(agent.name)} onClose={onClose}>
      <p class="row"><StateMark agent={agent} /></p>
      {!canDecide.value && <p class="muted">An observer can look, not act.</p>}
      <ul class="action-list">
        {canDecide.value && actionsFor(agent).map((name) => (
          <li key={name}>
            <button class={`plain ${name === "kill" ? "bad" : ""}`} disabled={!isLive.value || action.sending} onClick={() => void run(name)}>
              {actionWords[name]}
            </button>
          </li>
        ))}
      </ul>
      {action.error && <p class="notice bad" role="alert">{action.error}</p>}
    </Dialog>
  );
}

/** The actions that need nothing more. What can be taken back offers it. */
async function runAtOnce(agent: Agent, name: AgentActionName): Promise<void> {
  if (name === "interrupt") return showToast({ text: await interruptAgent(agent) });
  const archived = name === "archive";
  const text = await archiveAgent(agent, archived);
  showToast({ text, action: { word: "Undo", run: () => void undo(() => archiveAgent(agent, !archived)) } });
}

export async function undo(request: () => Promise<string>): Promise<void> {
  try {
    showToast({ text: await request() });
  } catch {
    showToast({ text: "It could not be taken back.", tone: "bad" });
  }
}

/** Renames, and offers to take it back. */
export async function renameWithUndo(agent: Agent, name: string): Promise<void> {
  const text = await renameAgent(agent, name);
  showToast({ text, action: { word: "Undo", run: () => void undo(() => renameAgent({ ...agent, name }, agent.name)) } });
}
