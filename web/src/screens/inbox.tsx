// The inbox: everything that waits, oldest first, and beside it the one that is open.

import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { type InboxItem, type InboxSection, laterUntil, openCount, openItems, putLater, summaryOf, takeBackLater } from "../inbox_items.ts";
import { type CommandHandler, isTypingPlace, useCommands } from "../keys.ts";
import { ItemPane } from "../parts/item_pane.tsx";
import { showToast } from "../parts/toasts.tsx";
import { VirtualList } from "../parts/virtual_list.tsx";
import { navigate } from "../route.ts";
import { clock, hasSnapshot, hostState } from "../store.ts";
import { age, plural } from "../text.ts";
import { SelectionBar } from "../parts/selection_bar.tsx";

const searchText = signal("");
const showsLater = signal(false);
/** Where the keys stand in the list; the item that is open unless moved away from it. */
const activeId = signal<string | undefined>(undefined);
/** Items that were selected to be answered together. */
export const selectedIds = signal<ReadonlySet<string>>(new Set());

const ROW_PIXELS = 62;
const LISTED_CHARS_MAX = 400;
const sectionNames: Record<InboxSection, string> = {
  waiting: "",
  orchestrator: "Asked of an orchestrator first",
  later: "Not now",
  note: "Messages, no answer needed",
};

type ListRow = { heading: InboxSection; count: number } | { item: InboxItem };

export function InboxScreen({ askId }: { askId: string | undefined }) {
  const items = shownItems();
  const rows = useMemo(() => withHeadings(items), [items]);
  useEffect(() => {
    if (askId !== undefined) activeId.value = askId;
  }, [askId]);
  useCommands(listCommands(items, askId));
  const activeRow = rows.findIndex((row) => "item" in row && row.item.id === activeId.value);
  return (
    <div class={`inbox ${askId ? "shows-item" : ""}`}>
      <h1 class="visually-hidden">Inbox</h1>
      <section class="inbox-list" aria-label="Inbox">
        <SearchBox />
        <SelectionBar ids={selectedIds.value} items={items} onDone={() => (selectedIds.value = new Set())} />
        {items.length === 0 ? <EmptyInbox /> : (
          <VirtualList
            count={rows.length} estimate={() => ROW_PIXELS} active={activeRow} label="Asks and questions"
            activeId={activeRow >= 0 ? `item-${activeId.value}` : undefined}
            keyOf={(index) => rowKey(rows[index])} render={(index) => <Row row={rows[index]} askId={askId} />}
          />
        )}
      </section>
      <section class="inbox-item" aria-label="Open item">
        {askId ? <ItemPane key={askId} id={askId} /> : <NothingOpen />}
      </section>
    </div>
  );
}

function shownItems(): InboxItem[] {
  const words = searchText.value.toLowerCase().split(/\s+/).filter(Boolean);
  const hidesLater = !showsLater.value && openItems.value.some((item) => item.section === "later");
  if (words.length === 0 && !hidesLater) return openItems.value;
  return openItems.value.filter((item) => {
    const text = `${item.asker} ${summaryOf(item)}`.toLowerCase();
    return (item.section !== "later" || showsLater.value || words.length > 0) && words.every((word) => text.includes(word));
  });
}

function withHeadings(items: InboxItem[]): ListRow[] {
  const rows: ListRow[] = [];
  const laterCount = openItems.value.filter((item) => item.section === "later").length;
  let section: InboxSection = "waiting";
  for (const item of items) {
    if (item.section !== section) {
      if (item.section !== "later") rows.push({ heading: item.section, count: 0 });
      section = item.section;
    }
    rows.push({ item });
  }
  if (laterCount > 0) {
    const before = rows.findIndex((row) => "item" in row && row.item.section === "later");
    rows.splice(before < 0 ? rows.length : before, 0, { heading: "later", count: laterCount });
  }
  return rows;
}

function rowKey(row: ListRow | undefined): string {
  if (!row) return "";
  return "item" in row ? row.item.id : `heading-${row.heading}`;
}

