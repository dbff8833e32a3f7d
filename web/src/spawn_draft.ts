// What was typed to start an agent, and the request made of it. Pure.

import type { SpawnParams } from "./wire_agents.ts";

/** Chosen instead of an agent of the catalog. */
export const OWN_COMMAND = "";

export interface SpawnDraft {
  agent: string;
  command: string;
  name: string;
  cwd: string;
  prompt: string;
  worktree: boolean;
  branch: string;
  allowedTools: string;
  disallowedTools: string;
  orchestrator: boolean;
  model: string;
  mode: string;
}

export const emptyDraft: SpawnDraft = {
  agent: OWN_COMMAND, command: "", name: "", cwd: "", prompt: "", worktree: true, branch: "",
  allowedTools: "", disallowedTools: "", orchestrator: false, model: "", mode: "",
};

/** Parameters from what was typed; empty fields are left out. */
export function spawnParams(draft: SpawnDraft): SpawnParams {
  const list = (text: string) => text.split(/[\n,]/).map((tool) => tool.trim()).filter(Boolean);
  const text = (value: string) => value.trim() || undefined;
  const allowed = list(draft.allowedTools);
  const disallowed = list(draft.disallowedTools);
  const params: SpawnParams = {
    ...(draft.agent === OWN_COMMAND ? { command: draft.command.trim().split(/\s+/) } : { agent: draft.agent }),
    cwd: draft.cwd.trim(),
    name: text(draft.name),
    prompt: text(draft.prompt),
    model: text(draft.model),
    mode: text(draft.mode),
    allowed_tools: allowed.length > 0 ? allowed : undefined,
    disallowed_tools: disallowed.length > 0 ? disallowed : undefined,
    worktree: draft.worktree ? { ...(draft.branch.trim() && { branch: draft.branch.trim() }) } : undefined,
    role: draft.orchestrator ? "orchestrator" : undefined,
  };
  return JSON.parse(JSON.stringify(params)) as SpawnParams;
}

/** Why it cannot be started yet. */
export function whyNotSpawn(draft: SpawnDraft): string | undefined {
  if (draft.agent === OWN_COMMAND && !draft.command.trim()) return "choose an agent or write a command";
  return draft.cwd.trim().startsWith("/") ? undefined : "the folder has to be an absolute path";
}
