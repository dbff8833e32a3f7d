// Rules: what applies and where it is written, what was remembered, and rules to be tried or written.

import { useEffect, useState } from "preact/hooks";
import { RuleTry } from "../parts/rule_try.tsx";
import { RuleWriter } from "../parts/rule_writer.tsx";
import { showToast } from "../parts/toasts.tsx";
import { UntrustedFile } from "../parts/untrusted_file.tsx";
import { useAction } from "../parts/use_action.ts";
import { useLoaded } from "../parts/use_loaded.ts";
import { fileName, limitsText, projectName, scopeText, usedText } from "../rule_texts.ts";
import { call, canDecide, clock, hasSnapshot, hostState, onHostEvent } from "../store.ts";
import { age, shortId, whoName } from "../text.ts";
import { line } from "../visible.ts";
import type { MinedRule, RulesResult } from "../wire_admin.ts";
import type { Grant } from "../wire_types.ts";

export function RulesScreen() {
  const folders = projectFolders();
  const [chosen, setFolder] = useState<string | undefined>(undefined);
  const folder = chosen ?? folders[0] ?? "";
  // Agents that come later must not change where a rule applies that is being written.
  useEffect(() => {
    if (hasSnapshot.value && chosen === undefined) setFolder(folder);
  }, [hasSnapshot.value]);
  const [rule, setRule] = useState("");
  const { data, error, reload } = useLoaded(`rules-${folder}`, () => call("host.rules", folder ? { cwd: folder } : {}));
  useEffect(() => onHostEvent((event) => {
    if (event.kind.startsWith("grant.") || event.kind.startsWith("rules.")) reload();
  }), []);
  const write = (text: string) => {
    setRule(text);
    document.getElementById("rule-text")?.scrollIntoView({ block: "center" });
  };
  return (
    <div class="screen-column">
      <header class="screen-head">
        <h1>Rules</h1>
        <label class="row folder-choice"><span class="muted small nowrap">that apply in</span>
          <select value={folder} onChange={(event) => setFolder(event.currentTarget.value)}>
            {folders.map((path) => <option key={path} value={path}>{projectName(path)}</option>)}
            <option value="">no project</option>
          </select>
        </label>
      </header>
      <div class="screen-scroll cards">
        {error && <p class="notice bad" role="alert">{error}</p>}
        {data && <RuleTroubles rules={data} folder={folder} onChanged={reload} />}
        <RuleTry folder={folder} onWrite={write} />
        <RuleWriter rule={rule} folder={folder} onRule={setRule} onSaved={reload} />
        {data && <GrantList grants={data.grants} onChanged={reload} />}
        {data && <FileRules rules={data} />}
        <Suggestions onWrite={write} />
      </div>
    </div>
  );
}

/** The folders that agents work in, each project once. */
function projectFolders(): string[] {
  const folders = [...hostState.value.agents.values()].flatMap(({ managed }) => (managed ? [managed.worktree?.repository ?? managed.cwd] : []));
  return [...new Set(folders)].sort();
}

function RuleTroubles({ rules, folder, onChanged }: { rules: RulesResult; folder: string; onChanged(): void }) {
  return (
    <>
      {rules.suspended && <p class="notice bad" role="alert">No rule allows anything now: {line(rules.suspended)}</p>}
      {rules.problems.map((problem, index) => (
        <p key={index} class={`notice ${problem.suspends ? "bad" : "warn"}`}>
          <span>{line(problem.file)}{problem.line !== undefined && `:${problem.line}`}: {line(problem.message)}</span>
        </p>
      ))}
      {rules.untrusted.map((file) => <UntrustedFile key={file} file={file} folder={folder} rules={rules.files.filter((rule) => rule.source === file)} onTrusted={onChanged} />)}
    </>
  );
}

