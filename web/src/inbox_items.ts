// The inbox as a list: asks, questions and notes in one order, with equal asks as one row.
//
// Invariant: what is open on screen stays in the list and in its place, also after it ended.

import { computed, signal } from "@preact/signals";
import { currentRoute } from "./route.ts";
import { type HostState, isOpen, type Note } from "./state.ts";
import { clock, hostState } from "./store.ts";
import { askerName } from "./text.ts";
import { line } from "./visible.ts";
import type { Agent, Approval, Question } from "./wire_types.ts";

export type InboxSection = "waiting" | "orchestrator" | "later" | "note";

interface ItemBase {
  id: string;
  section: InboxSection;
  sequence: number;
  createdAt: string;
  asker: string;
  agentId?: string;
  ended: boolean;
}

export type InboxItem =
  | (ItemBase & { kind: "ask"; row: Approval; /** Other asks for exactly the same. */ alike: Approval[] })
  | (ItemBase & { kind: "question"; row: Question })
  | (ItemBase & { kind: "note"; note: Note });

const LATER_MS = 10 * 60_000;
/** Until when an item is out of the way, by its id. On this screen only: nothing of it is sent. */
export const laterUntil = signal<ReadonlyMap<string, number>>(new Map());

export function putLater(ids: string[]): void {
  const until = Date.now() + LATER_MS;
  laterUntil.value = new Map([...laterUntil.value, ...ids.map((id) => [id, until] as const)]);
}

export function takeBackLater(): void {
  laterUntil.value = new Map();
}

export interface ListOptions {
  openId?: string;
  later: ReadonlyMap<string, number>;
  now: number;
}

const sectionOrder: InboxSection[] = ["waiting", "orchestrator", "later", "note"];

/** All items in the order in which the list shows them: by section, then oldest first. */
export function listItems(state: HostState, { openId, later, now }: ListOptions): InboxItem[] {
  const isLater = (id: string) => id !== openId && (later.get(id) ?? 0) > now;
  const asks = [...state.approvals.values()].filter((row) => isOpen(row) || row.id === openId);
  const questions = [...state.questions.values()].filter((row) => row.state === "pending" || row.id === openId);
  const items = [
    ...groupAlike(asks, state, openId).map((group) => askItem(group, isLater)),
    ...questions.map((row) => questionItem(row, isLater)),
    ...state.notes.map(noteItem),
  ];
  const rank = (item: InboxItem) => sectionOrder.indexOf(item.section);
  return items.sort((a, b) => rank(a) - rank(b) || a.sequence - b.sequence);
}

function askItem([row, ...alike]: [Approval, ...Approval[]], isLater: (id: string) => boolean): InboxItem {
  const section = isLater(row.id) ? "later" : "waiting";
  return { ...base(row, section, !isOpen(row)), kind: "ask", row, alike };
}

function questionItem(row: Question, isLater: (id: string) => boolean): InboxItem {
  const section = isLater(row.id) ? "later" : row.for_people === false ? "orchestrator" : "waiting";
  return { ...base(row, section, row.state !== "pending"), kind: "question", row };
}

function base(row: Approval | Question, section: InboxSection, ended: boolean): ItemBase {
  return { id: row.id, section, sequence: row.sequence, createdAt: row.created_at, asker: askerName(row), agentId: row.agent_id, ended };
}

function noteItem(note: Note): InboxItem {
  return {
    id: note.id, kind: "note", section: "note", sequence: note.sequence, createdAt: note.at,
    asker: line(note.agentName ?? note.agentId ?? "somebody"), agentId: note.agentId, ended: false, note,
  };
}

/** Equal asks as one group, oldest first. The one that is open leads its group. */
function groupAlike(rows: Approval[], state: HostState, openId?: string): [Approval, ...Approval[]][] {
  const groups = new Map<string, [Approval, ...Approval[]]>();
  for (const row of [...rows].sort((a, b) => a.sequence - b.sequence)) {
    const key = alikeKey(row, state.agents) ?? row.id;
    const group = groups.get(key);
    if (!group) groups.set(key, [row]);
    else if (row.id === openId) group.unshift(row);
    else group.push(row);
  }
  return [...groups.values()];
}

const alikeKeys = new WeakMap<Approval, { agent: Agent | undefined; key: string | undefined }>();

/** What equal asks have in common: tool, exact input, options and the project they would run in. */
export function alikeKey(row: Approval, agents: ReadonlyMap<string, Agent>): string | undefined {
  const agent = row.agent_id === undefined ? undefined : agents.get(row.agent_id);
  const known = alikeKeys.get(row);
  if (known && known.agent === agent) return known.key;
  const key = makeAlikeKey(row, agent);
  alikeKeys.set(row, { agent, key });
  return key;
}

function makeAlikeKey(row: Approval, agent: Agent | undefined): string | undefined {
  const countsAlone = !row.tool || !row.input_digest || !isOpen(row) || (row.questions?.length ?? 0) > 0 || row.repeats;
  if (countsAlone) return undefined;
  const folder = agent?.managed?.worktree?.repository ?? row.cwd ?? "";
  return JSON.stringify([row.tool, row.input_digest, row.options, folder]);
}

/** The item that is open above the composer of its agent. */
export const inlineId = signal<string | undefined>(undefined);

/** The item that is open, wherever. */
export const openId = computed(() => {
  const route = currentRoute.value;
  return route.screen === "inbox" ? route.askId : route.screen === "agent" ? inlineId.value : undefined;
});

/** Changes only when the end of a "not now" passes, so that the list is not sorted again every second. */
const laterClock = computed(() => {
  const passed = [...laterUntil.value.values()].filter((until) => until <= clock.value);
  return passed.length === 0 ? 0 : Math.max(...passed);
});

const waitingItems = computed(() => listItems(hostState.value, { later: laterUntil.value, now: laterClock.value }));

/** Moving from one open item to the next leaves the list as it is, so that it costs nothing however long it is. */
export const openItems = computed(() => {
  const items = waitingItems.value;
  const id = openId.value;
  if (id === undefined || items.some((item) => item.id === id && item.section !== "later")) return items;
  return listItems(hostState.value, { openId: id, later: laterUntil.value, now: laterClock.value });
});

/** Asks and questions that wait for people, each counted. */
export const openCount = computed(() => openAskCount.value + openQuestionCount.value);
export const openAskCount = computed(() => [...hostState.value.approvals.values()].filter(isOpen).length);
export const openQuestionCount = computed(
  () => [...hostState.value.questions.values()].filter((row) => row.state === "pending" && row.for_people !== false).length,
);
export const oldestAt = computed(() => {
  const waiting = openItems.value.filter((item) => item.kind !== "note" && item.section !== "orchestrator" && !item.ended);
  return waiting.map((item) => item.createdAt).sort()[0];
});

/** One line about an item. */
export function summaryOf(item: InboxItem): string {
  if (item.kind === "note") return oneLine(item.note.text);
  if (item.kind === "question") return oneLine(item.row.question);
  return askSummary(item.row);
}

/** The host's own summary is escaped already; without it, the agent's words are all there is. */
export function askSummary(row: Approval): string {
  if (row.questions?.[0]) return oneLine(row.questions[0].question);
  return row.view?.summary ?? line(row.tool ? `${row.tool}: ${row.action}` : row.action);
}

/** Prose in one line. A command is never shortened so: there a line break means something. */
function oneLine(text: string): string {
  return line(text.trim().replace(/\s*\n\s*/g, " "));
}
