// The open item: an ask, a question or a note.

import { useEffect, useState } from "preact/hooks";
import { openItems } from "../inbox_items.ts";
import { navigate } from "../route.ts";
import { call, hasSnapshot, isLive, loadApproval, putQuestion } from "../store.ts";
import { age } from "../text.ts";
import { block } from "../visible.ts";
import { clock } from "../store.ts";
import { AskPane } from "./ask_pane.tsx";
import { ItemHead } from "./item_head.tsx";
import { QuestionPane } from "./question_pane.tsx";

export function ItemPane({ id }: { id: string }) {
  const item = openItems.value.find((other) => other.id === id);
  if (!item) return <MissingItem id={id} />;
  if (item.kind === "ask") return <AskPane item={item} />;
  if (item.kind === "question") return <QuestionPane item={item} />;
  return (
    <article class="item-pane">
      <ItemHead item={item} />
      <div class="item-body"><div class="item-text">
        <blockquote class="agent-words">{block(item.note.text)}</blockquote>
        <p class="muted small">{age(item.note.at, clock.value)} ago. It needs no answer.</p>
      </div></div>
    </article>
  );
}

/** A link may lead to an item that ended long ago: the host still has it. */
function MissingItem({ id }: { id: string }) {
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    if (!isLive.value) return;
    const found = id.startsWith("question") ? call("host.question", { question_id: id }).then(putQuestion) : loadApproval(id);
    found.catch(() => setFailed(true));
  }, [id, isLive.value]);
  return (
    <div class="empty">
      <p class="muted">{failed || !hasSnapshot.value ? (failed ? "The host does not know this item." : "Connecting to the host…") : "Fetching it…"}</p>
      <button onClick={() => navigate({ screen: "inbox" })}>Back to the inbox</button>
    </div>
  );
}
