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
 * What both tell: a snapshot has neither questions that ended nor names of agents that left, and events do not say
 * whether an answer was delivered.
 */
function toldState(state: HostState): object {
  const rows = [...state.approvals.values()].sort((a, b) => a.sequence - b.sequence);
  const approvals = rows.map(({ delivery: _delivery, agent_name, ...row }) => ({ ...row, agent_name: state.agents.has(row.agent_id ?? "") ? agent_name : undefined }));
  const questions = [...state.questions.values()].filter((row) => row.state === "pending");
  return { ...state, approvals, questions };
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
