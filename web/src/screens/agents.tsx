// All agents: those that need somebody first, each below its orchestrator.

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { type AgentGroup, type AgentTreeRow, contextPercent, costText, groupNames, groupOf, listAgents, stateLook, waitingText } from "../agent_facts.ts";
import { RouteLink } from "../app.tsx";
import { type CommandHandler, useCommands } from "../keys.ts";
import { AgentActions } from "../parts/agent_actions.tsx";
import { CommandButton } from "../parts/command_button.tsx";
import { SpawnSheet } from "../parts/spawn_sheet.tsx";
import { StateMark } from "../parts/state_mark.tsx";
import { VirtualList } from "../parts/virtual_list.tsx";
import { navigate } from "../route.ts";
import { canDecide, clock, hasSnapshot, hostState } from "../store.ts";
import { age, folderName, formatCount } from "../text.ts";
import { line } from "../visible.ts";
import type { Agent } from "../wire_types.ts";

const ROW_PIXELS = 60;
const searchText = signal("");
const activeId = signal<string | undefined>(undefined);
const showsArchived = signal(false);

type ListRow = { heading: AgentGroup; count: number } | AgentTreeRow;

export function AgentsScreen() {
  const [actionsFor, setActionsFor] = useState<string | undefined>(undefined);
  const [spawns, setSpawns] = useState(false);
  const shown = shownAgents();
  const rows = withHeadings(shown);
  const agents = rows.flatMap((row) => ("agent" in row ? [row.agent] : []));
  useCommands(listCommands(agents, setActionsFor, () => setSpawns(true)));
  const activeRow = rows.findIndex((row) => "agent" in row && row.agent.id === activeId.value);
  const acted = actionsFor === undefined ? undefined : hostState.value.agents.get(actionsFor);
  return (
    <div class="screen-column">
      <header class="screen-head">
        <h1>Agents</h1>
        <input
          id="agents-search" type="search" placeholder="Search" aria-label="Search agents" value={searchText}
          onInput={(event) => (searchText.value = event.currentTarget.value)}
        />
        <CommandButton id="agents.spawn" class="primary">Start an agent…</CommandButton>
      </header>
      {shown.length === 0 ? <NoAgents /> : (
        <VirtualList
          count={rows.length} estimate={() => ROW_PIXELS} label="Agents" role="list" active={activeRow}
          keyOf={(index) => rowKey(rows[index])}
          render={(index) => <Row row={rows[index]} onActions={setActionsFor} />}
        />
      )}
      {acted && <AgentActions agent={acted} onClose={() => setActionsFor(undefined)} />}
      {spawns && <SpawnSheet onClose={() => setSpawns(false)} />}
    </div>
  );
}

