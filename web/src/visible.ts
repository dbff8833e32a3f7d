// Hostile text made safe to show: the twin of `core/src/visible.rs`, over the same table and the same cases.
//
// Text inside an ask's `view` was escaped by the host already and does not come through here.

import { blanks_max as BLANKS_MAX, combining, hidden, mark, marks_max as MARKS_MAX } from "./visible_table.json";

/** `line`: breaks and tabs are escaped too. `block`: line breaks stay, and a tab becomes four spaces. */
export type TextLayout = "line" | "block";

/** Shows every character that a screen would hide, obey or turn into a blank as `\u{…}`. Nothing is left out. */
export function visible(text: string, layout: TextLayout): string {
  return isPlain(text, layout) ? text : render(text, layout);
}

/** One line of text. */
export function line(text: string): string {
  return visible(text, "line");
}

/** Text in lines of its own. */
export function block(text: string): string {
  return visible(text, "block");
}

/** How many characters are shown as an escape, line breaks and tabs not counted. */
export function hiddenCount(text: string): number {
  let marks = 0;
  let count = 0;
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    marks = isCombining(code) ? marks + 1 : 0;
    if (marks > MARKS_MAX || (isHidden(code) && character !== "\n" && character !== "\t")) count++;
  }
  return count;
}

function isPlain(text: string, layout: TextLayout): boolean {
  // Nearly every text is printable ASCII without long runs of blanks.
  const plain = layout === "line" ? /^[ -[\]-~]*$/ : /^[\n -~]*$/;
  return plain.test(text) && !text.includes(" ".repeat(BLANKS_MAX + 1));
}

function render(text: string, layout: TextLayout): string {
  const characters = [...text];
  let shown = "";
  let marks = 0;
  for (let index = 0; index < characters.length; ) {
    const first = characters[index] ?? "";
    const code = first.codePointAt(0) ?? 0;
    const run = runLength(characters, index, first, layout);
    marks = isCombining(code) ? marks + 1 : 0;
    if (marks > MARKS_MAX) {
      shown += escapeCode(code);
    } else if (isBlank(first, layout)) {
      shown += showBlanks(characters.slice(index, index + run));
    } else if (first === "\\") {
      shown += showBackslashes(run, characters[index + run], characters[index + run + 1], layout);
    } else {
      shown += showCharacter(first, code, layout);
    }
    index += run;
  }
  return shown;
}

/** Blanks and backslashes are taken as whole runs, because their number decides how they are shown. */
function runLength(characters: string[], start: number, first: string, layout: TextLayout): number {
  const belongs = isBlank(first, layout)
    ? (character: string) => isBlank(character, layout)
    : first === "\\"
      ? (character: string) => character === "\\"
      : () => false;
  let end = start + 1;
  while (end < characters.length && belongs(characters[end] ?? "")) end++;
  return end - start;
}

function isBlank(character: string, layout: TextLayout): boolean {
  return character === " " || (character === "\t" && layout === "block");
}

function showBlanks(blanks: string[]): string {
  if (blanks.length <= BLANKS_MAX) return blanks.join("").replaceAll("\t", "    ");
  const noun = blanks.includes("\t") ? "blanks" : "spaces";
  return `${mark[0]}${blanks.length} ${noun}${mark[1]}`;
}

function showBackslashes(count: number, next: string | undefined, afterNext: string | undefined, layout: TextLayout): string {
  const readsAsEscape =
    next !== undefined &&
    (["n", "r", "t"].includes(next) || (next === "u" && afterNext === "{") || isHidden(next.codePointAt(0) ?? 0));
  return "\\".repeat(layout === "line" && readsAsEscape ? count * 2 : count);
}

function showCharacter(character: string, code: number, layout: TextLayout): string {
  if (character === "\n" && layout === "block") return character;
  if (character === "\n") return "\\n";
  if (character === "\t") return "\\t";
  if (character === "\r") return "\\r";
  // A lone surrogate has no character of its own; Rust text cannot hold one.
  if (code >= 0xd800 && code <= 0xdfff) return escapeCode(code);
  return isHidden(code) ? escapeCode(code) : character;
}

function escapeCode(code: number): string {
  return `\\u{${code.toString(16)}}`;
}

function isHidden(code: number): boolean {
  return !(code >= 0x20 && code <= 0x7e) && isInRanges(hidden, code);
}

function isCombining(code: number): boolean {
  return code >= 0x300 && isInRanges(combining, code);
}

/** Binary search in sorted ranges. */
function isInRanges(ranges: number[][], code: number): boolean {
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ranges[middle]?.[0] ?? Infinity) <= code) low = middle + 1;
    else high = middle;
  }
  return low > 0 && code <= (ranges[low - 1]?.[1] ?? -1);
}
