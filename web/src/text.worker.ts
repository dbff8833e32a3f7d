// Formats text apart from the page: hostile text may keep a parser busy, and the page ends a worker that takes too long.

import { tokenizeWith, type ShjLanguageData } from "@speed-highlight/core/tokenize";
import bash from "@speed-highlight/core/languages/bash.js";
import c from "@speed-highlight/core/languages/c.js";
import css from "@speed-highlight/core/languages/css.js";
import diff from "@speed-highlight/core/languages/diff.js";
import docker from "@speed-highlight/core/languages/docker.js";
import go from "@speed-highlight/core/languages/go.js";
import html from "@speed-highlight/core/languages/html.js";
import ini from "@speed-highlight/core/languages/ini.js";
import java from "@speed-highlight/core/languages/java.js";
import js from "@speed-highlight/core/languages/js.js";
import json from "@speed-highlight/core/languages/json.js";
import make from "@speed-highlight/core/languages/make.js";
import py from "@speed-highlight/core/languages/py.js";
import rs from "@speed-highlight/core/languages/rs.js";
import sql from "@speed-highlight/core/languages/sql.js";
import toml from "@speed-highlight/core/languages/toml.js";
import ts from "@speed-highlight/core/languages/ts.js";
import xml from "@speed-highlight/core/languages/xml.js";
import yaml from "@speed-highlight/core/languages/yaml.js";
import type { CodeToken, FormatReply, FormatRequest } from "./formatted.ts";
import { parseMarkdown } from "./markdown.ts";

const languages: Record<string, ShjLanguageData> = { bash, c, css, diff, docker, go, html, ini, java, js, json, make, py, rs, sql, toml, ts, xml, yaml };
const otherNames: Record<string, string> = {
  sh: "bash", shell: "bash", zsh: "bash", console: "bash", "c++": "c", cpp: "c", h: "c", patch: "diff", dockerfile: "docker", javascript: "js", jsx: "js",
  mjs: "js", makefile: "make", python: "py", rust: "rs", typescript: "ts", tsx: "ts", yml: "yaml", golang: "go",
};
/** The highlighter takes time that grows with the square of a line's length. */
const LINE_CHARS_MAX = 2_000;
const CODE_CHARS_MAX = 50_000;

function highlight(code: string, language: string): CodeToken[] {
  const word = language.toLowerCase().split(/[\s,{]/)[0] ?? "";
  const grammar = languages[otherNames[word] ?? word];
  const isLong = code.length > CODE_CHARS_MAX || code.split("\n").some((text) => text.length > LINE_CHARS_MAX);
  if (!grammar || isLong) return [[code]];
  const tokens: CodeToken[] = [];
  tokenizeWith(code, grammar, (text, kind) => tokens.push(kind === undefined ? [text] : [text, kind]), { languages });
  return tokens;
}

const worker = globalThis as unknown as { onmessage: (event: MessageEvent<FormatRequest>) => void; postMessage(reply: FormatReply | "ready"): void };

worker.onmessage = ({ data: { id, text } }) => {
  worker.postMessage({ id, blocks: parseMarkdown(text, highlight) });
};

worker.postMessage("ready");
