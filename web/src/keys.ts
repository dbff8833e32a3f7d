// One table of commands. Help, palette, settings and the hints beside buttons are all made from it.
//
// Invariants: a single letter acts only where nothing is typed; while a dialog is open, only its own commands act.

import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Act } from "./decision_guard.ts";
import { preferences } from "./preferences.ts";

/** Where a command exists. `confirm` stands above the others while a second act is asked for. */
export type CommandPlace = "anywhere" | "list" | "ask" | "confirm" | "agent" | "diff" | "dialog";

export interface CommandRow {
  id: string;
  /** One key (`a`, `Mod+K`, `Escape`), or two in a row (`g i`). `Mod` is Ctrl, or Command on a Mac. */
  key: string;
  /** Other keys for the same. */
  others?: string[];
  /** What it does, as palette and help say it. */
  word: string;
  where: CommandPlace;
  /** Whether holding the key down repeats it. */
  repeats?: boolean;
}

export const commandTable: readonly CommandRow[] = [
  { id: "palette", key: "Mod+K", others: ["."], word: "All commands", where: "anywhere" },
  { id: "help", key: "?", word: "Keys of this place", where: "anywhere" },
  { id: "go.inbox", key: "g i", word: "Go to the inbox", where: "anywhere" },
  { id: "go.agents", key: "g a", word: "Go to agents", where: "anywhere" },
  { id: "go.rules", key: "g r", word: "Go to rules", where: "anywhere" },
  { id: "go.timeline", key: "g t", word: "Go to the timeline", where: "anywhere" },
  { id: "go.settings", key: "g s", word: "Go to settings", where: "anywhere" },
  { id: "next", key: "w", word: "Next that waits", where: "anywhere" },
  { id: "next.project", key: "W", word: "Next that waits in this project", where: "anywhere" },
  { id: "search", key: "/", word: "Search this list", where: "anywhere" },
  { id: "back", key: "Escape", word: "Back", where: "anywhere" },
  { id: "list.down", key: "j", others: ["ArrowDown"], word: "Down", where: "list", repeats: true },
  { id: "list.up", key: "k", others: ["ArrowUp"], word: "Up", where: "list", repeats: true },
  { id: "list.first", key: "g g", word: "First", where: "list" },
  { id: "list.last", key: "G", word: "Last", where: "list" },
  { id: "list.open", key: "Enter", word: "Open", where: "list" },
  { id: "list.select", key: "x", word: "Select", where: "list" },
  { id: "list.extend_down", key: "J", word: "Select downwards", where: "list", repeats: true },
  { id: "list.extend_up", key: "K", word: "Select upwards", where: "list", repeats: true },
  { id: "list.later", key: "z", word: "Not now (10 minutes, on this screen)", where: "list" },
  { id: "list.undo", key: "u", word: "Take back “not now”", where: "list" },
  { id: "list.deny_selected", key: "D", word: "Deny all selected", where: "list" },
  { id: "list.actions", key: ".", word: "Actions…", where: "list" },
  { id: "agents.spawn", key: "n", word: "Start an agent…", where: "list" },
  { id: "ask.allow", key: "a", word: "Approve…", where: "ask" },
  { id: "ask.remember", key: "s", word: "Approve and remember…", where: "ask" },
  { id: "ask.deny", key: "d", word: "Deny", where: "ask" },
  { id: "ask.deny_words", key: "m", word: "Deny with a message…", where: "ask" },
  { id: "ask.allow_words", key: "t", word: "Approve with a message…", where: "ask" },
  { id: "ask.edit", key: "e", word: "Edit, then approve…", where: "ask" },
  { id: "ask.reply", key: "r", word: "Reply or choose an option…", where: "ask" },
  { id: "ask.agent", key: "o", word: "Open its agent", where: "ask" },
  { id: "ask.input", key: "i", word: "Show or hide the exact input", where: "ask" },
  { id: "ask.alike", key: "=", word: "Answer all like this…", where: "ask" },
  { id: "ask.down", key: "PageDown", others: [" "], word: "Read on", where: "ask", repeats: true },
  { id: "ask.up", key: "PageUp", word: "Read back", where: "ask", repeats: true },
  { id: "confirm.yes", key: "y", others: ["Enter"], word: "Allow", where: "confirm" },
  { id: "confirm.no", key: "n", others: ["Escape"], word: "No", where: "confirm" },
  { id: "agent.ask", key: "r", word: "Read and answer what it asks", where: "agent" },
  { id: "agent.compose", key: "i", others: ["Enter"], word: "Write a message", where: "agent" },
  { id: "agent.send", key: "Mod+Enter", word: "Send the message", where: "agent" },
  { id: "agent.interrupt", key: "Mod+.", word: "Interrupt the turn", where: "agent" },
  { id: "agent.actions", key: ".", word: "Actions…", where: "agent" },
  { id: "agent.diff", key: "D", word: "Its changes", where: "agent" },
  { id: "agent.terminals", key: "T", word: "Its terminals", where: "agent" },
  { id: "agent.follow", key: "f", word: "Follow the end", where: "agent" },
  { id: "agent.turn_before", key: "[", word: "Turn before", where: "agent" },
  { id: "agent.turn_after", key: "]", word: "Turn after", where: "agent" },
  { id: "agent.formatted", key: "v", word: "Formatted or plain text", where: "agent" },
  { id: "diff.down", key: "j", others: ["ArrowDown"], word: "Next line", where: "diff", repeats: true },
  { id: "diff.up", key: "k", others: ["ArrowUp"], word: "Line before", where: "diff", repeats: true },
  { id: "diff.next_file", key: "J", word: "Next file", where: "diff" },
  { id: "diff.previous_file", key: "K", word: "File before", where: "diff" },
  { id: "diff.next_hunk", key: "n", word: "Next hunk", where: "diff" },
  { id: "diff.previous_hunk", key: "p", word: "Hunk before", where: "diff" },
  { id: "diff.comment", key: "c", word: "Comment on this line", where: "diff" },
  { id: "diff.viewed", key: " ", word: "Mark the file as viewed", where: "diff" },
  { id: "diff.send", key: "S", word: "Send the review…", where: "diff" },
  { id: "diff.split", key: "u", word: "Unified or split", where: "diff" },
];

