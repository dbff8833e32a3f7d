// Small texts: ages, counts, ids, names. Pure.

import { line } from "./visible.ts";
import type { Approval, Question, Sandbox, Who } from "./wire_types.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A span in one unit, as lists show it: `40 s`, `4 m`, `3 h`, `2 d`. */
export function shortSpan(ms: number): string {
  const span = Math.max(0, ms);
  if (span < MINUTE) return `${Math.floor(span / SECOND)} s`;
  if (span < HOUR) return `${Math.floor(span / MINUTE)} m`;
  if (span < DAY) return `${Math.floor(span / HOUR)} h`;
  return `${Math.floor(span / DAY)} d`;
}

export function age(at: string, now: number): string {
  return shortSpan(now - Date.parse(at));
}

export function agoText(at: string, now: number): string {
  const span = now - Date.parse(at);
  return span < SECOND ? "just now" : `${shortSpan(span)} ago`;
}

/** A span to the second while it is short, as a deadline shows it: `4:07`. */
export function countdown(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / SECOND));
  if (seconds >= 3600) return shortSpan(seconds * SECOND);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** An id as people type it: without its prefix, eight characters of it. */
export function shortId(id: string): string {
  return line(id.replace(/^(approval|question|grant|agent)-/, "").slice(0, 8));
}

/** Who asks: an agent by its name, another's ask by the agent it is for. */
export function askerName(row: Pick<Approval | Question, "agent_name" | "agent_id" | "asked_by">): string {
  const itself = row.agent_id !== undefined && row.asked_by?.agent_id === row.agent_id ? row.asked_by?.name : undefined;
  return line(row.agent_name ?? itself ?? row.agent_id ?? row.asked_by?.name ?? "somebody");
}

export function whoName(who: Who | undefined): string {
  return who === undefined ? "somebody" : line(who.name);
}

/** A sandbox, by its profile and how much of it is enforced. */
export function sandboxText({ level, profile, terminals }: Sandbox): string {
  const enforced = profile === "open" ? "none" : `${line(profile)} (${line(level)})`;
  if (terminals === undefined) return enforced;
  return terminals === "none" ? `${enforced}, no commands` : `${enforced}, unconfined: ${line(terminals)}`;
}

/** The last folder of a path. */
export function folderName(path: string): string {
  const parts = path.split("/").filter(Boolean);
  return line(parts[parts.length - 1] ?? path);
}

/** A number from 0 to 359 that is always the same for the same id: the hue of an agent. */
export function hueOf(id: string): number {
  let hash = 2166136261;
  for (const character of id) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 16777619);
  return (hash >>> 0) % 360;
}

export function formatTime(at: string): string {
  return new Date(at).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
}

export function formatCount(count: number): string {
  if (count < 1_000) return String(count);
  if (count < 1_000_000) return `${(count / 1_000).toFixed(count < 10_000 ? 1 : 0)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}
