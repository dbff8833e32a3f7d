// Starts an agent: which one, where, and what it is to do first.

import { useEffect, useState } from "preact/hooks";
import { putAgent } from "../agent_actions.ts";
import { navigate } from "../route.ts";
import { call, hostState } from "../store.ts";
import { line } from "../visible.ts";
import { emptyDraft, OWN_COMMAND, type SpawnDraft, spawnParams, whyNotSpawn } from "../spawn_draft.ts";
import type { CatalogRow } from "../wire_agents.ts";
import { Dialog } from "./dialog.tsx";
import { showToast } from "./toasts.tsx";
import { useAction } from "./use_action.ts";
import { useLoaded } from "./use_loaded.ts";

/** Folders that agents work in already, the most used first. */
function knownFolders(): string[] {
  const counts = new Map<string, number>();
  for (const { managed } of hostState.value.agents.values()) {
    const folder = managed?.worktree?.repository ?? managed?.cwd;
    if (folder) counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]).map(([folder]) => folder);
}

export function SpawnSheet({ onClose }: { onClose(): void }) {
  const catalog = useLoaded("catalog", () => call("host.catalog", {}));
  const folders = knownFolders();
  const [draft, setDraft] = useState<SpawnDraft>({ ...emptyDraft, cwd: folders[0] ?? "" });
  const installed = catalog.data?.find((row) => row.installed)?.name;
  useEffect(() => {
    if (installed !== undefined) setDraft((before) => (before.command === "" ? { ...before, agent: installed } : before));
  }, [installed]);
  const action = useAction();
  const set = (change: Partial<SpawnDraft>) => setDraft((before) => ({ ...before, ...change }));
  const whyNot = whyNotSpawn(draft);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (whyNot !== undefined) return;
    const started = await action.run(async () => {
      const row = await call("host.spawn_agent", spawnParams(draft), 60_000);
      putAgent(row);
      showToast({ text: `started ${line(row.name)}`, action: { word: "Open", run: () => navigate({ screen: "agent", agentId: row.id, tab: "transcript" }) } });
    });
    if (started) onClose();
  };
  return (
    <Dialog title="Start an agent" wide onClose={onClose}>
      <form class="stack" onSubmit={(event) => void submit(event)}>
        <CatalogChoice rows={catalog.data} error={catalog.error} draft={draft} onChange={set} />
        <label class="stack">
          <span>Folder</span>
          <input type="text" list="known-folders" value={draft.cwd} placeholder="/home/you/project" onInput={(event) => set({ cwd: event.currentTarget.value })} />
          <datalist id="known-folders">{folders.map((folder) => <option key={folder} value={folder} />)}</datalist>
        </label>
        <label class="choice"><input type="checkbox" checked={draft.worktree} onChange={(event) => set({ worktree: event.currentTarget.checked })} /> <span>In a git worktree of its own</span></label>
        <label class="stack"><span>First message <span class="muted">(optional)</span></span><textarea value={draft.prompt} onInput={(event) => set({ prompt: event.currentTarget.value })} /></label>
        <MoreFields draft={draft} onChange={set} />
        {action.error && <p class="notice bad" role="alert">{action.error}</p>}
        <div class="dialog-actions">
          {whyNot && <span class="muted small grow">{whyNot}</span>}
          <button type="button" onClick={onClose}>Cancel</button>
          <button type="submit" class="primary" disabled={whyNot !== undefined || action.sending}>{action.sending ? "Starting…" : "Start"}</button>
        </div>
      </form>
    </Dialog>
  );
}

interface DraftProps {
  draft: SpawnDraft;
  onChange(change: Partial<SpawnDraft>): void;
}

function CatalogChoice({ rows, error, draft, onChange }: DraftProps & { rows: CatalogRow[] | undefined; error: string | undefined }) {
  if (error) return <p class="notice bad" role="alert">{error}</p>;
  if (!rows) return <p class="muted">Looking which agents are installed…</p>;
  const chosen = rows.find((row) => row.name === draft.agent);
  return (
    <fieldset class="stack">
      <legend>Agent</legend>
      <select aria-label="Agent" value={draft.agent} onChange={(event) => onChange({ agent: event.currentTarget.value })}>
        <option value={OWN_COMMAND}>A command of your own (ACP)</option>
        {[...rows].sort((a, b) => Number(b.installed) - Number(a.installed)).map((row) => (
          <option key={row.name} value={row.name} disabled={!row.installed}>{line(row.title)}{row.installed ? "" : " (not installed)"}</option>
        ))}
      </select>
      {draft.agent === OWN_COMMAND && <input type="text" class="code" aria-label="Command" placeholder="my-agent --acp" value={draft.command} onInput={(event) => onChange({ command: event.currentTarget.value })} />}
      {chosen && <p class="muted small">{chosen.command && <code>{line(chosen.command.join(" "))}</code>} {chosen.hint && line(chosen.hint)}</p>}
    </fieldset>
  );
}

function MoreFields({ draft, onChange }: DraftProps) {
  const field = (key: keyof SpawnDraft, word: string, hint: string) => (
    <label class="stack"><span>{word}</span><input type="text" value={String(draft[key])} placeholder={hint} onInput={(event) => onChange({ [key]: event.currentTarget.value })} /></label>
  );
  return (
    <details class="stack">
      <summary>More</summary>
      <div class="field-grid">
        {field("name", "Name", "made up if empty")}
        {draft.worktree && field("branch", "Branch", "named after the agent if empty")}
        {field("model", "Model", "the agent's own default")}
        {field("mode", "Mode", "the agent's own default")}
        {field("allowedTools", "Only these tools", "Read, Bash")}
        {field("disallowedTools", "Not these tools", "WebFetch")}
      </div>
      <label class="choice"><input type="checkbox" checked={draft.orchestrator} onChange={(event) => onChange({ orchestrator: event.currentTarget.checked })} /> <span>An orchestrator: it may start agents of its own</span></label>
    </details>
  );
}
