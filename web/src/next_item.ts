// The next item that waits.

import { type InboxItem, openId, openItems } from "./inbox_items.ts";
import { currentRoute, navigate } from "./route.ts";
import { hostState } from "./store.ts";

/** The item after this one, from the beginning again after the last. */
export function itemAfter(items: InboxItem[], id: string | undefined, step: 1 | -1 = 1): InboxItem | undefined {
  const waiting = items.filter((item) => !item.ended && item.kind !== "note" && item.section !== "later");
  const index = waiting.findIndex((item) => item.id === id);
  if (index < 0) return waiting[0];
  return waiting[(index + step + waiting.length) % waiting.length];
}

function open(item: InboxItem | undefined): void {
  if (item) navigate({ screen: "inbox", askId: item.id }, currentRoute.value.screen === "inbox" && openId.value !== undefined ? "replace" : "push");
}

export function openNext(step: 1 | -1 = 1): void {
  open(itemAfter(openItems.value, openId.value, step));
}

/** The folder that the worktrees of a project have in common. */
function projectOf(item: InboxItem): string | undefined {
  const agent = item.agentId === undefined ? undefined : hostState.value.agents.get(item.agentId);
  return agent?.managed?.worktree?.repository ?? agent?.project ?? (item.kind === "ask" ? item.row.cwd : undefined);
}

export function openNextInProject(): void {
  const current = openItems.value.find((item) => item.id === openId.value);
  const project = current && projectOf(current);
  open(itemAfter(openItems.value.filter((item) => projectOf(item) === project), current?.id));
}
