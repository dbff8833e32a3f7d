// The shapes on the wire about rules, sign-ins and notifications.

import type { Effect, Grant, HostRule, RuleCandidate, RuleProblem, Time, Verdict } from "./wire_types.ts";

export interface FileRule extends HostRule {
  /** Where it applies; everywhere if absent. */
  area?: "folder" | "worktree" | "sandbox" | "unknown";
  /** False for an allow in a file that is not trusted or is suspended. */
  counts: boolean;
}

/** A rule that would have made the same decisions as people did. */
export interface MinedRule {
  allowed: number;
  examples: string[];
  last_at: Time;
  rule: string;
}

export interface RulesResult {
  files: FileRule[];
  grants: Grant[];
  problems: RuleProblem[];
  project?: string;
  suspended?: string;
  untrusted: string[];
}

/** A rule file whose allows do not apply until a person trusts it. */
export interface UntrustedRules {
  file: string;
  /** Of the text, in hexadecimal: only this text is trusted. */
  digest: string;
  text: string;
}

export interface NewRule {
  rule: string;
  effect?: Effect;
  agent?: string;
  project?: string;
  session?: string;
  expires_in_ms?: number;
  uses?: number;
}

export interface TokenRow {
  agent_id?: string;
  created_at: Time;
  /** It belongs to a browser that signed in. */
  device?: boolean;
  /** What its user calls that browser. */
  device_name?: string;
  expires_at?: Time;
  id: string;
  last_seen?: Time;
  name: string;
  role: string;
}

export interface NotifyChannel {
  name: string;
  kind: "command" | "ntfy" | "webhook" | "push" | "unknown";
  last_ok?: Time;
  last_error?: string;
}

export interface AdminMethods {
  "host.rules": [{ cwd?: string }, RulesResult];
  "host.add_rule": [NewRule, { grant: Grant; settled: number; warnings?: string[] }];
  "host.remove_rule": [{ id: string }, Grant];
  "host.untrusted_rules": [{ cwd?: string }, UntrustedRules[]];
  "host.trust_rules": [{ file: string; digest: string }, unknown];
  "host.check_rules": [
    { tool: string; input?: unknown; cwd?: string; agent_id?: string },
    { candidates?: RuleCandidate[]; verdict: Verdict },
  ];
  "host.suggest_rules": [{ approval_id?: string }, { candidates: RuleCandidate[]; mined?: MinedRule[] }];
  "host.tokens": [Record<string, never>, TokenRow[]];
  "host.revoke_token": [{ token_id: string }, unknown];
  "host.create_ticket": [{ phone?: boolean }, { expires_at: Time; url: string }];
  "host.notify_status": [Record<string, never>, { channels: NotifyChannel[]; push_key?: string }];
  "host.notify_test": [Record<string, never>, { results: { name: string; ok: boolean; error?: string }[] }];
  "host.push_subscribe": [{ endpoint: string; p256dh: string; auth: string; device?: string }, { id: string }];
  "host.push_unsubscribe": [{ id: string }, unknown];
}