const rowsById = new Map(commandTable.map((row) => [row.id, row]));

export interface CommandHandler {
  run(act: Act & { place: string }): void;
  /** Why it cannot be done now; nothing if it can. */
  whyNot?(): string | undefined;
}

const handlers = new Map<string, CommandHandler[]>();
/** Changes whenever a screen adds or removes commands, so that lists of them are drawn again. */
export const commandsVersion = signal(0);
/** What the last key could not do, and why. */
export const keyNotice = signal<string | undefined>(undefined);
/** Modal dialogs that are open. */
export const openDialogs = signal(0);

/** Makes commands available while the calling component is shown. */
export function useCommands(commands: Record<string, CommandHandler | undefined>): void {
  const latest = useRef(commands);
  latest.current = commands;
  const ids = Object.keys(commands).filter((id) => commands[id]).sort().join(" ");
  // Before the next key: an effect after the paint would leave a gap in which the old commands act.
  useLayoutEffect(() => {
    const added = ids.split(" ").filter(Boolean).map((id) => addHandler(id, {
      run: (act) => latest.current[id]?.run(act),
      whyNot: () => latest.current[id]?.whyNot?.(),
    }));
    commandsVersion.value++;
    return () => {
      for (const remove of added) remove();
      commandsVersion.value++;
    };
  }, [ids]);
  // Buttons show why a command cannot be run, and that may depend on what only the calling component knows.
  const reasons = JSON.stringify(Object.values(commands).map((handler) => handler?.whyNot?.() ?? null));
  useLayoutEffect(() => void commandsVersion.value++, [reasons]);
}

function addHandler(id: string, handler: CommandHandler): () => void {
  if (!rowsById.has(id)) throw new Error(`unknown command ${id}`);
  handlers.set(id, [...(handlers.get(id) ?? []), handler]);
  return () => handlers.set(id, (handlers.get(id) ?? []).filter((other) => other !== handler));
}

/** The handler that was added last: that of the innermost screen. */
export function handlerOf(id: string): CommandHandler | undefined {
  return handlers.get(id)?.at(-1);
}

export function availableCommands(): CommandRow[] {
  return commandTable.filter((row) => handlerOf(row.id));
}

export function keyOf(row: CommandRow): string {
  return preferences.value.changedKeys[row.id] ?? row.key;
}

export function commandRow(id: string): CommandRow {
  const row = rowsById.get(id);
  if (!row) throw new Error(`unknown command ${id}`);
  return row;
}

/** A key as people read it. */
export function keyText(key: string, isMac = /Mac|iPhone|iPad/.test(globalThis.navigator?.platform ?? "")): string {
  const names: Record<string, string> = { Escape: "Esc", ArrowDown: "↓", ArrowUp: "↑", Enter: "↵", " ": "Space", PageDown: "PgDn", PageUp: "PgUp" };
  const mod = isMac ? "⌘" : "Ctrl ";
  return key === " " ? "Space" : key.split(" ").map((part) => part.split("+").map((piece) => (piece === "Mod" ? mod.trim() : names[piece] ?? piece)).join(isMac ? "" : " ")).join(" ");
}

