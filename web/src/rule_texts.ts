// Rules in words. Pure.

import { folderName, plural, shortSpan } from "./text.ts";
import { line } from "./visible.ts";
import type { BacktestResult, Grant } from "./wire_types.ts";

/** Where a remembered rule applies. */
export function scopeText({ scope }: Pick<Grant, "scope">): string {
  const labels = Object.entries(scope.labels ?? {}).map(([key, value]) => `${line(key)}=${line(value)}`);
  const parts = [
    scope.session !== undefined && `only ${line(scope.session_name ?? scope.session)}, until it ends`,
    scope.agent !== undefined && `agents named ${line(scope.agent)}`,
    scope.project !== undefined && `project ${projectName(scope.project)}`,
    labels.length > 0 && `agents with ${labels.join(", ")}`,
  ].filter(Boolean);
  return parts.length === 0 ? "everywhere" : parts.join(", ");
}

/** A project is named by its folder, also where its git folder is what is known. */
export function projectName(path: string): string {
  return folderName(path.replace(/\/\.git\/?$/, ""));
}

/** When it ends and how often it may still be used. */
export function limitsText(grant: Pick<Grant, "expires_at" | "uses" | "uses_left">, now: number): string {
  const left = grant.expires_at === undefined ? undefined : Date.parse(grant.expires_at) - now;
  const parts = [
    left !== undefined && (left > 0 ? `${shortSpan(left)} left` : "expired"),
    grant.uses !== undefined && `${plural(grant.uses_left ?? grant.uses, "use")} left`,
  ].filter(Boolean);
  return parts.length === 0 ? "until removed" : parts.join(", ");
}

export function usedText(grant: Pick<Grant, "fired" | "last_used">, now: number): string {
  if (grant.fired === 0) return "never used";
  const times = grant.fired === 1 ? "once" : `${grant.fired} times`;
  return grant.last_used === undefined ? `used ${times}` : `used ${times}, ${shortSpan(now - Date.parse(grant.last_used))} ago`;
}

/** What a rule would have done with decisions made by hand. */
export function backtestText(result: BacktestResult): string {
  const { contradicted, examined, settled } = result;
  if (examined === 0) return "There is no past decision of yours to compare it with.";
  if (settled === 0) return examined === 1 ? "It would not have settled your last decision." : `It would have settled none of your last ${examined} decisions.`;
  return `Of your last ${plural(examined, "decision")} it would have settled ${settled}, ${contradicted.length} of them against you.`;
}

/** The input that a tool gets for what was typed. */
export function toolInput(tool: string, text: string): Record<string, string> {
  const keys: Record<string, string> = { Bash: "command", WebFetch: "url" };
  return { [keys[tool] ?? "file_path"]: text };
}

/** Enough of a file's path to tell it from others of the same name. */
export function fileName(path: string): string {
  return line(path.split("/").filter(Boolean).slice(-3).join("/"));
}
