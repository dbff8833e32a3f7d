// The fold over a log that the host's own tests recorded: events lead to the state that the host's next snapshot has,
// from every snapshot to every later one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { apply, fromSnapshot, type HostState, isOpen, withAgents } from "../src/state.ts";
import type { Approval, HostEvent, Snapshot } from "../src/wire_types.ts";
import story from "./fixtures/story.json";

interface StoryStep {
  what: string;
  events: HostEvent[];
  snapshot: Snapshot;
}

const steps = story.steps as unknown as StoryStep[];
const snapshots = [story.start as unknown as Snapshot, ...steps.map((step) => step.snapshot)];

/** Fields of an open ask that its row in a snapshot has, where events bring more. */
const listed = [
  "agent_id", "approving", "client_id", "created_at", "cwd", "id", "input_digest", "lapses_at", "options", "questions", "repeats", "sequence",
  "state", "tool",
] as const;

/** What snapshots and events both tell of an ask: a snapshot leaves out of rows what is read when an ask is opened. */
function toldAsk(row: Approval, state: HostState): object {
  const { summary, warnings, edited_summary } = row.view ?? {};
  // Names of agents that left are in events alone.
  const agent_name = state.agents.has(row.agent_id ?? "") ? row.agent_name : undefined;
  const told = { agent_name, view: { summary, warnings, edited_summary } };
  if (isOpen(row)) return { ...Object.fromEntries(listed.map((name) => [name, row[name]])), ...told };
  // Events do not say whether an answer was delivered, and how often.
  const { brief: _brief, delivery: _delivery, deliveries: _deliveries, details: _details, input: _input, edited_input: _edited, ...rest } = row;
  return { ...rest, ...told };
}

/**
 * What both tell: a snapshot has no questions that ended. Its cursor may be an event that only matters to the host
 * itself, which a page is not sent.
 */
function toldState(state: HostState): object {
  const rows = [...state.approvals.values()].sort((a, b) => a.sequence - b.sequence);
  const questions = [...state.questions.values()].filter((row) => row.state === "pending");
  const { cursor: _cursor, ...rest } = state;
  return { ...rest, approvals: rows.map((row) => toldAsk(row, state)), questions };
}

/** Fetches the rows that events were about, as the page does. */
function fetchStale(state: HostState, host: Snapshot): HostState {
  const rows = [...state.staleAgents].map((id) => {
    const row = host.agents.find((agent) => agent.id === id);
    assert.ok(row, `${id} is fetched and the host does not know it`);
    return row;
  });
  return withAgents(state, rows);
}

for (const [start, from] of snapshots.entries()) {
  test(`events after ${start === 0 ? "the beginning" : `“${steps[start - 1]?.what}”, step ${start},`} lead to every later snapshot`, () => {
    let state = fromSnapshot(from);
    for (const { what, events, snapshot } of steps.slice(start)) {
      state = events.reduce(apply, state);
      assert.deepEqual(toldState(fetchStale(state, snapshot)), toldState(fromSnapshot(snapshot)), what);
    }
  });
}

test("a snapshot in the middle of the story changes nothing", () => {
  let state = fromSnapshot(story.start as unknown as Snapshot);
  for (const { what, events, snapshot } of steps) {
    state = fetchStale(events.reduce(apply, state), snapshot);
    assert.deepEqual(toldState(fromSnapshot(snapshot, state)), toldState(state), what);
    assert.equal(events.reduce(apply, state), state, what);
  }
});

/** Every beginning of the story, also in the middle of a step, with the snapshot that follows. */
function* prefixes(): Generator<{ events: HostEvent[]; next: Snapshot; what: string }> {
  const events: HostEvent[] = [];
  for (const step of steps) {
    for (const event of step.events) {
      events.push(event);
      yield { events: [...events], next: step.snapshot, what: `${step.what}, event ${event.sequence}` };
    }
  }
}

test("after every event the state is that of the snapshot, or becomes so with the rest of its commit", () => {
  for (const { events, next, what } of prefixes()) {
    const state = events.reduce(apply, fromSnapshot(story.start as unknown as Snapshot));
    assert.equal(state.cursor, events.at(-1)?.sequence, what);
    // A snapshot is never taken inside a commit; the rest of it leads there, however the events come in.
    const rest = steps.flatMap((step) => step.events).filter((event) => event.sequence > state.cursor && event.sequence <= next.event_sequence);
    const whole = fetchStale(rest.reduce(apply, state), next);
    assert.deepEqual(toldState(whole), toldState(fromSnapshot(next)), what);
  }
});

test("a new snapshot brings every earlier state up to date", () => {
  for (const { events, what } of prefixes()) {
    const state = events.reduce(apply, fromSnapshot(story.start as unknown as Snapshot));
    for (const later of snapshots.filter((snapshot) => snapshot.event_sequence >= state.cursor)) {
      // Questions that ended meanwhile are kept as ended, and are not part of what both tell.
      assert.deepEqual(toldState(fromSnapshot(later, state)), toldState(fromSnapshot(later)), what);
    }
  }
});
