// The shapes on the wire about agents that the host runs: how they are started and controlled, what they said, changed
// and printed.

import type { Agent, DiffHunk, Time, TranscriptPage, Who } from "./wire_types.ts";

export interface CatalogRow {
  command?: string[];
  hint?: string;
  installed: boolean;
  name: string;
  title: string;
}

export interface SpawnParams {
  name?: string;
  agent?: string;
  command?: string[];
  prompt?: string;
  cwd: string;
  model?: string;
  mode?: string;
  allowed_tools?: string[];
  disallowed_tools?: string[];
  worktree?: { branch?: string };
  role?: "orchestrator";
}

// Text in the hunks was escaped by the host; paths were not.
export interface DiffFile {
  added: number;
  binary?: boolean;
  from?: string;
  hunks?: DiffHunk[];
  path: string;
  removed: number;
  status: string;
  /** There are too many changes to send with the others; asked for by its path, they come. */
  too_large?: boolean;
}

export interface AgentDiff {
  files: DiffFile[];
  text?: string;
  truncated: boolean;
}

export interface TerminalRow {
  id: string;
  command: string;
  cwd?: string;
  started_at: Time;
  ended_at?: Time;
  exit_code?: number;
  /** As `SIGKILL`. */
  signal?: string;
  bytes: number;
  first_offset: number;
}

export interface TerminalOutput {
  /** In base 64. */
  data: string;
  from: number;
  next: number;
  ended: boolean;
  skipped: number;
}

/** A message that waits for its agent. */
export interface QueuedMessage {
  number: number;
  sent_at: Time;
  sent_by: Who;
  /** Its beginning, if it is long. */
  text: string;
  truncated?: boolean;
  withdrawable: boolean;
}

/** What happens to running agents below one that is killed. */
export type ChildrenFate = "end" | "keep";

export interface AgentMethods {
  "host.catalog": [Record<string, never>, CatalogRow[]];
  "host.spawn_agent": [SpawnParams, Agent];
  "host.prompt_agent": [{ agent_id: string; message: string }, Agent];
  "host.queued_messages": [{ agent_id: string }, QueuedMessage[]];
  "host.withdraw_message": [{ agent_id: string; number: number }, { number: number; text: string }];
  "host.interrupt_agent": [{ agent_id: string; reason?: string }, Agent];
  "host.kill_agent": [{ agent_id: string; children?: ChildrenFate }, Agent];
  "host.resume_agent": [{ agent_id: string }, Agent];
  "host.fork_agent": [{ agent_id: string; name?: string; prompt?: string }, Agent];
  "host.archive_agent": [{ agent_id: string; archived: boolean }, Agent];
  "host.rename_agent": [{ agent_id: string; name: string }, Agent];
  "host.configure_agent": [{ agent_id: string; mode?: string; model?: string }, Agent];
  "host.set_ceiling": [{ agent_id: string; rules: string[]; expires_in_ms?: number }, Agent];
  "host.set_bypass": [{ agent_id: string; for_ms: number | null }, Agent];
  "host.transcript": [
    { agent_id: string; after?: number; before?: number; limit?: number; from_end?: boolean },
    TranscriptPage,
  ];
  "host.agent_diff": [{ agent_id: string; form?: "hunks"; path?: string }, AgentDiff];
  "host.terminals": [{ agent_id: string }, TerminalRow[]];
  "host.terminal_output": [{ agent_id: string; terminal_id: string; after?: number; wait?: boolean }, TerminalOutput];
}
