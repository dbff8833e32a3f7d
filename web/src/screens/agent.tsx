// One agent: its transcript, its changes and its terminals under one heading.

import { useState } from "preact/hooks";
import { interruptAgent } from "../agent_actions.ts";
import { hasEnded, usageTexts } from "../agent_facts.ts";
import { RouteLink } from "../app.tsx";
import { describeCallError } from "../call_errors.ts";
import { type CommandHandler, useCommands } from "../keys.ts";
import { AgentActions } from "../parts/agent_actions.tsx";
import { AgentDiffTab } from "../parts/agent_diff.tsx";
import { AgentTerminalsTab } from "../parts/agent_terminals.tsx";
import { AgentTranscript } from "../parts/agent_transcript.tsx";
import { CommandButton } from "../parts/command_button.tsx";
import { Icon } from "../parts/icon.tsx";
import { StateMark } from "../parts/state_mark.tsx";
import { showToast } from "../parts/toasts.tsx";
import { useLoaded } from "../parts/use_loaded.ts";
import { putAgent } from "../agent_actions.ts";
import { navigate } from "../route.ts";
import { call, canDecide, clock, hostState } from "../store.ts";
import { countdown, sandboxText } from "../text.ts";
import { line } from "../visible.ts";
import type { Agent } from "../wire_types.ts";

export type AgentTab = "transcript" | "diff" | "terminals";

const tabs: [AgentTab, string][] = [["transcript", "Transcript"], ["diff", "Changes"], ["terminals", "Terminals"]];

export function AgentScreen({ agentId, tab }: { agentId: string; tab: AgentTab }) {
  const agent = hostState.value.agents.get(agentId);
  if (!agent) return <MissingAgent agentId={agentId} />;
  return <KnownAgent agent={agent} tab={tab} />;
}

function MissingAgent({ agentId }: { agentId: string }) {
  const { error } = useLoaded(agentId, async () => putAgent(await call("host.agent", { agent_id: agentId })));
  return (
    <div class="empty">
      <p>{error ? "The host does not know this agent." : "Fetching it…"}</p>
      <RouteLink route={{ screen: "agents" }}>All agents</RouteLink>
    </div>
  );
}

function KnownAgent({ agent, tab }: { agent: Agent; tab: AgentTab }) {
  const [menu, setMenu] = useState<"menu" | "kill" | undefined>(undefined);
  useCommands(agentCommands(agent, tab, () => setMenu("menu")));
  return (
    <div class="screen-column">
      <header class="agent-head">
        <div class="agent-title">
          <RouteLink class="back-link" route={{ screen: "agents" }}><Icon name="back" /><span class="visually-hidden">All agents</span></RouteLink>
          <h1 class="ellipsis">{line(agent.name)}</h1>
          <StateMark agent={agent} />
        </div>
        <span class="agent-facts muted small">{headTexts(agent).join(" · ")}</span>
        <nav class="tabs" aria-label="Parts of this agent">
          {tabs.map(([name, word]) => <RouteLink key={name} class="tab" current={name === tab} route={{ screen: "agent", agentId: agent.id, tab: name }}>{word}</RouteLink>)}
        </nav>
        <span class="agent-buttons">
          {agent.managed?.turn && <CommandButton id="agent.interrupt">Interrupt</CommandButton>}
          {canDecide.value && agent.managed && !hasEnded(agent) && <button class="bad kill-button" onClick={() => setMenu("kill")}>Kill…</button>}
          <CommandButton id="agent.actions">Actions…</CommandButton>
        </span>
      </header>
      {agent.managed?.message && hasEnded(agent) && <p class="agent-ended small"><StateMark agent={agent} /> {line(agent.managed.message)}</p>}
      <TabContent key={agent.id} agent={agent} tab={tab} />
      {menu && <AgentActions agent={agent} first={menu === "kill" ? "kill" : undefined} onClose={() => setMenu(undefined)} />}
    </div>
  );
}

function TabContent({ agent, tab }: { agent: Agent; tab: AgentTab }) {
  if (tab === "diff") return <AgentDiffTab agent={agent} />;
  if (tab === "terminals") return <AgentTerminalsTab agent={agent} />;
  return <AgentTranscript agent={agent} />;
}

function headTexts(agent: Agent): string[] {
  const { managed } = agent;
  const turn = managed?.turn;
  return [
    line(managed?.agent ?? agent.kind),
    turn ? `turn ${turn.number}, ${countdown(clock.value - Date.parse(turn.started_at))}${turn.interrupted ? ", interrupted" : ""}` : "",
    ...usageTexts(agent),
    managed?.worktree ? line(managed.worktree.branch) : "",
    managed?.mode ? `mode ${line(managed.mode)}` : "",
    managed?.model ? line(managed.model) : "",
    managed?.sandbox && managed.sandbox.profile !== "open" ? `sandbox ${sandboxText(managed.sandbox)}` : "",
  ].filter(Boolean);
}

function agentCommands(agent: Agent, tab: AgentTab, onActions: () => void): Record<string, CommandHandler | undefined> {
  const interrupt = async () => {
    try {
      showToast({ text: await interruptAgent(agent) });
    } catch (error) {
      showToast({ text: describeCallError(error), tone: "bad" });
    }
  };
  const noTurn = () => (agent.managed?.turn ? undefined : "no turn runs");
  return {
    "agent.interrupt": { run: () => void interrupt(), whyNot: () => (canDecide.value ? noTurn() : "an observer cannot interrupt") },
    "agent.actions": { run: onActions },
    "agent.diff": { run: () => navigate({ screen: "agent", agentId: agent.id, tab: "diff" }) },
    "agent.terminals": { run: () => navigate({ screen: "agent", agentId: agent.id, tab: "terminals" }) },
    back: { run: () => navigate(tab === "transcript" ? { screen: "agents" } : { screen: "agent", agentId: agent.id, tab: "transcript" }) },
  };
}
