// The shapes on the wire that the page uses, after `crates/protocol`. A test compares them with the host's OpenAPI document.
//
// Fields are only ever added there, so a field that may be missing on an older host is optional here.

import type { AdminMethods } from "./wire_admin.ts";
import type { AgentMethods } from "./wire_agents.ts";

export type Time = string;
export type AgentState =
  | "starting" | "running" | "idle" | "awaiting_permission" | "waiting" | "paused" | "done" | "error" | "stopped" | "unknown";
export type ApprovalState =
  | "pending" | "allowed" | "denied" | "answered" | "cancelled" | "expired" | "gone" | "unknown";
export type QuestionState = "pending" | "answered" | "cancelled" | "expired" | "unknown";
export type Effect = "allow" | "ask" | "deny" | "unknown";
export type Role = "operator" | "observer" | "agent" | "host" | "unknown";
export type ConfirmSetting = "always" | "risky" | "never" | "unknown";

export interface Who {
  agent_id?: string;
  name: string;
  role: Role;
}

// Everything inside an `AskView` was escaped by the host.
export interface AskView {
  summary: string;
  command?: string;
  edits: FileEdit[];
  input_text?: string;
  rest_text?: string;
  title?: string;
  details_text?: string;
  warnings: string[];
  editable: boolean;
  /** All but summary, warnings, `editable` and `edited_summary` was left out; `host.approval` has it. */
  cut?: boolean;
  /** What runs instead where a person changed the input, in one line and whole. */
  edited_summary?: string;
  edited_text?: string;
}

export interface FileEdit {
  path: string;
  note?: "agent_copy" | "whole_file";
  added: number;
  removed: number;
  hunks: DiffHunk[];
}

export interface DiffHunk {
  old_start: number;
  new_start: number;
  header?: string;
  digest?: string;
  lines: DiffLine[];
}

export interface DiffLine {
  kind: "context" | "added" | "removed";
  text: string;
  segments?: { text: string; changed: boolean }[];
}

export interface HostRule {
  effect: Effect;
  grant?: string;
  line?: number;
  rule: string;
  source: string;
}

export interface VerdictPart {
  effect: Effect;
  floor?: boolean;
  kind: string;
  reason?: string;
  rule?: HostRule;
  subject: string;
}

export interface Verdict {
  effect: Effect;
  parts: VerdictPart[];
  text?: string;
}

export interface AnswerLimits {
  format?: string;
  max_choices?: number;
  max_length?: number;
  maximum?: number;
  min_choices?: number;
  min_length?: number;
  minimum?: number;
  whole?: boolean;
}

export interface ChoiceQuestion {
  choices: { label: string; description?: string }[];
  free_text: boolean;
  header?: string;
  limits?: AnswerLimits;
  number?: boolean;
  optional?: boolean;
  question: string;
  several: boolean;
}

/** The sandbox of an agent. */
export interface Sandbox {
  /** How much of it the machine enforces: `full`, `landlock` or `open`. */
  level: string;
  /** The name of its profile; `open` for none. */
  profile: string;
  /** What runs commands outside of it; `none` if there are no commands. */
  terminals?: string;
}

export interface Approval {
  action: string;
  agent_id?: string;
  agent_name?: string;
  approving?: string[];
  asked_by?: Who;
  brief?: boolean;
  client_id?: string;
  considered_ms?: number;
  created_at: Time;
  cwd?: string;
  deadline?: Time;
  delivery?: "waiting" | "attempted" | "delivered" | "withdrawn" | "unknown";
  deliveries?: number;
  details?: unknown;
  door?: string;
  edited_input?: unknown;
  id: string;
  input?: unknown;
  input_digest?: string;
  lapses_at?: Time;
  message?: string;
  options: string[];
  passed_to_owner?: boolean;
  questions?: ChoiceQuestion[];
  remembered?: Grant[];
  repeats?: string;
  resolution?: string;
  resolved_at?: Time;
  resolved_by?: Who;
  sandbox?: Sandbox;
  sequence: number;
  state: ApprovalState;
  tool?: string;
  tool_call_id?: string;
  turn?: string;
  verdict?: Verdict;
  view?: AskView;
}

export interface Question {
  agent_id?: string;
  agent_name?: string;
  answer?: string;
  answered_by?: Who;
  asked_by: Who;
  created_at: Time;
  deadline?: Time;
  ended_at?: Time;
  escalates_at?: Time;
  for_people?: boolean;
  id: string;
  question: string;
  sequence: number;
  state: QuestionState;
  to?: string;
  to_name?: string;
}

export interface PlanStep {
  status: string;
  text: string;
}

export interface Usage {
  context_size?: number;
  context_used?: number;
  cost_micro_usd?: number;
  tokens_in?: number;
  tokens_out?: number;
}

export interface Worktree {
  base: string;
  branch: string;
  path: string;
  repository: string;
}

export interface Managed {
  agent?: string;
  allowed_tools?: string[];
  archived: boolean;
  ceiling?: { rules: string[]; until?: Time };
  command?: string[];
  cwd: string;
  disallowed_tools?: string[];
  ended_at?: Time;
  labels?: Record<string, string>;
  last_activity: Time;
  message?: string;
  mode?: string;
  model?: string;
  parent?: string;
  parent_name?: string;
  plan?: PlanStep[];
  queued: number;
  resumable: boolean;
  role?: "orchestrator" | "unknown";
  run: number;
  sandbox?: Sandbox;
  title?: string;
  turn?: { deadline?: Time; interrupted: boolean; number: number; started_at: Time };
  turns: number;
  usage: Usage;
  worktree?: Worktree;
}

