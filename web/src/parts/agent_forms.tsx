// Forms for what can be done with one agent. Each says what the host answered before it closes.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { putAgent, sendMessage, setBypass } from "../agent_actions.ts";
import { hasEnded, runningBelow } from "../agent_facts.ts";
import { navigate } from "../route.ts";
import { call, clock, hostState } from "../store.ts";
import { plural, shortSpan } from "../text.ts";
import { line } from "../visible.ts";
import type { ChildrenFate } from "../wire_agents.ts";
import type { Agent } from "../wire_types.ts";
import { renameWithUndo } from "./agent_actions.tsx";
import { showToast } from "./toasts.tsx";
import { useAction } from "./use_action.ts";

interface FormProps {
  agent: Agent;
  onClose(): void;
}

interface ActionFormProps {
  word: string;
  tone?: "primary" | "bad";
  whyNot?: string;
  children?: ComponentChildren;
  request(): Promise<unknown>;
  onClose(): void;
}

/** A form with one button. It stays open and says why if the host refuses. */
function ActionForm({ word, tone = "primary", whyNot, children, request, onClose }: ActionFormProps) {
  const action = useAction();
  const submit = async (event: Event) => {
    event.preventDefault();
    if (whyNot === undefined && (await action.run(request))) onClose();
  };
  return (
    <form class="stack" onSubmit={(event) => void submit(event)}>
      {children}
      {action.error && <p class="notice bad" role="alert">{action.error}</p>}
      <div class="dialog-actions">
        <button type="button" onClick={onClose}>Cancel</button>
        <button type="submit" class={tone} disabled={action.sending || whyNot !== undefined} title={whyNot}>{action.sending ? "Sending…" : word}</button>
      </div>
    </form>
  );
}

export function SendForm({ agent, onClose }: FormProps) {
  const [text, setText] = useState("");
  const note = hasEnded(agent) ? "It has ended: the message restarts it." : agent.managed?.turn ? "It works: the message waits until this turn ends." : "";
  return (
    <ActionForm word="Send" whyNot={text.trim() ? undefined : "write something first"} onClose={onClose} request={async () => showToast({ text: await sendMessage(agent, text) })}>
      <label class="stack"><span>Message</span><textarea value={text} onInput={(event) => setText(event.currentTarget.value)} /></label>
      {note && <p class="muted small">{note}</p>}
    </ActionForm>
  );
}

export function KillForm({ agent, onClose }: FormProps) {
  const below = runningBelow(agent, hostState.value.agents.values());
  const [fate, setFate] = useState<ChildrenFate | undefined>(undefined);
  const request = async () => {
    putAgent(await call("host.kill_agent", { agent_id: agent.id, ...(below.length > 0 ? { children: fate } : {}) }));
    showToast({ text: `ending ${line(agent.name)}…` });
  };
  const whyNot = below.length > 0 && fate === undefined ? "choose what becomes of the agents below it" : undefined;
  return (
    <ActionForm word="Kill" tone="bad" whyNot={whyNot} onClose={onClose} request={request}>
      <p>Its process ends now. {agent.managed?.resumable ? "Its session can be resumed." : "Its session cannot be resumed."}</p>
      {below.length > 0 && (
        <fieldset class="stack">
          <legend>{plural(below.length, "agent runs", "agents run")} below it: {below.map((row) => line(row.name)).join(", ")}</legend>
          <Choice name="fate" value="keep" chosen={fate} onChoose={setFate}>They keep running; you answer what they ask</Choice>
          <Choice name="fate" value="end" chosen={fate} onChoose={setFate}>They end as well</Choice>
        </fieldset>
      )}
    </ActionForm>
  );
}

interface ChoiceProps<Value extends string> {
  name: string;
  value: NoInfer<Value>;
  chosen: Value | undefined;
  onChoose(value: NoInfer<Value>): void;
  children: ComponentChildren;
}

export function Choice<Value extends string>({ name, value, chosen, onChoose, children }: ChoiceProps<Value>) {
  return (
    <label class="choice"><input type="radio" name={name} checked={value === chosen} onChange={() => onChoose(value)} /> <span>{children}</span></label>
  );
}

export function ResumeForm({ agent, onClose }: FormProps) {
  const request = async () => {
    // The host answers when the agent has started, which takes as long as the agent does.
    putAgent(await call("host.resume_agent", { agent_id: agent.id }, 120_000));
    showToast({ text: `resumed ${line(agent.name)}` });
  };
  return <ActionForm word="Resume" onClose={onClose} request={request}><p>It restarts and continues its session.</p></ActionForm>;
}