/** The name of a key press as the table has it; nothing for a modifier alone. */
export function pressedKey(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey">): string | undefined {
  if (["Shift", "Control", "Alt", "Meta", "Dead", "Process", "Unidentified"].includes(event.key)) return undefined;
  if (event.altKey) return undefined;
  const key = event.ctrlKey || event.metaKey ? event.key.toUpperCase().replace(/^ENTER$/, "Enter") : event.key;
  return event.ctrlKey || event.metaKey ? `Mod+${key}` : key;
}

/** What a key means after the keys before it: the command, or that more keys may follow. */
export function matchKey(rows: readonly CommandRow[], before: string, key: string): { row?: CommandRow; prefix?: string } {
  const typed = before ? `${before} ${key}` : key;
  const keysOf = (row: CommandRow) => [keyOf(row), ...(row.others ?? [])];
  const order: CommandPlace[] = ["dialog", "confirm", "ask", "diff", "agent", "list", "anywhere"];
  const found = rows.filter((row) => keysOf(row).includes(typed));
  found.sort((a, b) => order.indexOf(a.where) - order.indexOf(b.where));
  if (found[0]) return { row: found[0] };
  const leads = rows.some((row) => keysOf(row).some((other) => other !== " " && other.startsWith(`${typed} `)));
  return leads ? { prefix: typed } : {};
}

const CHORD_MS = 1_000;
let chord = "";
let chordTimer: ReturnType<typeof setTimeout> | undefined;

function setChord(prefix: string): void {
  chord = prefix;
  clearTimeout(chordTimer);
  if (prefix) chordTimer = setTimeout(() => (chord = ""), CHORD_MS);
}

export function isTypingPlace(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

/** Buttons and links take these keys themselves. */
function isOwnKey(target: EventTarget | null, key: string): boolean {
  const isControl = target instanceof HTMLElement && target.closest("button, a, summary, [role=tab]") !== null;
  return isControl && (key === "Enter" || key === " ");
}

function handleKey(event: KeyboardEvent): void {
  const key = pressedKey(event);
  // A key that is held down on a button would press it again and again.
  if (event.repeat && isOwnKey(event.target, key ?? "")) event.preventDefault();
  if (key === undefined || event.isComposing || event.defaultPrevented) return;
  const typing = isTypingPlace(event.target);
  if (typing && !key.startsWith("Mod+") && key !== "Escape") return;
  if (isOwnKey(event.target, key)) return;
  if (!key.startsWith("Mod+") && key.length === 1 && key !== " " && !preferences.value.letterKeys) return;
  const rows = availableCommands().filter((row) => openDialogs.value === 0 || row.where === "dialog");
  // Escape leaves a text box before it means anything else.
  if (typing && key === "Escape" && openDialogs.value === 0) {
    (event.target as HTMLElement).blur();
    event.preventDefault();
    return;
  }
  const { row, prefix } = matchKey(rows, chord, key);
  setChord(prefix ?? "");
  if (!row || (event.repeat && !row.repeats)) return;
  event.preventDefault();
  runCommand(row.id, { trusted: event.isTrusted, repeat: event.repeat, composing: event.isComposing, pressed_at: event.timeStamp, place: `key:${key}` });
}

/** Runs a command, or says why it cannot be run. */
export function runCommand(id: string, act: Act & { place: string }): void {
  const handler = handlerOf(id);
  if (!handler) return;
  const why = handler.whyNot?.();
  keyNotice.value = why;
  if (why === undefined) handler.run(act);
}

/** The act that a click is. */
export function clickAct(event: Event, place: string): Act & { place: string } {
  const { ctrlKey, altKey, metaKey } = event as MouseEvent;
  return { trusted: event.isTrusted, modified: Boolean(ctrlKey || altKey || metaKey), pressed_at: event.timeStamp, place: `button:${place}` };
}

/** Whether a key is neither part of the question for the second act nor a way to read on. */
export function isOtherKey(event: KeyboardEvent): boolean {
  const key = pressedKey(event);
  if (key === undefined || key === "Tab") return false;
  const { row } = matchKey(availableCommands(), "", key);
  return row?.where !== "confirm" && row?.id !== "ask.down" && row?.id !== "ask.up";
}

export function startKeyboard(): void {
  document.addEventListener("keydown", handleKey);
}
