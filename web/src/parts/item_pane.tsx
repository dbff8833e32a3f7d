// The open item: an ask, a question or a note.

import { openItems, summaryOf } from "../inbox_items.ts";

export function ItemPane({ id }: { id: string }) {
  const item = openItems.value.find((other) => other.id === id);
  if (!item) return <div class="empty"><p class="muted">The host does not know this item.</p></div>;
  return <article class="item-pane"><h2>{item.asker}</h2><pre>{summaryOf(item)}</pre></article>;
}
