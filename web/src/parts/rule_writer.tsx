// Writes a rule. Before it exists it says what it would have done, and which open asks it would settle now.

import { useState } from "preact/hooks";
import { RouteLink } from "../app.tsx";
import { askSummary } from "../inbox_items.ts";
import { backtestText, projectName } from "../rule_texts.ts";
import { call, canDecide, hostState } from "../store.ts";
import { askerName, plural, whoName } from "../text.ts";
import { line } from "../visible.ts";
import type { NewRule } from "../wire_admin.ts";
import type { BacktestResult, Effect } from "../wire_types.ts";
import { expiryOf, RadioRow } from "./remember_form.tsx";
import { showToast } from "./toasts.tsx";
import { useAction } from "./use_action.ts";
import { useDelayed } from "./use_delayed.ts";

type RuleEffect = Extract<Effect, "allow" | "ask" | "deny">;
type Lifetime = Parameters<typeof expiryOf>[0];
type Where = "project" | "everywhere";

const lifetimes: [Lifetime, string][] = [["hour", "1 hour"], ["today", "today"], ["month", "30 days"], ["forever", "until removed"]];

interface RuleWriterProps {
  rule: string;
  folder: string;
  onRule(rule: string): void;
  onSaved(): void;
}

export function RuleWriter({ rule, folder, onRule, onSaved }: RuleWriterProps) {
  const [effect, setEffect] = useState<RuleEffect>("allow");
  const [where, setWhere] = useState<Where>("project");
  const [lifetime, setLifetime] = useState<Lifetime>("month");
  const [uses, setUses] = useState("");
  const action = useAction();
  const text = rule.trim();
  const tested = useDelayed(text && `${effect} ${text}`, () => call("host.backtest_rule", { rule: text, effect }));
  const places: [Where, string][] = [["project", `project ${projectName(folder)}`], ["everywhere", "everywhere"]];
  const scope: Where = folder === "" ? "everywhere" : where;
  const save = async () => {
    const expires = expiryOf(lifetime, new Date());
    const params: NewRule = {
      rule: text, effect, ...(scope === "project" && { project: folder }),
      ...(expires !== undefined && { expires_in_ms: expires }), ...(uses !== "" && { uses: Number(uses) }),
    };
    const saved = await action.run(async () => {
      const { settled, warnings = [] } = await call("host.add_rule", params);
      const words = [`added ${line(text)}`, settled > 0 && `it settled ${plural(settled, "ask")}`, ...warnings.map(line)].filter(Boolean);
      showToast({ text: words.join("; "), tone: warnings.length > 0 ? "warn" : "good" });
    });
    if (!saved) return;
    onRule("");
    onSaved();
  };
  return (
    <section class="card stack" aria-label="Write a rule">
      <h2>Write a rule</h2>
      <div class="try-row">
        <select aria-label="Effect" value={effect} onChange={(event) => setEffect(event.currentTarget.value as RuleEffect)}>
          <option value="allow">allow</option><option value="ask">ask</option><option value="deny">deny</option>
        </select>
        <input id="rule-text" type="text" class="rule-text" aria-label="Rule" spellcheck={false} placeholder="Bash(cargo test:*)" value={rule} onInput={(event) => onRule(event.currentTarget.value)} />
      </div>
      {text !== "" && (
        <>
          <BacktestView result={tested?.data} error={tested?.error} />
          {folder !== "" && <RadioRow legend="Where" name="rule-where" choices={places} value={where} onChange={(value) => setWhere(value)} />}
          <RadioRow legend="Until" name="rule-until" choices={lifetimes} value={lifetime} onChange={(value) => setLifetime(value)} />
          <label class="row">Uses <input class="short-input" type="number" min="1" inputMode="numeric" placeholder="any" value={uses} onInput={(event) => setUses(event.currentTarget.value)} /></label>
          {action.error && <p class="notice bad" role="alert">{action.error}</p>}
          <div class="dialog-actions">
            <button onClick={() => onRule("")}>Discard</button>
            <button class="primary" disabled={action.sending || !canDecide.value || tested?.data === undefined} onClick={() => void save()}>{action.sending ? "Saving…" : "Save the rule"}</button>
          </div>
        </>
      )}
    </section>
  );
}

/** What a rule would have done, and what it would do now. */
export function BacktestView({ result, error }: { result: BacktestResult | undefined; error: string | undefined }) {
  if (error) return <p class="bad small">{error}</p>;
  if (!result) return <p class="muted small">Trying it on the record…</p>;
  const settles = result.would_settle ?? [];
  return (
    <div class="stack small">
      <p class={result.contradicted.length > 0 ? "warn" : ""}>{backtestText(result)}</p>
      {result.contradicted.length > 0 && (
        <ul class="plain-list">
          {result.contradicted.map((row) => (
            <li key={row.approval_id}>{whoName(row.by)} decided “{row.decided}”: <RouteLink route={{ screen: "inbox", askId: row.approval_id }}>open that ask</RouteLink></li>
          ))}
        </ul>
      )}
      {settles.length > 0 && (
        <>
          <p class="accent">Saved now, it settles {plural(settles.length, "open ask")}:</p>
          <ul class="plain-list">{settles.map((id) => <li key={id}><OpenAsk id={id} /></li>)}</ul>
        </>
      )}
    </div>
  );
}

function OpenAsk({ id }: { id: string }) {
  const row = hostState.value.approvals.get(id);
  return <RouteLink route={{ screen: "inbox", askId: id }}>{row ? `${askerName(row)}: ${askSummary(row)}` : line(id)}</RouteLink>;
}
