// Tries a tool call against all rules that apply.

import { useState } from "preact/hooks";
import { effectMark, ruleSource } from "../ask_facts.ts";
import { toolInput } from "../rule_texts.ts";
import { call, hasSnapshot, hostState } from "../store.ts";
import { line } from "../visible.ts";
import type { Verdict } from "../wire_types.ts";
import { useDelayed } from "./use_delayed.ts";

const tools = ["Bash", "Read", "Edit", "Write", "WebFetch"];
const hints: Record<string, string> = { Bash: "cargo test && git push", WebFetch: "https://docs.rs/" };

interface RuleTryProps {
  folder: string;
  /** Takes a rule to be written. */
  onWrite(rule: string): void;
}

export function RuleTry({ folder, onWrite }: RuleTryProps) {
  const [tool, setTool] = useState("Bash");
  const [text, setText] = useState("");
  const [agentId, setAgentId] = useState("");
  const agents = [...hostState.value.agents.values()].filter((agent) => !agent.managed?.archived);
  // Before the first snapshot the folder is not known, and without it other rules apply.
  const typed = hasSnapshot.value ? text.trim() : "";
  const result = useDelayed(typed && JSON.stringify([tool, text, folder, agentId]), () =>
    call("host.check_rules", { tool, input: toolInput(tool, text), ...(folder && { cwd: folder }), ...(agentId && { agent_id: agentId }) }));
  return (
    <section class="card stack" aria-label="Try it">
      <h2>What would happen</h2>
      <div class="try-row">
        <select aria-label="Tool" value={tool} onChange={(event) => setTool(event.currentTarget.value)}>{tools.map((word) => <option key={word}>{word}</option>)}</select>
        <input type="text" class="rule-text" aria-label="What it would do" spellcheck={false} placeholder={hints[tool] ?? "/home/you/project/src/main.rs"} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <select aria-label="Agent that asks" value={agentId} onChange={(event) => setAgentId(event.currentTarget.value)}>
          <option value="">any agent</option>
          {agents.map((agent) => <option key={agent.id} value={agent.id}>{line(agent.name)}</option>)}
        </select>
      </div>
      {result?.error && <p class="bad small">{result.error}</p>}
      {result?.data && <VerdictView verdict={result.data.verdict} />}
      {result?.data?.candidates && result.data.candidates.length > 0 && result.data.verdict.effect === "ask" && (
        <div class="row wrap small">
          <span class="muted">Write a rule:</span>
          {result.data.candidates.map((candidate) => (
            <button key={candidate.rule} class="small" title={line(candidate.note)} onClick={() => onWrite(candidate.rule)}><code>{line(candidate.rule)}</code></button>
          ))}
        </div>
      )}
    </section>
  );
}

const effectWords: Record<string, string> = { allow: "It would be allowed.", ask: "It would ask you.", deny: "It would be denied." };

function VerdictView({ verdict }: { verdict: Verdict }) {
  return (
    <div class="stack">
      <p role="status"><strong>{effectWords[verdict.effect] ?? line(verdict.effect)}</strong></p>
      <ul class="verdict-parts">
        {verdict.parts.map((part, index) => (
          <li key={index} class={part.effect}>
            <span class="effect" aria-hidden="true">{effectMark(part.effect)}</span>
            <code class="grow">{line(part.subject)}</code>
            <span class="nowrap">{part.effect}</span>
            <span class="muted small rule-source">{ruleSource(part)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
