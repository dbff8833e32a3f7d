// The fold over a log that the host's own tests recorded: events lead to the state that the host's next snapshot has,
// from every snapshot to every later one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { apply, fromSnapshot, type HostState, withAgents } from "../src/state.ts";
import type { HostEvent, Snapshot } from "../src/wire_types.ts";
import story from "./fixtures/story.json";

interface StoryStep {
  what: string;
  events: HostEvent[];
  snapshot: Snapshot;
}

const steps = story.steps as unknown as StoryStep[];
const snapshots = [story.start as unknown as Snapshot, ...steps.map((step) => step.snapshot)];

/**
 * What both tell: a snapshot has neither questions that ended nor names of agents that left, and the events that a page
 * is sent do not say how often an answer was delivered. Its cursor is the newest of them; that of a snapshot may be
 * one that only matters to the host itself.
 */
function toldState(state: HostState): object {
  const rows = [...state.approvals.values()].sort((a, b) => a.sequence - b.sequence);
  const approvals = rows.map(({ delivery: _delivery, deliveries: _deliveries, agent_name, ...row }) => ({ ...row, agent_name: state.agents.has(row.agent_id ?? "") ? agent_name : undefined }));
  const questions = [...state.questions.values()].filter((row) => row.state === "pending");
  const { cursor: _cursor, ...rest } = state;
  return { ...rest, approvals, questions };
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