export interface Agent {
  bypass_until?: Time;
  current_task?: string;
  id: string;
  kind: string;
  managed?: Managed;
  name: string;
  open_approvals?: number;
  open_questions?: number;
  project?: string;
  started_at?: Time;
  state: AgentState;
  updated_at: Time;
}

export interface HostEvent {
  agent_id?: string;
  agent_name?: string;
  id: string;
  kind: string;
  message: string;
  payload: unknown;
  sequence: number;
  timestamp: Time;
}

export interface RuleProblem {
  file: string;
  line?: number;
  message: string;
  suspends: boolean;
}

export interface Snapshot {
  agents: Agent[];
  approvals: Approval[];
  event_sequence: number;
  events: HostEvent[];
  identity?: { pid: number; version: string };
  questions?: Question[];
  rule_problems?: RuleProblem[];
  store_error?: string;
}

export interface HostStatus {
  agents: number;
  bypassed?: { agent_id: string; name: string; until: Time }[];
  database: string;
  decide_confirm?: ConfirmSetting;
  event_sequence: number;
  figures?: {
    commits: number;
    cpu_ms: number;
    database_bytes: number;
    events: number;
    memory_bytes: number;
  };
  listen?: string;
  pending_approvals: number;
  pending_questions: number;
  record_lost?: boolean;
  rule_problems?: RuleProblem[];
  started_at: Time;
  store_error?: string;
  version: string;
  web?: { public_url?: string; built: boolean };
  you: Who;
}

export interface Grant {
  by: Who;
  created_at: Time;
  effect: Effect;
  expires_at?: Time;
  fired: number;
  id: string;
  last_used?: Time;
  origin?: string;
  rule: string;
  scope: { agent?: string; project?: string; session?: string; session_name?: string; labels?: Record<string, string> };
  uses?: number;
  uses_left?: number;
}

export interface RuleCandidate {
  note: string;
  part: number;
  rule: string;
}

export interface BacktestResult {
  agreed: number;
  already_settled_by_rules: number;
  contradicted: { approval_id: string; by: Who; decided: ApprovalState; verdict: Verdict }[];
  examined: number;
  settled: number;
  skipped_by_others: number;
  would_settle?: string[];
}

export type RememberScope = "session" | "agent" | "project" | "always";

export interface Resolution {
  resolution: string;
  message?: string;
  edited_input?: unknown;
  answers?: (string | string[])[];
  stop?: boolean;
  remember?: { rules: string[]; scope: RememberScope; expires_in_ms?: number; uses?: number };
  considered_ms?: number;
}

export interface ErrorData {
  reason?: string;
  by?: Who | string;
  at?: Time;
  resolution?: string;
  message?: string;
  options?: string[];
  [field: string]: unknown;
}

export interface ManyResult {
  approval_id: string;
  approval?: Approval;
  error?: { code: number; message: string; data?: ErrorData };
}

export type TranscriptEntry =
  | { type: "user"; from?: string; text: string }
  | { type: "assistant" | "thinking" | "notice"; text: string }
  | { type: "tool_use"; id: string; input?: unknown; status?: string; title?: string; tool?: string }
  | { type: "tool_result"; id: string; status: string; text?: string }
  | { type: "plan"; steps: PlanStep[] }
  | { type: "other"; update: unknown };

export interface TranscriptPage {
  first?: number;
  more: boolean;
  next: number;
  parts: { entries: TranscriptEntry[]; sequence: number; timestamp: Time; turn: number }[];
}

/** Parameters and result of each method that the page calls. */
export interface Methods extends AgentMethods, AdminMethods {
  "host.subscribe": [{ brief?: boolean; after?: number; also?: string[]; agent_id?: string }, Snapshot];
  "host.status": [Record<string, never>, HostStatus];
  "host.agent": [{ agent_id: string }, Agent];
  "host.approval": [{ approval_id: string }, Approval];
  "host.approvals": [{ status?: string; agent_id?: string; limit?: number; after?: string }, Approval[]];
  "host.question": [{ question_id: string }, Question];
  "host.resolve_approval": [{ approval_id: string } & Resolution, Approval];
  "host.resolve_approvals": [
    { answers: { approval_id: string; resolution: string; message?: string; considered_ms?: number }[] },
    { results: ManyResult[] },
  ];
  "host.answer_question": [{ question_id: string; answer: string; considered_ms?: number }, Question];
  "host.backtest_rule": [{ rule: string; effect?: Effect; limit?: number }, BacktestResult];
  "host.events": [
    { after?: number; before?: number; limit?: number; kinds?: string[]; agent_id?: string },
    HostEvent[],
  ];
  "host.presence": [{ focused: boolean; subject?: string }, unknown];
}

/** Another screen on which an ask or a question is open: a row of the notification `host.viewers`. */
export interface AskViewer {
  subject: string;
  name: string;
  device?: string;
  door?: string;
}

export type MethodName = keyof Methods;
export type Params<M extends MethodName> = Methods[M][0];
export type Result<M extends MethodName> = Methods[M][1];
