// The terminals of an agent: what its commands print, live and after their end. Nothing can be typed into them here.

import { useEffect, useState } from "preact/hooks";
import { call, clock, isLive } from "../store.ts";
import { age, shortSpan } from "../text.ts";
import { line } from "../visible.ts";
import type { TerminalRow } from "../wire_agents.ts";
import type { Agent } from "../wire_types.ts";
import { TerminalFrame } from "./terminal_frame.tsx";
import { useLoaded } from "./use_loaded.ts";

const RELOAD_EVERY_MS = 4_000;

export function AgentTerminalsTab({ agent }: { agent: Agent }) {
  const { data: rows, error, reload } = useLoaded(`terminals-${agent.id}`, () => call("host.terminals", { agent_id: agent.id }));
  const [chosen, setChosen] = useState<string | undefined>(undefined);
  useEffect(() => {
    const timer = setInterval(() => isLive.value && document.visibilityState === "visible" && reload(), RELOAD_EVERY_MS);
    return () => clearInterval(timer);
  }, [agent.id]);
  if (!rows) return error ? <p class="notice bad diff-problem" role="alert">{error}</p> : <p class="empty muted">Loading…</p>;
  if (rows.length === 0) return <div class="empty"><p>No terminals</p><p class="muted small">Commands that the agent runs through the host appear here.</p></div>;
  const newestFirst = [...rows].sort((a, b) => b.started_at.localeCompare(a.started_at));
  const open = rows.find((row) => row.id === chosen) ?? newestFirst[0];
  return (
    <div class="terminals">
      <ul class="terminal-list" aria-label="Terminals">
        {newestFirst.map((row) => (
          <li key={row.id}>
            <button class={`plain ${row === open ? "chosen" : ""}`} aria-current={row === open ? "true" : undefined} onClick={() => setChosen(row.id)}>
              <TerminalState row={row} />
              <code class="grow ellipsis">{line(row.command)}</code>
              <span class="muted small nowrap">{age(row.started_at, clock.value)}</span>
            </button>
          </li>
        ))}
      </ul>
      {/* A new run counts its terminals from one again. */}
      {open && <TerminalFrame key={`${open.id} ${open.started_at}`} agentId={agent.id} terminalId={open.id} />}
    </div>
  );
}

function TerminalState({ row }: { row: TerminalRow }) {
  if (row.ended_at === undefined) return <span class="good nowrap small">● running</span>;
  const took = shortSpan(Date.parse(row.ended_at) - Date.parse(row.started_at));
  if (row.signal !== undefined) return <span class="bad nowrap small">■ signal {line(row.signal)}</span>;
  if (row.exit_code === 0) return <span class="muted nowrap small">✓ {took}</span>;
  return <span class="bad nowrap small">✕ exit {row.exit_code ?? "unknown"}</span>;
}
