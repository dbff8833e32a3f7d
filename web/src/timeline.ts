// The timeline: which events there are, whom they are about, and which of them are shown. Pure.

import { line } from "./visible.ts";
import type { Approval, HostEvent } from "./wire_types.ts";

export type KindGroup = "asks" | "questions" | "agents" | "turns" | "transcripts" | "rules" | "host";

/** The kinds of the host by what they are about. */
export const kindGroups: Record<KindGroup, { word: string; kinds: string[] }> = {
  asks: {
    word: "Asks",
    kinds: ["approval.requested", "approval.resolved", "approval.resolve_requested", "approval.resolve_refused", "approval.dismissed", "approval.self_resolved", "approval.attached", "approval.pass_used"],
  },
  questions: { word: "Questions", kinds: ["question.asked", "question.answered", "question.ended", "question.escalated"] },
  agents: {
    word: "Agents",
    kinds: [
      "agent.registered", "agent.spawned", "agent.run_requested", "agent.launched", "agent.ready", "agent.reported", "agent.stop_requested", "agent.exited",
      "agent.renamed", "agent.archived", "agent.configured", "agent.status_changed", "agent.unregistered", "agent.bypass_changed", "agent.ceiling_changed",
      "agent.interrupt_requested", "agent.worktree_changed", "agent.message_queued", "agent.message_repeated", "agent.message_withdrawn", "agent.messages_dropped",
      "agent.parent_notified", "agent.parent_message_withdrawn",
    ],
  },
  turns: { word: "Turns", kinds: ["turn.started", "turn.interrupted", "turn.ended"] },
  transcripts: { word: "Transcripts", kinds: ["transcript.added"] },
  rules: { word: "Rules", kinds: ["grant.created", "grant.removed", "rules.trusted"] },
  host: { word: "Host and devices", kinds: ["host.started", "host.connection_lost", "host.connection_lapsed", "host.notification_sent", "device.registered", "device.updated", "terminal.opened", "terminal.ended"] },
};

/** Every kind, also those that only matter to the host itself. */
const everyKind = Object.values(kindGroups).flatMap(({ kinds }) => kinds);

/** The kinds of a choice; nothing for those that everybody is shown. */
export function kindsOf(group: TimelineFilter["group"]): string[] | undefined {
  if (group === undefined) return undefined;
  return group === "everything" ? everyKind : kindGroups[group].kinds;
}

export interface TimelineFilter {
  group?: KindGroup | "everything";
  agentId?: string;
  /** Words that the message, the kind or the person must have. */
  text: string;
}

/** Who did it, if the event says so. */
export function whoOf(event: HostEvent): string | undefined {
  const payload = event.payload as Record<string, unknown> | null;
  if (typeof payload !== "object" || payload === null) return undefined;
  for (const key of ["by", "resolved_by", "answered_by", "asked_by"]) {
    const who = payload[key] as { name?: unknown } | undefined;
    if (typeof who === "object" && who !== null && typeof who.name === "string") return line(who.name);
  }
  return undefined;
}

export function matchesText(event: HostEvent, text: string): boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const searched = `${eventText(event)} ${event.kind} ${event.agent_name ?? ""} ${whoOf(event) ?? ""}`.toLowerCase();
  return words.every((word) => searched.includes(word));
}

/** Whether a live event belongs to what is listed. */
export function belongs(event: HostEvent, filter: TimelineFilter): boolean {
  const inGroup = kindsOf(filter.group)?.includes(event.kind) ?? true;
  return inGroup && (filter.agentId === undefined || event.agent_id === filter.agentId);
}

/** Both lists as one in the order of the record, each event once. */
export function mergeEvents(known: readonly HostEvent[], added: readonly HostEvent[]): HostEvent[] {
  const bySequence = new Map([...known, ...added].map((event) => [event.sequence, event]));
  return [...bySequence.values()].sort((a, b) => a.sequence - b.sequence);
}

/** What happened. An ask is told by what would run: the host's message has only what the agent says about it. */
export function eventText(event: HostEvent): string {
  const summary = event.kind === "approval.requested" ? (event.payload as Partial<Approval> | null)?.view?.summary : undefined;
  if (summary !== undefined) return `${line(event.agent_name ?? "somebody")} asks: ${summary}`;
  return event.kind === "agent.status_changed" ? line(withPlainState(event.message)) : line(event.message);
}

/** The record names states as the program does: `fix is WaitingForApproval`. */
function withPlainState(message: string): string {
  return message.replace(/ is ([A-Z]\w*)$/, (_, state: string) => ` is${state.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)}`);
}

/** The ask or question that an event is about. */
export function itemOf(event: HostEvent): string | undefined {
  if (!/^(approval|question)\./.test(event.kind)) return undefined;
  const payload = event.payload as { id?: unknown; approval_id?: unknown; approval?: unknown; question?: unknown } | null;
  const ids = [payload?.id, payload?.approval_id, payload?.approval, payload?.question];
  return ids.find((id): id is string => typeof id === "string");
}

/** Whether the payload may be laid out here. Inputs of tools are shown only as the host lays them out. */
export function showsPayload(event: HostEvent): boolean {
  const isEmpty = event.payload === null || event.payload === undefined;
  return !isEmpty && !event.kind.startsWith("approval.") && !event.kind.startsWith("transcript.");
}