function SearchBox() {
  return (
    <div class="search-box">
      <input
        id="inbox-search" type="search" placeholder="Search" aria-label="Search the inbox" value={searchText}
        onInput={(event) => (searchText.value = event.currentTarget.value)}
      />
    </div>
  );
}

function Row({ row, askId }: { row: ListRow | undefined; askId: string | undefined }) {
  if (!row) return null;
  if ("heading" in row) return <Heading section={row.heading} count={row.count} />;
  return <ItemRow item={row.item} isOpen={row.item.id === askId} />;
}

function Heading({ section, count }: { section: InboxSection; count: number }) {
  if (section !== "later") return <h2 class="list-heading">{sectionNames[section]}</h2>;
  return (
    <h2 class="list-heading">
      <button class="plain small" aria-expanded={showsLater.value} onClick={() => (showsLater.value = !showsLater.value)}>
        {showsLater.value ? "▾" : "▸"} {sectionNames.later} · {count}
      </button>
    </h2>
  );
}

function ItemRow({ item, isOpen }: { item: InboxItem; isOpen: boolean }) {
  const isActive = item.id === activeId.value;
  const isSelected = selectedIds.value.has(item.id);
  const classes = ["item-row", isOpen && "open", isActive && "active", item.ended && "ended"].filter(Boolean).join(" ");
  return (
    <div
      id={`item-${item.id}`} role="option" aria-selected={isOpen} class={classes}
      onClick={() => navigate({ screen: "inbox", askId: item.id })}
    >
      <span class={`item-mark ${markTone(item)}`} aria-hidden="true">{isSelected ? "☑" : markOf(item)}</span>
      <span class="item-head">
        <strong class="ellipsis">{item.asker}</strong>
        <span class="muted ellipsis">{kindOf(item)}</span>
        {item.kind === "ask" && item.alike.length > 0 && <span class="badge">×{item.alike.length + 1}</span>}
        <span class="grow" />
        <time class="muted small nowrap" dateTime={item.createdAt}>{age(item.createdAt, clock.value)}</time>
      </span>
      <span class={`item-summary ellipsis ${isCode(item) ? "code" : ""}`}>{subjectOf(item)}</span>
      {isSelected && <span class="visually-hidden">selected</span>}
    </div>
  );
}

/** Whether it is about something that would run, and not a question in words. */
function isCode(item: InboxItem): boolean {
  return item.kind === "ask" && !item.row.questions?.length;
}

function markOf(item: InboxItem): string {
  if (item.ended) return "✓";
  if (item.kind === "note") return "·";
  return isCode(item) ? "◐" : "?";
}

function markTone(item: InboxItem): string {
  if (item.ended || item.kind === "note") return "muted";
  const isRisky = item.kind === "ask" && (item.row.view?.warnings.length ?? 0) > 0;
  return isRisky ? "warn" : "";
}

function kindOf(item: InboxItem): string {
  if (item.kind === "note") return "message";
  if (item.kind === "question" || item.row.questions?.length) return item.kind === "question" && item.row.to_name ? `asks ${item.row.to_name} first` : "question";
  return item.row.tool ?? "ask";
}

/** The summary without the tool, which stands beside the name already. */
function subjectOf(item: InboxItem): string {
  // A list cuts everything at one line; a text of megabytes would only be slow there.
  const summary = summaryOf(item).slice(0, LISTED_CHARS_MAX);
  const tool = item.kind === "ask" ? item.row.tool : undefined;
  const subject = tool && summary.startsWith(`${tool}: `) ? summary.slice(tool.length + 2) : summary;
  return withoutFolder(subject, item);
}

/** A path in the folder of its agent, without that folder: the end of a path says more than its beginning. */
function withoutFolder(subject: string, item: InboxItem): string {
  const managed = hostState.value.agents.get(item.agentId ?? "")?.managed;
  const folder = managed?.worktree?.path ?? managed?.cwd;
  return folder && subject.startsWith(`${folder}/`) ? subject.slice(folder.length + 1) : subject;
}

