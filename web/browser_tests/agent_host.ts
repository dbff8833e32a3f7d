// What the screens beside the inbox read, for their tests.

import type { FakeHost } from "./fake_host.ts";
import type { TranscriptPart } from "../src/transcript.ts";
import type { AgentDiff } from "../src/wire_agents.ts";
import type { Agent, Managed, TranscriptEntry } from "../src/wire_types.ts";

const now = () => new Date().toISOString();

export function makeManaged(name: string, changes: Partial<Managed> = {}, rest: Partial<Agent> = {}): Agent {
  const managed: Managed = { archived: false, cwd: "/srv/app", last_activity: now(), queued: 0, resumable: true, run: 1, turns: 1, usage: {}, ...changes };
  return { id: `agent-${name}`, kind: "acp", name, state: "running", updated_at: now(), managed, ...rest };
}

/** A transcript that is served page by page, as the host does. */
export class FakeTranscript {
  readonly parts: TranscriptPart[] = [];

  constructor(private readonly host: FakeHost, private readonly agentId: string) {
    host.handlers.set("host.transcript", (params) => ({ result: this.page(params) }));
  }

  add(turn: number, ...entries: TranscriptEntry[]): void {
    this.parts.push({ sequence: this.parts.length + 1, timestamp: now(), turn, entries });
  }

  /** Adds and tells it. */
  say(turn: number, ...entries: TranscriptEntry[]): void {
    this.add(turn, ...entries);
    this.host.send("transcript.added", null, { agent_id: this.agentId });
  }

  private page({ after, before, limit = 100, from_end }: Record<string, unknown>): object {
    const size = Number(limit);
    const end = typeof before === "number" ? before - 1 : this.parts.length;
    const backwards = from_end === true || before !== undefined;
    const start = backwards ? Math.max(0, end - size) : Number(after ?? 0);
    const parts = this.parts.slice(start, backwards ? end : start + size);
    const next = parts.at(-1)?.sequence ?? Number(after ?? 0);
    return { parts, next, more: next < this.parts.length, ...(backwards && start > 0 && { first: parts[0]?.sequence }) };
  }
}

export const diff: AgentDiff = {
  truncated: false,
  files: [{
    path: "src/parse.rs", status: "modified", added: 1, removed: 1,
    hunks: [{ old_start: 40, new_start: 40, digest: "d1", lines: [
      { kind: "context", text: "let rest = text;" },
      { kind: "removed", text: "rest.split('\\n')" },
      { kind: "added", text: "rest.split_inclusive('\\n')" },
    ] }],
  }],
};

/** Replies to everything that the screens read, so that each can be opened. */
export function serveScreens(host: FakeHost): Agent {
  const agent = makeManaged("fix", { turn: { number: 1, started_at: now(), interrupted: false }, plan: [{ status: "pending", text: "Read the test" }], worktree: { base: "a", branch: "fix/parser", path: "/srv/w", repository: "/srv/app" } });
  host.snapshot.agents = [agent, makeManaged("boss", { role: "orchestrator" }), makeManaged("child", { parent: "agent-boss" }, { open_approvals: 1 }), makeManaged("old", { archived: true }, { state: "stopped" })];
  const by = { name: "root", role: "operator" as const };
  const replies: Record<string, unknown> = {
    "host.agent": agent,
    "host.approvals": [],
    "host.agent_diff": diff,
    "host.prompt_agent": agent,
    "host.terminals": [{ id: "t1", command: "cargo test", started_at: now(), ended_at: now(), exit_code: 0, bytes: 5, first_offset: 0 }],
    "host.rules": {
      files: [{ rule: "Bash(rm:*)", effect: "deny", source: "/srv/rules.toml", line: 9, counts: true }], problems: [], untrusted: [],
      grants: [{ id: "grant-1", rule: "Bash(cargo test:*)", effect: "allow", by, created_at: now(), fired: 2, scope: {} }],
    },
    "host.suggest_rules": { candidates: [], mined: [] },
    "host.events": [{ id: "event-1", kind: "turn.started", message: "fix started turn 1", payload: { by }, sequence: 1, timestamp: now(), agent_id: agent.id, agent_name: "fix" }],
    "host.tokens": [{ id: "token-1", name: "Firefox on Linux", role: "operator", device: true, created_at: now(), last_seen: now() }],
    "host.notify_status": { channels: [{ name: "hook", kind: "command" }] },
    "host.catalog": [],
  };
  for (const [method, result] of Object.entries(replies)) host.handlers.set(method, () => ({ result }));
  const bytes = Buffer.from("\u001b[32mok\u001b[0m <b>not markup</b>\r\n");
  host.handlers.set("host.terminal_output", ({ after = 0 }) => ({
    result: { data: bytes.subarray(Number(after)).toString("base64"), from: Number(after), next: bytes.length, ended: true, skipped: 0 },
  }));
  return agent;
}
