// The page's state as signals, fed by the link to the host.

import { batch, computed, signal } from "@preact/signals";
import { apply, emptyState, fillEvent, fromSnapshot, withAgents, withApproval, withQuestion } from "./state.ts";
import { CallError, HostLink, type LinkState } from "./wire.ts";
import type { Approval, AskViewer, HostEvent, HostStatus, MethodName, Params, Question, Result } from "./wire_types.ts";

/** However many events come, there are at most so many draws in so many milliseconds. */
const DRAWS_MAX = 2;
const DRAWS_WITHIN_MS = 100;
const CLOCK_EVERY_MS = 1_000;
/** A short loss, as when a phone wakes, is not worth a notice. */
const LOSS_NOTICE_MS = 1_000;

export const hostState = signal(emptyState);
export const hostStatus = signal<HostStatus | undefined>(undefined);
export const linkState = signal<LinkState>("connecting");
/** Since when the host cannot be reached. */
export const lostSince = signal<number | undefined>(undefined);
/** Whether the loss has lasted long enough to be told. */
export const lossShown = signal(false);
export const hasSnapshot = signal(false);
/** Asks and questions that are open on other screens. */
export const otherViewers = signal<AskViewer[]>([]);
/** The time, once a second: ages and deadlines are drawn from it. */
export const clock = signal(Date.now());

export const isLive = computed(() => linkState.value === "live");
export const canDecide = computed(() => {
  const role = hostStatus.value?.you.role;
  return role === undefined || role === "operator" || role === "host";
});
export const storeError = computed(() => hostStatus.value?.store_error ?? hostState.value.storeError);

type EventListener = (event: HostEvent) => void;
const eventListeners = new Set<EventListener>();
let waiting: HostEvent[] = [];
let drawTimer: ReturnType<typeof setTimeout> | undefined;
/** When the last draws were. */
let drawnAt: number[] = [];
let link: HostLink | undefined;

/** Calls back with each event, after the state has it. Returns a function that ends it. */
export function onHostEvent(listener: EventListener): () => void {
  eventListeners.add(listener);
  return () => eventListeners.delete(listener);
}

/** Sends one request to the host. */
export function call<M extends MethodName>(method: M, params: Params<M>, replyMaxMs?: number): Promise<Result<M>> {
  return link ? link.call(method, params, replyMaxMs) : Promise.reject(new CallError("not_sent", "not connected"));
}

export function startStore(): void {
  link = new HostLink({ onState: setLinkState, onSnapshot: takeSnapshot, onEvent: queueEvent, onViewers: (viewers) => (otherViewers.value = viewers), onPing: refreshStatus });
  setInterval(() => (clock.value = Date.now()), CLOCK_EVERY_MS);
}

export function reconnectNow(): void {
  link?.reconnectNow();
}

export async function refreshStatus(): Promise<void> {
  hostStatus.value = await call("host.status", {}, 5_000);
}

function setLinkState(state: LinkState): void {
  linkState.value = state;
  if (state === "live") {
    batch(() => {
      lostSince.value = undefined;
      lossShown.value = false;
    });
    return;
  }
  // The next connection is told anew; until then nobody knows.
  otherViewers.value = [];
  if (lostSince.value === undefined) {
    const since = Date.now();
    lostSince.value = since;
    setTimeout(() => (lossShown.value = lostSince.value === since), LOSS_NOTICE_MS);
  }
}

function takeSnapshot(snapshot: Parameters<typeof fromSnapshot>[0]): void {
  waiting = waiting.filter((event) => event.sequence > snapshot.event_sequence);
  batch(() => {
    hostState.value = fromSnapshot(snapshot, hostState.value);
    hasSnapshot.value = true;
  });
}

function queueEvent(event: HostEvent): void {
  waiting.push(fillEvent(event));
  if (drawTimer !== undefined) return;
  // An event is drawn at once, also when it follows another; those of a flood are drawn together.
  const now = performance.now();
  drawnAt = drawnAt.filter((at) => now - at < DRAWS_WITHIN_MS);
  const first = drawnAt[0];
  if (drawnAt.length < DRAWS_MAX || first === undefined) drawWaiting();
  else drawTimer = setTimeout(drawWaiting, DRAWS_WITHIN_MS - (now - first));
}

function drawWaiting(): void {
  const events = waiting;
  waiting = [];
  drawTimer = undefined;
  drawnAt.push(performance.now());
  const { staleAgents, ...state } = events.reduce(apply, hostState.value);
  for (const id of staleAgents) agentsToFetch.add(id);
  // Changed once: each change is a draw.
  hostState.value = { ...state, staleAgents: new Set() };
  for (const event of events) for (const listener of eventListeners) listener(event);
  void fetchStaleAgents();
}

/** Agents whose row is older than an event about them. */
const agentsToFetch = new Set<string>();
let fetchingAgents = false;

/** Fetches the rows of agents that events were about; at most one round at a time. */
async function fetchStaleAgents(): Promise<void> {
  if (fetchingAgents || agentsToFetch.size === 0) return;
  fetchingAgents = true;
  try {
    const ids = [...agentsToFetch];
    agentsToFetch.clear();
    const found = await Promise.all(ids.map((id) => call("host.agent", { agent_id: id }).catch(() => undefined)));
    const rows = found.filter((row) => row !== undefined);
    if (rows.length > 0) hostState.value = withAgents(hostState.value, rows);
  } finally {
    fetchingAgents = false;
  }
  if (agentsToFetch.size > 0) setTimeout(() => void fetchStaleAgents(), DRAWS_WITHIN_MS);
}

export function putApproval(row: Approval): void {
  hostState.value = withApproval(hostState.value, row);
}

export function putQuestion(row: Question): void {
  hostState.value = withQuestion(hostState.value, row);
}

/** Fetches the whole of an ask that came without its content. */
export async function loadApproval(id: string): Promise<Approval> {
  const row = await call("host.approval", { approval_id: id });
  putApproval(row);
  return row;
}