function EmptyInbox() {
  if (!hasSnapshot.value) return <p class="empty muted">Connecting to the host…</p>;
  return (
    <div class="empty">
      <p>{searchText.value ? "Nothing has these words." : "Inbox empty"}</p>
      {!searchText.value && <p class="muted small">What your agents ask, and your rules do not settle, appears here.</p>}
    </div>
  );
}

function NothingOpen() {
  const count = openCount.value;
  return (
    <div class="empty">
      <p class="muted">{count > 0 ? `${plural(count, "item waits", "items wait")} for you. Choose one, or press w for the oldest.` : "Nothing waits for you."}</p>
    </div>
  );
}

function listCommands(items: InboxItem[], askId: string | undefined): Record<string, CommandHandler | undefined> {
  const index = items.findIndex((item) => item.id === activeId.value);
  const moveTo = (position: number) => moveActive(items, position, askId);
  const empty = () => (items.length === 0 ? "inbox empty" : undefined);
  return {
    "list.down": { run: () => moveTo(index + 1), whyNot: empty },
    "list.up": { run: () => moveTo(index < 0 ? 0 : index - 1), whyNot: empty },
    "list.first": { run: () => moveTo(0), whyNot: empty },
    "list.last": { run: () => moveTo(items.length - 1), whyNot: empty },
    "list.open": { run: () => openItem(items[index]), whyNot: () => (items[index] ? undefined : "nothing is selected") },
    "list.select": { run: () => toggleSelected(items[index]), whyNot: () => whyNotSelect(items[index]) },
    "list.extend_down": { run: () => extend(items, index, 1, askId), whyNot: () => whyNotSelect(items[index]) },
    "list.extend_up": { run: () => extend(items, index, -1, askId), whyNot: () => whyNotSelect(items[index]) },
    "list.later": { run: () => later(items, index), whyNot: () => (items[index] ? undefined : "nothing is selected") },
    "list.undo": laterUntil.value.size > 0 ? { run: takeBackLater } : undefined,
    search: { run: () => document.getElementById("inbox-search")?.focus() },
    back: { run: () => goBack(askId), whyNot: () => (askId || selectedIds.value.size > 0 ? undefined : "this is the inbox") },
  };
}

/** Where an item is open beside the list, moving opens the next one; on one column it only marks it. */
function moveActive(items: InboxItem[], position: number, askId: string | undefined): void {
  const item = items[Math.min(Math.max(position, 0), items.length - 1)];
  if (!item) return;
  activeId.value = item.id;
  if (askId !== undefined) navigate({ screen: "inbox", askId: item.id }, "replace");
}

function openItem(item: InboxItem | undefined): void {
  if (item) navigate({ screen: "inbox", askId: item.id });
}

function whyNotSelect(item: InboxItem | undefined): string | undefined {
  if (!item) return "nothing is selected";
  return item.kind === "ask" && !item.ended ? undefined : "only open asks can be selected";
}

function toggleSelected(item: InboxItem | undefined): void {
  if (!item) return;
  const ids = new Set(selectedIds.value);
  if (!ids.delete(item.id)) ids.add(item.id);
  selectedIds.value = ids;
}

function extend(items: InboxItem[], index: number, direction: 1 | -1, askId: string | undefined): void {
  const reached = [items[index], items[index + direction]].filter((item) => item && whyNotSelect(item) === undefined);
  selectedIds.value = new Set([...selectedIds.value, ...reached.map((item) => item?.id ?? "")]);
  moveActive(items, index + direction, askId);
}

function later(items: InboxItem[], index: number): void {
  const item = items[index];
  if (!item) return;
  const next = items[index + 1] ?? items[index - 1];
  putLater(selectedIds.value.size > 0 ? [...selectedIds.value] : [item.id]);
  selectedIds.value = new Set();
  activeId.value = next?.id;
  navigate({ screen: "inbox" }, "replace");
  showToast({ text: "Not now: back in 10 minutes. It still waits.", action: { word: "Undo", run: takeBackLater } });
}

function goBack(askId: string | undefined): void {
  if (selectedIds.value.size > 0) selectedIds.value = new Set();
  else if (askId !== undefined && !isTypingPlace(document.activeElement)) navigate({ screen: "inbox" });
}