function shownAgents(): AgentTreeRow[] {
  const words = searchText.value.toLowerCase().split(/\s+/).filter(Boolean);
  return listAgents(hostState.value.agents.values()).filter(({ agent }) => {
    const text = [agent.name, agent.kind, agent.managed?.title, agent.managed?.cwd, agent.project, stateLook(agent).word].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

function withHeadings(agents: AgentTreeRow[]): ListRow[] {
  const rows: ListRow[] = [];
  let group: AgentGroup | undefined;
  for (const row of agents) {
    if (row.group !== group) {
      group = row.group;
      rows.push({ heading: group, count: agents.filter((other) => groupOf(other.agent) === group).length });
    }
    if (row.group !== "archived" || showsArchived.value || searchText.value) rows.push(row);
  }
  return rows;
}

function rowKey(row: ListRow | undefined): string {
  if (!row) return "";
  return "agent" in row ? row.agent.id : `heading-${row.heading}`;
}

interface RowProps {
  row: ListRow | undefined;
  onActions(id: string): void;
}

function Row({ row, onActions }: RowProps) {
  if (!row) return null;
  if ("agent" in row) return <AgentRow row={row} onActions={onActions} />;
  if (row.heading !== "archived") return <div role="listitem"><h2 class="list-heading">{groupNames[row.heading]} · {row.count}</h2></div>;
  return (
    <div role="listitem">
      <h2 class="list-heading">
        <button class="plain small" aria-expanded={showsArchived.value} onClick={() => (showsArchived.value = !showsArchived.value)}>
          {showsArchived.value ? "▾" : "▸"} {groupNames.archived} · {row.count}
        </button>
      </h2>
    </div>
  );
}

function AgentRow({ row: { agent, depth }, onActions }: { row: AgentTreeRow; onActions(id: string): void }) {
  const isActive = agent.id === activeId.value;
  return (
    <div
      id={`agent-${agent.id}`} role="listitem" aria-current={isActive ? "true" : undefined} class={`agent-row depth-${Math.min(depth, 4)} ${isActive ? "active" : ""}`}
      onClick={() => openAgent(agent)}
    >
      <span class="agent-name">
        <RouteLink class="agent-link-name ellipsis" route={{ screen: "agent", agentId: agent.id, tab: "transcript" }}>{line(agent.name)}</RouteLink>
        <span class="muted small ellipsis">{kindText(agent)}</span>
      </span>
      <span class="agent-state"><StateMark agent={agent} /><WaitingWords agent={agent} /></span>
      <span class="agent-task small muted ellipsis">{taskText(agent)}</span>
      <UsageCells agent={agent} />
      <time class="agent-age small muted nowrap" dateTime={agent.managed?.last_activity ?? agent.updated_at}>
        {age(agent.managed?.last_activity ?? agent.updated_at, clock.value)}
      </time>
      <button
        class="plain agent-more" aria-label={`Actions for ${line(agent.name)}`}
        onClick={(event) => { event.stopPropagation(); activeId.value = agent.id; onActions(agent.id); }}
      >⋯</button>
    </div>
  );
}

function WaitingWords({ agent }: { agent: Agent }) {
  const text = waitingText(agent);
  const bypassed = agent.bypass_until !== undefined && Date.parse(agent.bypass_until) > clock.value;
  return <>{text && <span class="small muted nowrap">{text}</span>}{bypassed && <span class="small warn nowrap">bypassed</span>}</>;
}

function UsageCells({ agent }: { agent: Agent }) {
  const percent = contextPercent(agent);
  const usage = agent.managed?.usage;
  const tokens = (usage?.tokens_in ?? 0) + (usage?.tokens_out ?? 0);
  return (
    <span class="agent-usage small">
      <span class={percent !== undefined && percent >= 80 ? "warn" : "muted"} title="How full its context is">{percent === undefined ? "" : `ctx ${percent}%`}</span>
      <span class="muted" title="Tokens read and written">{tokens > 0 ? `${formatCount(tokens)} tok` : ""}</span>
      <span title="What it says it cost">{usage?.cost_micro_usd === undefined ? "" : costText(usage.cost_micro_usd)}</span>
    </span>
  );
}

function kindText(agent: Agent): string {
  const { managed } = agent;
  const role = managed?.role === "orchestrator" ? "orchestrator" : "";
  return [line(managed?.agent ?? agent.kind), role].filter(Boolean).join(" · ");
}

function taskText(agent: Agent): string {
  const { managed } = agent;
  const place = managed?.worktree ? line(managed.worktree.branch) : managed ? folderName(managed.cwd) : line(agent.project ?? "");
  const task = agent.state === "error" ? managed?.message : agent.current_task ?? managed?.title;
  return [place, line(task ?? "")].filter(Boolean).join(" · ");
}

function NoAgents() {
  if (!hasSnapshot.value) return <p class="empty muted">Connecting to the host…</p>;
  return (
    <div class="empty">
      <p>{searchText.value ? "No agent has these words." : "No agents yet"}</p>
      {!searchText.value && <p class="muted small">Start one here, or with <code>countersign spawn</code> in a terminal.</p>}
    </div>
  );
}

function openAgent(agent: Agent | undefined): void {
  if (!agent) return;
  activeId.value = agent.id;
  navigate({ screen: "agent", agentId: agent.id, tab: "transcript" });
}

function listCommands(agents: Agent[], onActions: (id: string) => void, onSpawn: () => void): Record<string, CommandHandler | undefined> {
  const index = agents.findIndex((agent) => agent.id === activeId.value);
  const moveTo = (position: number) => (activeId.value = agents[Math.min(Math.max(position, 0), agents.length - 1)]?.id);
  const empty = () => (agents.length === 0 ? "no agents" : undefined);
  const unselected = () => (agents[index] ? undefined : "no agent is selected");
  return {
    "list.down": { run: () => moveTo(index + 1), whyNot: empty },
    "list.up": { run: () => moveTo(index < 0 ? 0 : index - 1), whyNot: empty },
    "list.first": { run: () => moveTo(0), whyNot: empty },
    "list.last": { run: () => moveTo(agents.length - 1), whyNot: empty },
    "list.open": { run: () => openAgent(agents[index]), whyNot: unselected },
    "list.actions": { run: () => onActions(agents[index]?.id ?? ""), whyNot: unselected },
    "agents.spawn": { run: onSpawn, whyNot: () => (canDecide.value ? undefined : "an observer cannot start agents") },
    search: { run: () => document.getElementById("agents-search")?.focus() },
  };
}