export function ForkForm({ agent, onClose }: FormProps) {
  const [name, setName] = useState("");
  const [prompt, setPrompt] = useState("");
  const request = async () => {
    const params = { agent_id: agent.id, ...(name.trim() && { name: name.trim() }), ...(prompt.trim() && { prompt }) };
    const row = await call("host.fork_agent", params, 120_000);
    putAgent(row);
    showToast({ text: `started ${line(row.name)}`, action: { word: "Open", run: () => navigate({ screen: "agent", agentId: row.id, tab: "transcript" }) } });
  };
  return (
    <ActionForm word="Fork" onClose={onClose} request={request}>
      <p>A second agent starts with a copy of its session; this one is not changed.</p>
      <label class="stack"><span>Name <span class="muted">(optional)</span></span><input type="text" value={name} onInput={(event) => setName(event.currentTarget.value)} /></label>
      <label class="stack"><span>First message <span class="muted">(optional)</span></span><textarea value={prompt} onInput={(event) => setPrompt(event.currentTarget.value)} /></label>
    </ActionForm>
  );
}

export function RenameForm({ agent, onClose }: FormProps) {
  const [name, setName] = useState(agent.name);
  const whyNot = name.trim() && name !== agent.name ? undefined : "write another name";
  return (
    <ActionForm word="Rename" whyNot={whyNot} onClose={onClose} request={() => renameWithUndo(agent, name.trim())}>
      <label class="stack"><span>New name</span><input type="text" value={name} onInput={(event) => setName(event.currentTarget.value)} /></label>
      <p class="muted small">Rules for agents with the old name stop applying to it.</p>
    </ActionForm>
  );
}

export function ConfigureForm({ agent, onClose }: FormProps) {
  const [mode, setMode] = useState(agent.managed?.mode ?? "");
  const [model, setModel] = useState(agent.managed?.model ?? "");
  const changed = { ...(mode.trim() && mode !== agent.managed?.mode && { mode: mode.trim() }), ...(model.trim() && model !== agent.managed?.model && { model: model.trim() }) };
  const request = async () => {
    putAgent(await call("host.configure_agent", { agent_id: agent.id, ...changed }));
    const set = Object.entries(changed).map(([word, value]) => `${word} set to ${line(value)}`);
    showToast({ text: `${line(agent.name)}: ${set.join(", ")}` });
  };
  return (
    <ActionForm word="Set" whyNot={Object.keys(changed).length > 0 ? undefined : "change one of them"} onClose={onClose} request={request}>
      <label class="stack"><span>Mode</span><input type="text" value={mode} placeholder="the agent's own default" onInput={(event) => setMode(event.currentTarget.value)} /></label>
      <label class="stack"><span>Model</span><input type="text" value={model} placeholder="the agent's own default" onInput={(event) => setModel(event.currentTarget.value)} /></label>
      <p class="muted small">By the agent's own names for them.</p>
    </ActionForm>
  );
}

const MINUTE_MS = 60_000;
const bypassSpans = [["15", "15 minutes"], ["60", "1 hour"], ["240", "4 hours"], ["1440", "24 hours, the longest there is"]] as const;
type BypassMinutes = (typeof bypassSpans)[number][0];

export function BypassForm({ agent, onClose }: FormProps) {
  const [minutes, setMinutes] = useState<BypassMinutes>("15");
  const until = agent.bypass_until === undefined ? 0 : Date.parse(agent.bypass_until);
  if (until > clock.value) {
    return (
      <ActionForm word="End the bypass" onClose={onClose} request={async () => showToast({ text: await setBypass(agent, null) })}>
        <p>Its asks are allowed without you for another {shortSpan(until - clock.value)}.</p>
      </ActionForm>
    );
  }
  return (
    <ActionForm word="Allow without asking" tone="bad" onClose={onClose} request={async () => showToast({ text: await setBypass(agent, Number(minutes) * MINUTE_MS), tone: "warn" })}>
      <p>Everything {line(agent.name)} asks is allowed without a person, except what rules deny.</p>
      <fieldset class="stack">
        <legend>For how long</legend>
        {bypassSpans.map(([value, word]) => <Choice key={value} name="bypass" value={value} chosen={minutes} onChoose={setMinutes}>{word}</Choice>)}
      </fieldset>
    </ActionForm>
  );
}

export function CeilingForm({ agent, onClose }: FormProps) {
  const [text, setText] = useState((agent.managed?.ceiling?.rules ?? []).join("\n"));
  const rules = text.split("\n").map((rule) => rule.trim()).filter(Boolean);
  const request = async () => {
    putAgent(await call("host.set_ceiling", { agent_id: agent.id, rules }));
    showToast({ text: rules.length === 0 ? `${line(agent.name)} may approve nothing` : `${line(agent.name)} may approve ${rules.map(line).join(", ")}` });
  };
  return (
    <ActionForm word="Set" onClose={onClose} request={request}>
      <p>An orchestrator answers asks of the agents it started only within these rules. Without any it may approve nothing.</p>
      <label class="stack">
        <span>Rules, one per line</span>
        <textarea class="code" value={text} placeholder="Bash(cargo test:*)" onInput={(event) => setText(event.currentTarget.value)} />
      </label>
    </ActionForm>
  );
}
