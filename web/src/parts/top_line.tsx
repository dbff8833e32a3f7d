// The first line of every screen: what waits, who is bypassed, whether the host is there, and what is wrong.

import { oldestAt, openAskCount, openQuestionCount } from "../inbox_items.ts";
import { clock, hasSnapshot, hostState, hostStatus, linkState, lossShown, lostSince, reconnectNow, storeError } from "../store.ts";
import { age, plural, shortSpan } from "../text.ts";
import { isOutdated } from "../page_version.ts";
import { line } from "../visible.ts";

export function TopLine() {
  return (
    <header class="top-line">
      <div class="top-row">
        <strong class="brand">Countersign</strong>
        <WaitingCounts />
        <span class="grow" />
        <Bypasses />
        <LinkMark />
      </div>
      <TroubleLines />
    </header>
  );
}

function WaitingCounts() {
  if (!hasSnapshot.value) return <span class="muted">connecting…</span>;
  const parts = [
    openAskCount.value > 0 && plural(openAskCount.value, "ask"),
    openQuestionCount.value > 0 && plural(openQuestionCount.value, "question"),
    oldestAt.value && `oldest ${age(oldestAt.value, clock.value)}`,
  ].filter(Boolean);
  return <span class="muted ellipsis">{parts.length === 0 ? "inbox empty" : parts.join(" · ")}</span>;
}

function Bypasses() {
  const rows = [...hostState.value.agents.values()].filter((row) => row.bypass_until && Date.parse(row.bypass_until) > clock.value);
  if (rows.length === 0) return null;
  const texts = rows.map((row) => `${line(row.name)} ${shortSpan(Date.parse(row.bypass_until ?? "") - clock.value)}`);
  return (
    <span class="warn ellipsis" title={`Asks of these agents are allowed without you: ${texts.join(", ")}`}>
      bypass<span class="wide-only">: {texts.join(", ")}</span><span class="narrow-only"> {rows.length}</span>
    </span>
  );
}

function LinkMark() {
  if (linkState.value === "live") return <span class="good nowrap">● live</span>;
  if (lossShown.value) return <span class="bad nowrap">✕ not connected</span>;
  return <span class="muted nowrap">◌ connecting</span>;
}

function TroubleLines() {
  const grave = hostState.value.ruleProblems.filter((problem) => problem.suspends);
  return (
    <>
      {linkState.value === "unauthorized" && (
        <p class="trouble bad" role="alert">
          Your session ended. Run <code>countersign open</code> and follow its link; what you typed here is kept. <button class="plain" onClick={reconnectNow}>Try again</button>
        </p>
      )}
      {linkState.value !== "unauthorized" && lossShown.value && (
        <p class="trouble bad">
          The host cannot be reached{lostSince.value !== undefined && ` since ${shortSpan(clock.value - lostSince.value)}`}. Open asks are kept; nothing can be decided until it is back.
        </p>
      )}
      {storeError.value && <p class="trouble bad" role="alert">Nothing can be decided until the record can be written: {line(storeError.value)}</p>}
      {hostStatus.value?.record_lost && <p class="trouble bad" role="alert">Files of the record were removed or replaced. Nothing is accepted until another host starts.</p>}
      {grave.map((problem) => (
        <p key={problem.file} class="trouble warn">{line(problem.file)}{problem.line !== undefined && `:${problem.line}`}: {line(problem.message)}</p>
      ))}
      {isOutdated.value && <p class="trouble muted">The host has a newer page. <button class="plain" onClick={() => location.reload()}>Reload</button></p>}
      {hostStatus.value?.you.role === "observer" && <p class="trouble muted">You may look, not decide: this browser signed in as an observer.</p>}
    </>
  );
}
