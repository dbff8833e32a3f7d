// What lists and headings say about an agent. Pure.

import { formatCount, plural } from "./text.ts";
import type { Agent, AgentState } from "./wire_types.ts";

export interface StateLook {
  shape: string;
  word: string;
  tone: "" | "good" | "bad" | "warn" | "accent" | "muted";
}

const looks: Record<AgentState, StateLook> = {
  starting: { shape: "◌", word: "starting", tone: "muted" },
  running: { shape: "●", word: "running", tone: "good" },
  idle: { shape: "○", word: "idle", tone: "" },
  awaiting_permission: { shape: "◐", word: "asks", tone: "accent" },
  waiting: { shape: "◌", word: "waiting", tone: "" },
  paused: { shape: "○", word: "paused", tone: "" },
  done: { shape: "✓", word: "done", tone: "muted" },
  error: { shape: "✕", word: "error", tone: "bad" },
  stopped: { shape: "■", word: "stopped", tone: "muted" },
  unknown: { shape: "·", word: "unknown", tone: "muted" },
};

/** Shape, word and tone of an agent's state. What waits for a person counts more than what it does meanwhile. */
export function stateLook(agent: Agent): StateLook {
  if ((agent.open_approvals ?? 0) > 0) return looks.awaiting_permission;
  if ((agent.open_questions ?? 0) > 0) return { shape: "?", word: "question", tone: "accent" };
  return looks[agent.state] ?? looks.unknown;
}

export type AgentGroup = "needs" | "running" | "idle" | "error" | "done" | "archived";

export const groupNames: Record<AgentGroup, string> = {
  needs: "Needs you",
  running: "Running",
  idle: "Idle",
  error: "Error",
  done: "Ended",
  archived: "Archived",
};

const groupOrder = Object.keys(groupNames) as AgentGroup[];

export function groupOf(agent: Agent): AgentGroup {
  if (agent.managed?.archived) return "archived";
  if (stateLook(agent).tone === "accent") return "needs";
  if (["running", "starting", "waiting"].includes(agent.state)) return "running";
  if (["idle", "paused"].includes(agent.state)) return "idle";
  return agent.state === "error" ? "error" : "done";
}

export interface AgentTreeRow {
  agent: Agent;
  /** How many orchestrators are above it. */
  depth: number;
  group: AgentGroup;
}

/** Agents by group and name, each below its orchestrator. A tree is in the group of its most urgent agent. */
export function listAgents(agents: Iterable<Agent>): AgentTreeRow[] {
  const byId = new Map([...agents].map((agent) => [agent.id, agent]));
  const children = new Map<string, Agent[]>();
  const roots: Agent[] = [];
  for (const agent of byId.values()) {
    const parent = agent.managed?.parent;
    // An archived agent is shown apart from those that are not.
    const isBelow = parent !== undefined && byId.has(parent) && archivedOf(agent) === archivedOf(byId.get(parent));
    if (isBelow) children.set(parent, [...(children.get(parent) ?? []), agent]);
    else roots.push(agent);
  }
  const trees = roots.map((root) => treeRows(root, children, 0));
  const rankOf = (rows: AgentTreeRow[]) => Math.min(...rows.map((row) => groupOrder.indexOf(row.group)));
  return trees
    .map((rows) => ({ rows, rank: rankOf(rows) }))
    .sort((a, b) => a.rank - b.rank || compareAgents(a.rows[0]?.agent, b.rows[0]?.agent))
    .flatMap(({ rows, rank }) => rows.map((row) => ({ ...row, group: groupOrder[rank] ?? "done" })));
}

function archivedOf(agent: Agent | undefined): boolean {
  return agent?.managed?.archived ?? false;
}

function treeRows(agent: Agent, children: Map<string, Agent[]>, depth: number): AgentTreeRow[] {
  const below = [...(children.get(agent.id) ?? [])].sort(compareAgents);
  return [{ agent, depth, group: groupOf(agent) }, ...below.flatMap((child) => treeRows(child, children, depth + 1))];
}

function compareAgents(a: Agent | undefined, b: Agent | undefined): number {
  return (a?.name ?? "").localeCompare(b?.name ?? "") || (a?.id ?? "").localeCompare(b?.id ?? "");
}

/** Running agents below one, at any depth. */
export function runningBelow(agent: Agent, agents: Iterable<Agent>): Agent[] {
  const rows = [...agents];
  const found = new Set([agent.id]);
  let before = 0;
  while (found.size > before) {
    before = found.size;
    for (const row of rows) if (row.managed?.parent !== undefined && found.has(row.managed.parent)) found.add(row.id);
  }
  return rows.filter((row) => row.id !== agent.id && found.has(row.id) && !hasEnded(row));
}

export function hasEnded(agent: Agent): boolean {
  return ["done", "error", "stopped"].includes(agent.state);
}

/** How full the context is, in percent; nothing if the agent does not report it. */
export function contextPercent(agent: Agent): number | undefined {
  const { context_used: used, context_size: size } = agent.managed?.usage ?? {};
  return used === undefined || !size ? undefined : Math.round((used / size) * 100);
}

export function costText(microUsd: number): string {
  const dollars = microUsd / 1_000_000;
  return `$${dollars.toFixed(dollars < 100 ? 2 : 0)}`;
}

/** What the agent reports to have used, in short words. */
export function usageTexts(agent: Agent): string[] {
  const usage = agent.managed?.usage;
  const percent = contextPercent(agent);
  const tokens = (usage?.tokens_in ?? 0) + (usage?.tokens_out ?? 0);
  return [
    percent === undefined ? "" : `context ${percent}%`,
    tokens > 0 ? `${formatCount(tokens)} tokens` : "",
    usage?.cost_micro_usd === undefined ? "" : costText(usage.cost_micro_usd),
  ].filter(Boolean);
}

/** What waits for a person, in words. */
export function waitingText(agent: Agent): string {
  const asks = agent.open_approvals ?? 0;
  const questions = agent.open_questions ?? 0;
  return [asks > 0 && plural(asks, "ask"), questions > 0 && plural(questions, "question")].filter(Boolean).join(" · ");
}
