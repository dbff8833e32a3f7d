// The state of an agent: a shape and a word, never colour alone.

import { stateLook } from "../agent_facts.ts";
import type { Agent } from "../wire_types.ts";

export function StateMark({ agent }: { agent: Agent }) {
  const { shape, word, tone } = stateLook(agent);
  return <span class={`state-mark nowrap ${tone}`}><span aria-hidden="true">{shape}</span> {word}</span>;
}
