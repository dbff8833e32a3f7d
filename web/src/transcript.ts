// A transcript as a list to draw: texts joined, tool calls with their results, turns with headings.
//
// Invariants: parts are added in the order of the record; an older page is put before what is there and changes none of
// its texts, so that what a person reads keeps its place.

import type { PlanStep, Time, TranscriptEntry, TranscriptPage } from "./wire_types.ts";

export type TranscriptPart = TranscriptPage["parts"][number];

interface ItemBase {
  key: string;
  turn: number;
  at: Time;
  sequence: number;
}

export interface TextItem extends ItemBase {
  kind: "assistant" | "thinking" | "notice";
  text: string;
}

export interface ToolItem extends ItemBase {
  kind: "tool";
  id: string;
  tool?: string;
  title?: string;
  status?: string;
  result?: string;
}

export interface TurnItem extends ItemBase {
  kind: "turn";
  /** What the turn began with, if a message did. */
  message?: string;
  /** Entries of the turn that are loaded. */
  count: number;
}

export type TranscriptItem =
  | TextItem
  | ToolItem
  | TurnItem
  | (ItemBase & { kind: "user"; from?: string; text: string })
  | (ItemBase & { kind: "plan"; steps: PlanStep[] })
  | (ItemBase & { kind: "other" });

/** A text that grows beyond this is continued in an item of its own. */
const TEXT_CHARS_MAX = 16_000;

export class TranscriptFold {
  items: TranscriptItem[] = [];
  private readonly tools = new Map<string, ToolItem>();
  private turn: TurnItem | undefined;

  add(part: TranscriptPart): void {
    part.entries.forEach((entry, index) => {
      const base = { key: `${part.sequence}.${index}`, turn: part.turn, at: part.timestamp, sequence: part.sequence };
      this.addEntry(entry, base);
    });
  }

  /** Puts an older page before what is there. Calls that began on it take the results that are known already. */
  prepend(parts: readonly TranscriptPart[]): void {
    const older = foldParts(parts);
    const [heading] = this.items;
    const begun = heading?.kind === "turn" && older.turn?.turn === heading.turn ? older.turn : undefined;
    const joined = new Set<TranscriptItem>(begun && heading ? [heading] : []);
    for (const [id, item] of this.tools) {
      const call = older.tools.get(id);
      if (!call) continue;
      Object.assign(call, { status: item.status ?? call.status, result: item.result ?? call.result });
      joined.add(item);
    }
    for (const [id, item] of older.tools) this.tools.set(id, item);
    this.items = [...older.items, ...this.items.filter((item) => !joined.has(item))];
    this.turn = this.turn === heading ? begun ?? this.turn : this.turn;
    this.countEntries();
  }

  private countEntries(): void {
    let heading: TurnItem | undefined;
    for (const item of this.items) {
      if (item.kind === "turn") (heading = item).count = 0;
      else if (heading) heading.count++;
    }
  }

  private addEntry(entry: TranscriptEntry, base: ItemBase): void {
    const turn = this.turnOf(base);
    if (entry.type === "user" && entry.from === undefined) turn.message ??= entry.text;
    if (this.mergeEntry(entry, base)) return;
    turn.count++;
    this.items.push(this.itemOf(entry, base));
  }

  private turnOf(base: ItemBase): TurnItem {
    if (this.turn?.turn === base.turn) return this.turn;
    this.turn = { ...base, kind: "turn", key: `turn-${base.turn}-${base.key}`, count: 0 };
    this.items.push(this.turn);
    return this.turn;
  }

  /** Adds to an earlier item where the entry continues one. */
  private mergeEntry(entry: TranscriptEntry, base: ItemBase): boolean {
    if (entry.type === "tool_use" || entry.type === "tool_result") return this.mergeTool(entry);
    const last = this.items.at(-1);
    const continues = last !== undefined && last.turn === base.turn && (entry.type === "assistant" || entry.type === "thinking") && last.kind === entry.type;
    if (!continues || last.text.length + entry.text.length > TEXT_CHARS_MAX) return false;
    last.text += entry.text;
    // What is new about it is told by where it ends.
    last.sequence = base.sequence;
    return true;
  }

  private mergeTool(entry: Extract<TranscriptEntry, { type: "tool_use" | "tool_result" }>): boolean {
    const known = this.tools.get(entry.id);
    if (!known) return false;
    applyTool(known, entry);
    return true;
  }

  private itemOf(entry: TranscriptEntry, base: ItemBase): TranscriptItem {
    switch (entry.type) {
      case "user":
        return { ...base, kind: "user", text: entry.text, from: entry.from };
      case "assistant":
      case "thinking":
      case "notice":
        return { ...base, kind: entry.type, text: entry.text };
      case "plan":
        return { ...base, kind: "plan", steps: entry.steps };
      case "tool_use":
      case "tool_result": {
        const item: ToolItem = { ...base, kind: "tool", id: entry.id };
        applyTool(item, entry);
        this.tools.set(entry.id, item);
        return item;
      }
      case "other":
        return { ...base, kind: "other" };
    }
  }
}

function applyTool(item: ToolItem, entry: Extract<TranscriptEntry, { type: "tool_use" | "tool_result" }>): void {
  if (entry.status) item.status = entry.status;
  if (entry.type === "tool_result") {
    item.result = entry.text ?? "";
    return;
  }
  item.tool = entry.tool ?? item.tool;
  item.title = entry.title ?? item.title;
}

export function foldParts(parts: readonly TranscriptPart[]): TranscriptFold {
  const fold = new TranscriptFold();
  for (const part of parts) fold.add(part);
  return fold;
}

/** The items that are drawn: of a folded turn only its heading. */
export function shownItems(items: readonly TranscriptItem[], folded: ReadonlySet<number>): TranscriptItem[] {
  return folded.size === 0 ? [...items] : items.filter((item) => item.kind === "turn" || !folded.has(item.turn));
}

/** How many items came after a place in the record. */
export function countAfter(items: readonly TranscriptItem[], sequence: number): number {
  let count = 0;
  for (let index = items.length - 1; index >= 0; index--) {
    const item = items[index];
    if (!item || item.sequence <= sequence) break;
    if (item.kind !== "turn") count++;
  }
  return count;
}

export function lineCount(text: string): number {
  const trimmed = text.endsWith("\n") ? text.slice(0, -1) : text;
  return trimmed === "" ? 0 : trimmed.split("\n").length;
}
