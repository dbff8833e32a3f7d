// The head of an open item: who asks, where, since when, and the way back on a phone.

import { type InboxItem, openItems } from "../inbox_items.ts";
import { clock, hostState } from "../store.ts";
import { agoText, folderName, hueOf } from "../text.ts";
import { line } from "../visible.ts";
import { useItemPlace } from "./item_place.ts";
import { Icon } from "./icon.tsx";
import { paletteOpen } from "./palette.tsx";

export function ItemHead({ item }: { item: InboxItem }) {
  const waiting = openItems.value.filter((other) => other.section === "waiting");
  const index = waiting.findIndex((other) => other.id === item.id);
  const place = useItemPlace();
  return (
    <header class="item-head-line">
      <button class="plain back-button" aria-label="Back" onClick={place.onBack}><Icon name="back" /></button>
      <span class="agent-dot" style={{ background: `hsl(${hueOf(item.agentId ?? item.asker)} 60% 50%)` }} aria-hidden="true" />
      <div class="grow">
        <h2 class="ellipsis">{titleOf(item)}</h2>
        <p class="muted small ellipsis">{[agoText(item.createdAt, clock.value), placeOf(item)].filter(Boolean).join(" · ")}</p>
      </div>
      {index >= 0 && waiting.length > 1 && <span class="muted small nowrap">{index + 1} of {waiting.length}</span>}
      <button class="plain more-button" aria-label="More commands" onClick={() => (paletteOpen.value = true)}><Icon name="more" /></button>
    </header>
  );
}

function titleOf(item: InboxItem): string {
  if (item.kind === "note") return `${item.asker} says`;
  if (item.kind === "question" || item.row.questions?.length) return `${item.asker} has a question`;
  return `${item.asker} asks: ${line(item.row.tool ?? "approval")}`;
}

/** Where it would run. */
function placeOf(item: InboxItem): string {
  const agent = item.agentId === undefined ? undefined : hostState.value.agents.get(item.agentId);
  const worktree = agent?.managed?.worktree;
  if (worktree) return `in its worktree of ${folderName(worktree.repository)}, branch ${line(worktree.branch)}`;
  const cwd = item.kind === "ask" ? item.row.cwd : agent?.managed?.cwd;
  return cwd === undefined ? "" : `in ${line(cwd)}`;
}
