// What can be done with an agent, and the requests for it.

import { hasEnded } from "./agent_facts.ts";
import { call, hostState } from "./store.ts";
import { withAgents } from "./state.ts";
import { shortSpan } from "./text.ts";
import { line } from "./visible.ts";
import type { Agent } from "./wire_types.ts";

export type AgentActionName =
  | "send" | "interrupt" | "kill" | "resume" | "fork" | "archive" | "restore" | "rename" | "configure" | "bypass" | "ceiling";

/** What is offered for an agent as it is now, in this order. */
export function actionsFor(agent: Agent): AgentActionName[] {
  const { managed } = agent;
  if (!managed) return ["bypass"];
  const ended = hasEnded(agent);
  const offered: [AgentActionName, boolean][] = [
    ["send", !managed.archived],
    ["interrupt", managed.turn !== undefined && !managed.turn.interrupted],
    ["resume", ended && managed.resumable && !managed.archived],
    ["fork", managed.resumable],
    ["configure", !ended],
    ["rename", true],
    ["bypass", !ended],
    ["ceiling", managed.role === "orchestrator"],
    ["archive", ended && !managed.archived],
    ["restore", managed.archived],
    ["kill", !ended],
  ];
  return offered.filter(([, possible]) => possible).map(([name]) => name);
}

export function putAgent(agent: Agent): void {
  hostState.value = withAgents(hostState.value, [agent]);
}

/** Sends a message. Says what becomes of it. */
export async function sendMessage(agent: Agent, message: string): Promise<string> {
  const row = await call("host.prompt_agent", { agent_id: agent.id, message });
  putAgent(row);
  const name = line(row.name);
  const waits = (row.managed?.queued ?? 0) > 0 && row.managed?.turn !== undefined;
  return waits ? `queued: ${name} gets it when this turn ends` : `sent to ${name}`;
}

/** Takes a message back before its turn. Returns its whole text. */
export async function withdrawMessage(agent: Agent, number: number): Promise<string> {
  return (await call("host.withdraw_message", { agent_id: agent.id, number })).text;
}

export async function interruptAgent(agent: Agent): Promise<string> {
  putAgent(await call("host.interrupt_agent", { agent_id: agent.id }));
  return `interrupting ${line(agent.name)}`;
}

export async function archiveAgent(agent: Agent, archived: boolean): Promise<string> {
  putAgent(await call("host.archive_agent", { agent_id: agent.id, archived }));
  return `${archived ? "archived" : "restored"} ${line(agent.name)}`;
}

export async function renameAgent(agent: Agent, name: string): Promise<string> {
  putAgent(await call("host.rename_agent", { agent_id: agent.id, name }));
  return `renamed ${line(agent.name)} to ${line(name)}`;
}

/** Allows the agent's asks without a person for a while; `null` ends it. */
export async function setBypass(agent: Agent, forMs: number | null): Promise<string> {
  putAgent(await call("host.set_bypass", { agent_id: agent.id, for_ms: forMs }));
  const name = line(agent.name);
  return forMs === null ? `bypass off: ${name} asks again` : `${name} is bypassed for ${shortSpan(forMs)}: its asks are allowed without you`;
}
