// Rules made of an allow, with what each would have done with the asks on the record.

import { useEffect, useState } from "preact/hooks";
import { approvingOption } from "../ask_facts.ts";
import { clickAct } from "../keys.ts";
import { backtestText } from "../rule_texts.ts";
import { call, hostState } from "../store.ts";
import { askerName, folderName, plural } from "../text.ts";
import { line } from "../visible.ts";
import type { Approval, BacktestResult, RememberScope } from "../wire_types.ts";
import type { FormProps } from "./ask_forms.tsx";
import { Dialog } from "./dialog.tsx";

interface RuleDraft {
  rule: string;
  note: string;
  part: number;
  chosen: boolean;
}

type Lifetime = "hour" | "today" | "month" | "forever";

const HOUR_MS = 3_600_000;
const BACKTEST_ASKS = 60;
const TYPING_PAUSE_MS = 250;

/** Milliseconds until a rule ends; nothing for one that does not. */
export function expiryOf(lifetime: Lifetime, now: Date): number | undefined {
  if (lifetime === "hour") return HOUR_MS;
  if (lifetime === "month") return 30 * 24 * HOUR_MS;
  if (lifetime === "forever") return undefined;
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() + 1).getTime() - now.getTime();
}

export function RememberForm({ row, answering }: FormProps) {
  const [drafts, setDrafts] = useState<RuleDraft[] | string | undefined>(undefined);
  const [scope, setScope] = useState<RememberScope>(row.cwd === undefined ? "session" : "project");
  const [lifetime, setLifetime] = useState<Lifetime>("month");
  const [uses, setUses] = useState("");
  useEffect(() => void suggest(row).then(setDrafts), [row.id]);
  const rules = Array.isArray(drafts) ? drafts.filter((draft) => draft.chosen && draft.rule.trim()) : [];
  const hasDrafts = Array.isArray(drafts) && drafts.length > 0;
  const approving = approvingOption(row);
  const save = (event: MouseEvent) => {
    if ("why" in approving) return;
    const remember = {
      rules: rules.map((draft) => draft.rule.trim()),
      scope,
      // A rule for one agent ends with it.
      expires_in_ms: scope === "session" ? undefined : expiryOf(lifetime, new Date()),
      uses: uses === "" ? undefined : Number(uses),
    };
    answering.confirm(clickAct(event, "remember"), { resolution: approving.option, remember });
  };
  const change = (index: number, part: Partial<RuleDraft>) => {
    if (Array.isArray(drafts)) setDrafts(drafts.map((draft, position) => (position === index ? { ...draft, ...part } : draft)));
  };
  return (
    <Dialog title="Allow, and remember it" wide onClose={() => answering.cancel()}>
      <pre class="code-box" tabIndex={0}>{row.view?.command ?? row.view?.summary ?? line(row.action)}</pre>
      {drafts === undefined && <p class="muted">Looking for rules…</p>}
      {typeof drafts === "string" && <p class="notice bad">{drafts}</p>}
      {Array.isArray(drafts) && !hasDrafts && <p class="notice">No rule can cover this ask: approve it once, or deny it.</p>}
      {Array.isArray(drafts) && drafts.map((draft, index) => <RuleRow key={index} draft={draft} row={row} onChange={(part) => change(index, part)} />)}
      {hasDrafts && (
        <>
          <ScopeFields row={row} scope={scope} onChange={setScope} />
          {scope !== "session" && <LifetimeFields lifetime={lifetime} onChange={setLifetime} />}
          <label class="row">Uses <input class="short-input" type="number" min="1" inputMode="numeric" placeholder="any" value={uses} onInput={(event) => setUses(event.currentTarget.value)} /></label>
        </>
      )}
      <div class="dialog-actions">
        <button onClick={() => answering.cancel()}>Back</button>
        {hasDrafts && <button class="good" disabled={rules.length === 0} onClick={save}>Allow and save {plural(rules.length, "rule")}</button>}
      </div>
    </Dialog>
  );
}

