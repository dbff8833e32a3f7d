// Sends answers and says in words what became of them. Nothing is taken for decided before the host says so.

import { call, hostStatus, loadApproval, putApproval, putQuestion } from "./store.ts";
import { plural, shortSpan, whoName } from "./text.ts";
import { line } from "./visible.ts";
import { CallError } from "./wire.ts";
import type { Approval, ErrorData, ManyResult, Question, Resolution, Who } from "./wire_types.ts";

const UNKNOWN_METHOD = -32601;

export type AnswerOutcome =
  | { type: "taken"; row: Approval | Question }
  /** It was passed to the connection that owns the ask, which decides. */
  | { type: "passed"; row: Approval }
  /** Somebody else was first. */
  | { type: "late"; text: string }
  | { type: "refused"; text: string }
  /** The connection was lost: nobody here knows whether the host took it. */
  | { type: "unknown"; text: string };

export async function answerAsk(row: Approval, resolution: Resolution): Promise<AnswerOutcome> {
  const sentAt = Date.now();
  try {
    const answered = await call("host.resolve_approval", { approval_id: row.id, ...resolution });
    putApproval(answered);
    return answered.passed_to_owner ? { type: "passed", row: answered } : { type: "taken", row: answered };
  } catch (error) {
    return failedOutcome(error, sentAt, () => loadApproval(row.id));
  }
}

export async function answerQuestion(row: Question, answer: string, consideredMs: number): Promise<AnswerOutcome> {
  const sentAt = Date.now();
  // A host that does not know the field refuses it here.
  const considered = hostStatus.value?.decide_confirm === undefined ? {} : { considered_ms: consideredMs };
  try {
    const answered = await call("host.answer_question", { question_id: row.id, answer, ...considered });
    putQuestion(answered);
    return { type: "taken", row: answered };
  } catch (error) {
    return failedOutcome(error, sentAt, async () => putQuestion(await call("host.question", { question_id: row.id })));
  }
}

function failedOutcome(error: unknown, sentAt: number, reload: () => Promise<unknown>): AnswerOutcome {
  if (!(error instanceof CallError)) throw error;
  if (error.kind === "lost") {
    return { type: "unknown", text: "The connection was lost while the answer was on its way: it is not known whether the host took it. It is not sent again." };
  }
  if (error.reason === "already_resolved") {
    void reload().catch(() => undefined);
    return { type: "late", text: describeLate(error.data, sentAt) };
  }
  return { type: "refused", text: describeRefusal(error) };
}

/** Who was first, how long before, and what they said. */
export function describeLate(data: ErrorData, sentAt: number): string {
  const by = data.resolved_by ?? data.by;
  const at = data.resolved_at ?? data.at;
  const name = typeof by === "string" ? line(by) : whoName(by as Who | undefined);
  const before = typeof at === "string" ? `, ${shortSpan(sentAt - Date.parse(at))} before you` : " before you";
  const what = typeof data.resolution === "string" ? `answered “${line(data.resolution)}”` : "answered";
  const said = typeof data.message === "string" && data.message ? `: ${line(data.message)}` : "";
  return `${name} ${what}${before}${said}`;
}

const refusals: Record<string, string> = {
  owner_not_connected: "The program that asked is not connected, so no answer can reach it now.",
  observer_cannot_change: "This browser signed in as an observer, which cannot decide.",
  agents_cannot_answer: "Agents cannot answer asks.",
  not_your_approval: "This ask belongs to somebody else.",
  above_ceiling: "This is more than an orchestrator may approve.",
  store_unavailable: "The record cannot be written: nothing can be decided until it can.",
  shutting_down: "The host is stopping. The ask is kept; answer it when the host is back.",
  unknown_approval: "The host does not know this ask any more.",
  unknown_question: "The host does not know this question any more.",
  agent_ended: "The agent has ended.",
};

/** A refusal in words: by its reason where we have a sentence, else as the host said it. */
export function describeRefusal(error: Pick<CallError, "kind" | "message" | "reason" | "data">): string {
  if (error.kind === "not_sent") return "Not connected: nothing was sent.";
  if (error.reason === "not_an_option") {
    return `That is not one of the options${error.data.options ? `: ${error.data.options.map(line).join(", ")}` : ""}.`;
  }
  return refusals[error.reason ?? ""] ?? line(error.message);
}

/** Answers several asks, each by its own decision. An older host takes them one by one. */
export async function answerMany(answers: { approval_id: string; resolution: string; message?: string; considered_ms?: number }[]): Promise<ManyResult[]> {
  try {
    const { results } = await call("host.resolve_approvals", { answers });
    for (const result of results) if (result.approval) putApproval(result.approval);
    return results;
  } catch (error) {
    if (!(error instanceof CallError) || error.code !== UNKNOWN_METHOD) return failAll(answers, error);
    return Promise.all(answers.map(answerOne));
  }
}

async function answerOne({ approval_id, ...resolution }: { approval_id: string } & Resolution): Promise<ManyResult> {
  try {
    const approval = await call("host.resolve_approval", { approval_id, ...resolution });
    putApproval(approval);
    return { approval_id, approval };
  } catch (error) {
    return { approval_id, error: errorOf(error) };
  }
}

function failAll(answers: { approval_id: string }[], error: unknown): ManyResult[] {
  return answers.map(({ approval_id }) => ({ approval_id, error: errorOf(error) }));
}

function errorOf(error: unknown): ManyResult["error"] {
  if (!(error instanceof CallError)) return { code: 0, message: String(error) };
  const message = error.kind === "lost" ? "not known whether it was taken" : describeRefusal(error);
  return { code: error.code, message, data: error.data };
}

/** The results of many answers in one sentence. */
export function describeMany(results: ManyResult[], word: string): string {
  const taken = results.filter((result) => result.approval).length;
  const failed = results.length - taken;
  const first = results.find((result) => result.error)?.error?.message;
  return `${plural(taken, "ask")} ${word}${failed > 0 ? `; ${plural(failed, "was not", "were not")}: ${line(first ?? "")}` : ""}.`;
}
