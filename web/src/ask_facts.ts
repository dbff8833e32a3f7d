// What an ask allows to be done with it. Pure.

import type { AskRisk } from "./decision_guard.ts";
import { isBrief } from "./state.ts";
import { hiddenCount } from "./visible.ts";
import type { Approval, Effect, VerdictPart } from "./wire_types.ts";

const APPROVE = "approve";
const DENY = "deny";

export function allows(row: Approval, option: string): boolean {
  return option === APPROVE || (row.approving ?? []).includes(option);
}

/** The option that an approval means, or why there is none. */
export function approvingOption(row: Approval): { option: string } | { why: string } {
  const options = row.options.filter((option) => allows(row, option));
  // Where `approve` is offered it is what is meant: others may allow more than this once.
  if (options.includes(APPROVE)) return { option: APPROVE };
  if (options.length === 1 && options[0] !== undefined) return { option: options[0] };
  return { why: options.length === 0 ? "no option approves it: r to choose an answer" : "more than one option approves it: r to choose" };
}

/** Agents name their options: one that is called `deny` and counts as an approval must not be sent as a no. */
export function canDeny(row: Approval): boolean {
  return row.options.includes(DENY) && !allows(row, DENY);
}

/** Options besides the plain approval and denial. */
export function otherOptions(row: Approval): string[] {
  return row.options.filter((option) => option !== APPROVE && option !== DENY);
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || (typeof value === "object" && Object.keys(value).length === 0);
}

/** Why what will run is not all on screen, whatever is scrolled. An ask that is not shown whole is never allowed. */
export function whyIncomplete(row: Approval): string | undefined {
  if (isBrief(row)) return "the whole of it is still being fetched";
  if (row.view) return undefined;
  const hasMore = !isEmpty(row.input) || !isEmpty(row.details);
  return hasMore ? "this host does not send what exactly would run: answer it in a terminal with “countersign watch”" : undefined;
}

/** The input as text, where the host sends it. It is left out where the rest is the whole of it. */
export function exactInput(row: Approval): string | undefined {
  return row.view?.input_text ?? row.view?.rest_text;
}

export function riskOf(row: Approval): AskRisk {
  const parts = row.verdict?.parts ?? [];
  return {
    warned: (row.view?.warnings.length ?? 1) > 0,
    askedByRule: parts.some((part) => part.effect !== "allow" && (part.floor === true || part.rule !== undefined)),
  };
}

/** Changes with everything a person reads before they decide. */
export function contentVersion(row: Approval): string {
  const { view } = row;
  return JSON.stringify([
    row.action, row.input_digest, row.options, whyIncomplete(row) === undefined, view?.summary, view?.warnings, row.verdict?.text, row.questions,
  ]);
}

/** The command as it can be edited, or why it cannot. */
export function editableCommand(row: Approval): { command: string } | { why: string } {
  if (!row.view?.editable) return { why: "an edited command would not reach this agent" };
  const command = isRecord(row.input) ? row.input.command : undefined;
  if (row.view.command === undefined || typeof command !== "string") return { why: "only a command can be edited" };
  if (hiddenCount(command) > 0) return { why: "it has hidden characters: deny it with a message instead" };
  if (!hasExactNumbers(row.input)) return { why: "its input has numbers that a browser cannot keep exactly" };
  return { command };
}

export function editedInput(row: Approval, command: string): unknown {
  return { ...(row.input as Record<string, unknown>), command };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whole numbers beyond 2^53 were rounded when the row was read. */
function hasExactNumbers(value: unknown): boolean {
  if (typeof value === "number") return Math.abs(value) <= Number.MAX_SAFE_INTEGER;
  if (typeof value !== "object" || value === null) return true;
  return Object.values(value).every(hasExactNumbers);
}

const effectMarks: Record<Effect, string> = { allow: "✓", ask: "?", deny: "✕", unknown: "?" };

export function effectMark(effect: Effect): string {
  return effectMarks[effect];
}

/** Which rule decided about a part, as a place that can be looked up. */
export function ruleSource(part: VerdictPart): string {
  if (part.floor) return "built in; no rule can override it";
  if (!part.rule) return "no rule";
  if (part.rule.grant) return `grant ${part.rule.grant.replace(/^grant-/, "").slice(0, 8)}`;
  const file = part.rule.source.split("/").pop() ?? part.rule.source;
  return part.rule.line === undefined ? file : `${file}:${part.rule.line}`;
}
