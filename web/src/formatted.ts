// Formatted text as plain data: what the worker makes of Markdown, and the page draws. There is no HTML in it.

export type Inline =
  | { type: "text" | "code"; text: string }
  | { type: "strong" | "em" | "del"; children: Inline[] }
  | { type: "link"; href: string; children: Inline[] }
  | { type: "break" };

/** A piece of code and the name of its kind (`kwd`, `str`, …). */
export type CodeToken = [text: string, kind?: string];

export type Block =
  | { type: "paragraph"; children: Inline[] }
  | { type: "heading"; level: number; children: Inline[] }
  | { type: "code"; language: string; tokens: CodeToken[] }
  | { type: "quote"; children: Block[] }
  | { type: "list"; ordered: boolean; start: number; items: Block[][] }
  | { type: "table"; head: Inline[][]; rows: Inline[][][] }
  | { type: "rule" };

export interface FormatRequest {
  id: number;
  /** Escaped already. */
  text: string;
}

export interface FormatReply {
  id: number;
  blocks: Block[];
}
