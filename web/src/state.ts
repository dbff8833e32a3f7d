// What the page knows of the host: pure functions from a snapshot and events to a state.
//
// Invariant: the state after a snapshot and its events is the state of a later snapshot, as far as both tell. Agents
// are an exception: most events carry no whole row, so `staleAgents` names those to fetch.

import type { Agent, Approval, HostEvent, Question, RuleProblem, Snapshot, Who } from "./wire_types.ts";

export interface Note {
  id: string;
  agentId?: string;
  agentName?: string;
  text: string;
  at: string;
  sequence: number;
}

export interface HostState {
  /** The newest event that is included. */
  cursor: number;
  agents: ReadonlyMap<string, Agent>;
  /** Open asks, and those that ended while this page was open or shortly before. */
  approvals: ReadonlyMap<string, Approval>;
  questions: ReadonlyMap<string, Question>;
  /** Messages of agents to people, which need no answer. */
  notes: readonly Note[];
  ruleProblems: readonly RuleProblem[];
  storeError?: string;
  version?: string;
  /** Agents whose row is older than an event about them. */
  staleAgents: ReadonlySet<string>;
}

const NOTES_MAX = 50;
/** Ended asks and questions that are kept to be shown where they stood. */
const ENDED_MAX = 200;

export const emptyState: HostState = {
  cursor: 0,
  agents: new Map(),
  approvals: new Map(),
  questions: new Map(),
  notes: [],
  ruleProblems: [],
  staleAgents: new Set(),
};

/** The state that a snapshot describes. Of the state before, only what a snapshot does not tell is kept. */
export function fromSnapshot(snapshot: Snapshot, before: HostState = emptyState): HostState {
  const approvals = new Map(snapshot.approvals.map((row) => [row.id, mergeBrief(before.approvals.get(row.id), fillBrief(row))]));
  const questions = new Map((snapshot.questions ?? []).map((row) => [row.id, row]));
  let state: HostState = {
    cursor: snapshot.event_sequence,
    agents: new Map(snapshot.agents.map((row) => [row.id, row])),
    approvals,
    questions: withEndedQuestions(questions, before),
    notes: before.notes.filter((note) => !snapshot.events.some((event) => event.id === note.id)),
    ruleProblems: snapshot.rule_problems ?? [],
    storeError: snapshot.store_error,
    version: snapshot.identity?.version,
    staleAgents: new Set(),
  };
  for (const event of [...snapshot.events].reverse()) state = addNote(state, event);
  return state;
}

/** Questions that were open before and are not any more ended while the page was not connected. */
function withEndedQuestions(open: Map<string, Question>, before: HostState): Map<string, Question> {
  for (const row of before.questions.values()) {
    if (!open.has(row.id)) open.set(row.id, row.state === "pending" ? { ...row, state: "unknown" } : row);
  }
  return trimEnded(open, (row) => row.state === "pending");
}

/** Takes in one event. An event that is already included changes nothing. */
export function apply(state: HostState, event: HostEvent): HostState {
  if (event.sequence <= state.cursor) return state;
  return { ...applyKind(state, event), cursor: event.sequence };
}

function applyKind(state: HostState, event: HostEvent): HostState {
  switch (event.kind) {
    case "approval.requested":
    case "approval.resolved":
      return markAgent(putApproval(state, event.payload as Approval), event.agent_id);
    case "question.asked":
      return markAgent(putQuestion(state, event.payload as Question), event.agent_id);
    case "question.ended":
    case "question.escalated":
      return markAgent(changeQuestion(state, event.payload as QuestionChange), event.agent_id);
    case "agent.unregistered":
      return removeAgent(state, event.agent_id);
    case "agent.parent_notified":
      return addNote(state, event);
    default:
      return isAboutAgent(event.kind) ? markAgent(state, event.agent_id) : state;
  }
}

function isAboutAgent(kind: string): boolean {
  return kind.startsWith("agent.") || kind.startsWith("turn.");
}

const USUAL_OPTIONS = ["approve", "deny"];
const USUAL_APPROVING = ["approve"];

/** A brief row with what it leaves out because it follows from the rest: see the protocol's `listed_ask.rs`. */
export function fillBrief(row: Approval): Approval {
  if (row.brief !== true) return row;
  const view = row.view && { ...row.view, cut: true, editable: row.view.editable ?? false, edits: row.view.edits ?? [], warnings: row.view.warnings ?? [] };
  return {
    ...row, action: row.action ?? "", approving: row.approving ?? USUAL_APPROVING, options: row.options ?? USUAL_OPTIONS,
    state: row.state ?? "pending", view,
  };
}

