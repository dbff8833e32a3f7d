// A rule file that nobody trusted yet: what of it has no effect, its whole text, and the button that trusts that text.

import { useEffect, useRef, useState } from "preact/hooks";
import { call, canDecide } from "../store.ts";
import { block, line } from "../visible.ts";
import type { FileRule, UntrustedRules } from "../wire_admin.ts";
import { showToast } from "./toasts.tsx";
import { useAction } from "./use_action.ts";

export function UntrustedFile({ file, folder, rules, onTrusted }: { file: string; folder: string; rules: FileRule[]; onTrusted(): void }) {
  const waiting = rules.filter((rule) => !rule.counts);
  const [content, setContent] = useState<UntrustedRules | undefined>(undefined);
  const reading = useAction();
  const read = () => reading.run(async () => {
    const found = await call("host.untrusted_rules", { cwd: folder });
    setContent(found.find((row) => row.file === file));
    if (!found.some((row) => row.file === file)) onTrusted();
  });
  return (
    <section class="notice warn">
      <div class="stack grow">
        <p><strong>{line(file)}</strong> is not trusted: {waiting.length === 1 ? "1 of its rules has" : `${waiting.length} of its rules have`} no effect.</p>
        <ul class="plain-list">{waiting.map((rule, index) => <li key={index}>{rule.effect} <code>{line(rule.rule)}</code> <span class="muted small">line {rule.line}</span></li>)}</ul>
        {reading.error && <p class="bad small" role="alert">{reading.error}</p>}
        {canDecide.value && !content && <p><button disabled={reading.sending} onClick={() => void read()}>Read it…</button></p>}
        {content && <FileText content={content} onClose={() => setContent(undefined)} onTrusted={onTrusted} />}
      </div>
    </section>
  );
}

/** The button works once the end of the text was in view. */
function FileText({ content, onClose, onTrusted }: { content: UntrustedRules; onClose(): void; onTrusted(): void }) {
  const [endSeen, setEndSeen] = useState(false);
  const box = useRef<HTMLPreElement>(null);
  const trusting = useAction();
  const look = () => {
    const element = box.current;
    if (element && element.scrollTop + element.clientHeight >= element.scrollHeight - 2) setEndSeen(true);
  };
  useEffect(look, []);
  const trust = async () => {
    const { file, digest } = content;
    if (!(await trusting.run(() => call("host.trust_rules", { file, digest })))) return;
    showToast({ text: `trusted ${line(file)} in the version you read` });
    onTrusted();
  };
  return (
    <>
      <pre class="code-box" tabIndex={0} aria-label={`Text of ${line(content.file)}`} ref={box} onScroll={look}>{block(content.text)}</pre>
      {trusting.error && <p class="bad small" role="alert">{trusting.error}</p>}
      <p class="row">
        <button onClick={onClose}>Not now</button>
        <button class="good" disabled={!endSeen || trusting.sending} onClick={() => void trust()}>{endSeen ? "Trust exactly this" : "Read to the end to trust it"}</button>
      </p>
    </>
  );
}
