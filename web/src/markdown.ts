// Markdown to plain data. Only the lexer of `marked` is used: nothing here makes HTML, and HTML in the text is text.

import { lexer, type Token, type Tokens } from "marked";
import type { Block, CodeToken, Inline } from "./formatted.ts";

/** Deeper nesting is shown as the text it is. */
const DEPTH_MAX = 12;

export type Highlighter = (code: string, language: string) => CodeToken[];

export function parseMarkdown(text: string, highlight: Highlighter): Block[] {
  return toBlocks(lexer(text, { gfm: true }), highlight, 0);
}

function toBlocks(tokens: Token[], highlight: Highlighter, depth: number): Block[] {
  return tokens.flatMap((token) => toBlock(token, highlight, depth));
}

function toBlock(token: Token, highlight: Highlighter, depth: number): Block[] {
  if (depth > DEPTH_MAX) return [plainBlock(token.raw)];
  switch (token.type) {
    case "space":
    case "def":
      return [];
    case "hr":
      return [{ type: "rule" }];
    case "heading":
      return [{ type: "heading", level: (token as Tokens.Heading).depth, children: toInlines(token, depth) }];
    case "code": {
      const { lang = "", text } = token as Tokens.Code;
      return [{ type: "code", language: lang, tokens: highlight(text, lang) }];
    }
    case "blockquote":
      return [{ type: "quote", children: toBlocks((token as Tokens.Blockquote).tokens, highlight, depth + 1) }];
    case "list":
      return [toList(token as Tokens.List, highlight, depth)];
    case "table":
      return [toTable(token as Tokens.Table, depth)];
    case "paragraph":
    case "text":
      return [{ type: "paragraph", children: toInlines(token, depth) }];
    default:
      return [plainBlock(token.raw)];
  }
}

function toList(token: Tokens.List, highlight: Highlighter, depth: number): Block {
  const items = token.items.map((item) => {
    const mark: Block[] = item.task ? [{ type: "paragraph", children: [{ type: "text", text: item.checked ? "☑" : "☐" }] }] : [];
    return [...mark, ...toBlocks(item.tokens.filter((part) => part.type !== "checkbox"), highlight, depth + 1)];
  });
  return { type: "list", ordered: token.ordered, start: typeof token.start === "number" ? token.start : 1, items };
}

function toTable(token: Tokens.Table, depth: number): Block {
  const cell = (part: Tokens.TableCell) => inlinesOf(part.tokens, depth + 1);
  return { type: "table", head: token.header.map(cell), rows: token.rows.map((row) => row.map(cell)) };
}

function plainBlock(raw: string): Block {
  return { type: "paragraph", children: [{ type: "text", text: raw.trimEnd() }] };
}

function toInlines(token: Token, depth: number): Inline[] {
  const nested = "tokens" in token ? token.tokens : undefined;
  return nested ? inlinesOf(nested, depth + 1) : [{ type: "text", text: "text" in token ? String(token.text) : token.raw }];
}

function inlinesOf(tokens: Token[], depth: number): Inline[] {
  return tokens.map((token) => toInline(token, depth));
}

function toInline(token: Token, depth: number): Inline {
  if (depth > DEPTH_MAX) return { type: "text", text: token.raw };
  switch (token.type) {
    case "strong":
    case "em":
    case "del":
      return { type: token.type, children: inlinesOf(token.tokens ?? [], depth + 1) };
    case "codespan":
      return { type: "code", text: (token as Tokens.Codespan).text };
    case "br":
      return { type: "break" };
    case "link":
      return toLink(token as Tokens.Link, depth);
    case "escape":
      return { type: "text", text: (token as Tokens.Escape).text };
    case "text":
      return token.tokens ? { type: "text", text: token.raw } : { type: "text", text: (token as Tokens.Text).text };
    default:
      // Pictures and HTML are shown as they were written.
      return { type: "text", text: token.raw };
  }
}

/** Only addresses of the web become links. */
function toLink(token: Tokens.Link, depth: number): Inline {
  if (!/^https?:\/\//i.test(token.href)) return { type: "text", text: token.raw };
  return { type: "link", href: token.href, children: inlinesOf(token.tokens, depth + 1) };
}