/** Rules that would allow the ask; the narrowest of each part is chosen. */
async function suggest(row: Approval): Promise<RuleDraft[] | string> {
  try {
    const { candidates } = await call("host.suggest_rules", { approval_id: row.id });
    const seen = new Set<number>();
    return candidates.map((candidate) => {
      const chosen = !seen.has(candidate.part);
      seen.add(candidate.part);
      return { ...candidate, chosen };
    });
  } catch (error) {
    return error instanceof Error ? line(error.message) : "no rules could be found";
  }
}

function RuleRow({ draft, row, onChange }: { draft: RuleDraft; row: Approval; onChange(part: Partial<RuleDraft>): void }) {
  const subject = row.verdict?.parts[draft.part]?.subject;
  return (
    <div class="rule-row">
      <input type="checkbox" aria-label={`Save ${draft.rule}`} checked={draft.chosen} onChange={(event) => onChange({ chosen: event.currentTarget.checked })} />
      <div class="grow stack">
        <input type="text" class="rule-text" aria-label="Rule" spellcheck={false} value={draft.rule} onInput={(event) => onChange({ rule: event.currentTarget.value, chosen: true })} />
        <p class="muted small">{line(draft.note)}{subject !== undefined && <> · covers <code>{line(subject)}</code></>}</p>
        {draft.chosen && <Backtest rule={draft.rule.trim()} askId={row.id} />}
      </div>
    </div>
  );
}

function Backtest({ rule, askId }: { rule: string; askId: string }) {
  const [result, setResult] = useState<BacktestResult | string | undefined>(undefined);
  useEffect(() => {
    let isCurrent = true;
    const timer = setTimeout(() => {
      const asked = rule === "" ? Promise.reject(new Error("the rule is empty")) : call("host.backtest_rule", { rule, limit: BACKTEST_ASKS });
      asked.then(
        (found) => isCurrent && setResult(found),
        (error: unknown) => isCurrent && setResult(error instanceof Error ? line(error.message) : "could not be tried"),
      );
    }, TYPING_PAUSE_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [rule]);
  if (result === undefined) return <p class="muted small">trying it on the record…</p>;
  if (typeof result === "string") return <p class="bad small">{result}</p>;
  const others = result.would_settle?.filter((id) => id !== askId).length ?? 0;
  return (
    <p class={`small ${result.contradicted.length > 0 ? "warn" : "muted"}`}>
      {backtestText(result)}{others > 0 && ` Saved now, it settles ${plural(others, "more ask")}.`}
    </p>
  );
}

function ScopeFields({ row, scope, onChange }: { row: Approval; scope: RememberScope; onChange(scope: RememberScope): void }) {
  const agent = row.agent_id === undefined ? undefined : hostState.value.agents.get(row.agent_id);
  const folder = agent?.managed?.worktree?.repository ?? row.cwd;
  const choices: [RememberScope, string][] = [
    ["session", `only ${askerName(row)}, until it ends`],
    ["agent", `agents named ${askerName(row)}`],
    ["project", folder === undefined ? "this project" : `project ${folderName(folder)}`],
    ["always", "everywhere"],
  ];
  return <RadioRow legend="Where" name="scope" choices={choices} value={scope} onChange={onChange} />;
}

function LifetimeFields({ lifetime, onChange }: { lifetime: Lifetime; onChange(lifetime: Lifetime): void }) {
  const choices: [Lifetime, string][] = [["hour", "1 hour"], ["today", "today"], ["month", "30 days"], ["forever", "until removed"]];
  return <RadioRow legend="Until" name="lifetime" choices={choices} value={lifetime} onChange={onChange} />;
}

interface RadioRowProps<Value extends string> {
  legend: string;
  name: string;
  choices: [Value, string][];
  value: Value;
  onChange(value: Value): void;
}

export function RadioRow<Value extends string>({ legend, name, choices, value, onChange }: RadioRowProps<Value>) {
  return (
    <fieldset class="radio-row">
      <legend class="muted small">{legend}</legend>
      {choices.map(([choice, word]) => (
        <label key={choice} class="choice">
          <input type="radio" name={name} checked={choice === value} onChange={() => onChange(choice)} />
          <span>{word}</span>
        </label>
      ))}
    </fieldset>
  );
}