function GrantList({ grants, onChanged }: { grants: Grant[]; onChanged(): void }) {
  return (
    <section class="card stack" aria-label="Remembered rules">
      <h2>Remembered <span class="muted small">{grants.length}</span></h2>
      {grants.length === 0 && <p class="muted small">Nothing yet. Approve an ask with “remember”, or write a rule above.</p>}
      <ul class="rule-list">{grants.map((grant) => <GrantRow key={grant.id} grant={grant} onChanged={onChanged} />)}</ul>
    </section>
  );
}

function GrantRow({ grant, onChanged }: { grant: Grant; onChanged(): void }) {
  const [asked, setAsked] = useState(false);
  const action = useAction();
  const revoke = async () => {
    const removed = await action.run(() => call("host.remove_rule", { id: grant.id }));
    if (!removed) return;
    showToast({ text: `revoked ${line(grant.rule)}` });
    onChanged();
  };
  return (
    <li class="rule-item">
      <EffectMark effect={grant.effect} />
      <div class="grow">
        <code>{line(grant.rule)}</code>
        <p class="muted small">{[scopeText(grant), limitsText(grant, clock.value), usedText(grant, clock.value), `by ${whoName(grant.by)} ${age(grant.created_at, clock.value)} ago`, shortId(grant.id)].join(" · ")}</p>
        {action.error && <p class="bad small" role="alert">{action.error}</p>}
      </div>
      {canDecide.value && !asked && <button onClick={() => setAsked(true)}>Revoke…</button>}
      {asked && <span class="row"><button onClick={() => setAsked(false)}>Keep</button><button class="bad" disabled={action.sending} onClick={() => void revoke()}>{action.sending ? "Sending…" : "Revoke"}</button></span>}
    </li>
  );
}

const effectLooks: Record<string, [shape: string, tone: string]> = { allow: ["✓", "good"], ask: ["?", "accent"], deny: ["✕", "bad"] };

function EffectMark({ effect }: { effect: string }) {
  const [shape, tone] = effectLooks[effect] ?? ["·", "muted"];
  return <span class={`effect-mark nowrap ${tone}`}><span aria-hidden="true">{shape}</span> {line(effect)}</span>;
}

function FileRules({ rules }: { rules: RulesResult }) {
  return (
    <section class="card stack" aria-label="Rules in files">
      <h2>In files {rules.files.length > 0 && <span class="muted small">{rules.files.length}, in the order in which they count</span>}</h2>
      {rules.files.length === 0 && <p class="muted small">No rule file applies here: every action that nothing remembered covers becomes an ask.</p>}
      <ul class="rule-list">
        {rules.files.map((rule, index) => (
          <li key={index} class={`rule-item ${rule.counts ? "" : "without-effect"}`}>
            <EffectMark effect={rule.effect} />
            <code class="grow">{line(rule.rule)}</code>
            {!rule.counts && <span class="warn small nowrap">no effect</span>}
            {rule.area && <span class="muted small nowrap">{line(rule.area)} only</span>}
            <span class="muted small" title={line(rule.source)}>{fileName(rule.source)}{rule.line !== undefined && `:${rule.line}`}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Suggestions({ onWrite }: { onWrite(rule: string): void }) {
  const { data } = useLoaded("suggestions", () => call("host.suggest_rules", {}));
  const mined: MinedRule[] = data?.mined ?? [];
  if (mined.length === 0) return null;
  return (
    <section class="card stack" aria-label="Suggestions">
      <h2>Suggestions <span class="muted small">what was always allowed by hand and never denied</span></h2>
      <ul class="rule-list">
        {mined.map((row) => (
          <li key={row.rule} class="rule-item">
            <code class="grow">{line(row.rule)}</code>
            <span class="muted small">allowed {row.allowed === 1 ? "once" : `${row.allowed} times`}, last {age(row.last_at, clock.value)} ago</span>
            <button onClick={() => onWrite(row.rule)}>Try it</button>
          </li>
        ))}
      </ul>
    </section>
  );
}