/** An event whose ask, if it has one, is filled. */
export function fillEvent(event: HostEvent): HostEvent {
  const isAsk = event.kind === "approval.requested" || event.kind === "approval.resolved";
  return isAsk ? { ...event, payload: fillBrief(event.payload as Approval) } : event;
}

function putApproval(state: HostState, sent: Approval): HostState {
  const row = fillBrief(sent);
  // An ask whose content was erased from the record comes with its id alone.
  const known = state.approvals.get(row.id);
  const whole = row.options === undefined ? known && { ...known, state: "unknown" as const } : row;
  if (!whole) return state;
  const approvals = new Map(state.approvals);
  approvals.set(whole.id, mergeBrief(known, whole));
  return { ...state, approvals: trimEnded(approvals, isOpen) };
}

/**
 * A brief row does not take away what was fetched whole; an ask's content never changes. The digest is compared all the
 * same: the next host may be another one, and what is shown is what is allowed.
 */
export function mergeBrief(known: Approval | undefined, row: Approval): Approval {
  if (known?.input_digest !== row.input_digest) return row;
  if (!isBrief(row) || known === undefined || isBrief(known) || known.view === undefined) return row;
  const edited = row.view?.edited_summary === undefined ? {} : { edited_summary: row.view.edited_summary };
  const { brief: _brief, ...rest } = row;
  const content = { action: known.action, input: known.input, view: { ...known.view, ...edited } };
  // While its owner is away, each row says until when.
  const { lapses_at: _lapsesAt, ...before } = known;
  return { ...before, ...rest, ...content };
}

/** Whether most of what an ask says was left out of its row. */
export function isBrief(row: Approval): boolean {
  return row.brief === true || row.view?.cut === true;
}

/** Takes in a row that was fetched or that came with a reply, unless a newer state is known. */
export function withApproval(state: HostState, row: Approval): HostState {
  const known = state.approvals.get(row.id);
  if (known && !isOpen(known) && isOpen(row)) return state;
  return putApproval(state, row);
}

export function withQuestion(state: HostState, row: Question): HostState {
  return putQuestion(state, row);
}

export function withAgents(state: HostState, rows: Agent[]): HostState {
  const agents = new Map(state.agents);
  const staleAgents = new Set(state.staleAgents);
  for (const row of rows) {
    agents.set(row.id, row);
    staleAgents.delete(row.id);
  }
  return { ...state, agents, staleAgents };
}

function putQuestion(state: HostState, row: Question): HostState {
  const questions = new Map(state.questions).set(row.id, row);
  return { ...state, questions: trimEnded(questions, (question) => question.state === "pending") };
}

interface QuestionChange {
  id?: string;
  question?: string;
  answer?: string;
  answered_by?: Who;
  state?: Question["state"];
}

function changeQuestion(state: HostState, change: QuestionChange): HostState {
  const known = state.questions.get(change.id ?? change.question ?? "");
  if (!known) return state;
  // Both events mean that people are asked now, or that it is over for everybody.
  return putQuestion(state, {
    ...known,
    for_people: true,
    answer: change.answer ?? known.answer,
    answered_by: change.answered_by ?? known.answered_by,
    state: change.state ?? known.state,
  });
}

function removeAgent(state: HostState, id: string | undefined): HostState {
  if (id === undefined) return state;
  const agents = new Map(state.agents);
  agents.delete(id);
  // The host has no row of it any more.
  const staleAgents = new Set(state.staleAgents);
  staleAgents.delete(id);
  return { ...state, agents, staleAgents };
}

function markAgent(state: HostState, id: string | undefined): HostState {
  if (id === undefined || state.staleAgents.has(id)) return state;
  return { ...state, staleAgents: new Set(state.staleAgents).add(id) };
}

function addNote(state: HostState, event: HostEvent): HostState {
  const payload = event.payload as { to?: string; text?: string } | null;
  if (event.kind !== "agent.parent_notified" || payload?.to !== undefined || payload?.text === undefined) return state;
  const note: Note = {
    id: event.id,
    agentId: event.agent_id,
    agentName: event.agent_name,
    text: payload.text,
    at: event.timestamp,
    sequence: event.sequence,
  };
  return { ...state, notes: [...state.notes, note].slice(-NOTES_MAX) };
}

/** Rows in the order in which they came, without the oldest of too many that ended. */
function trimEnded<Row>(rows: Map<string, Row>, open: (row: Row) => boolean): Map<string, Row> {
  const ended = [...rows].filter(([, row]) => !open(row));
  for (const [id] of ended.slice(0, Math.max(0, ended.length - ENDED_MAX))) rows.delete(id);
  return rows;
}

export function isOpen(row: Approval): boolean {
  return row.state === "pending";
}
