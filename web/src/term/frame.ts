// The terminal, in a frame without an origin: bytes of agents are parsed where nothing else can be reached.
//
// It only shows. What is typed here goes nowhere.

import { FitAddon } from "@xterm/addon-fit";
import { SearchAddon } from "@xterm/addon-search";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import type { FromFrame, TerminalColors, ToFrame } from "./messages.ts";
import "./frame.css";

const SCROLLBACK_LINES = 20_000;

const terminal = new Terminal({
  allowProposedApi: false,
  convertEol: true,
  cursorBlink: false,
  disableStdin: true,
  fontFamily: 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
  fontSize: 13,
  minimumContrastRatio: 4.5,
  screenReaderMode: true,
  scrollback: SCROLLBACK_LINES,
  // Titles, colours and links that an agent asks for by escape sequences have no effect outside of this frame.
  linkHandler: { activate: (_event, href) => tell({ type: "link", href }) },
});
const fit = new FitAddon();
const search = new SearchAddon();

function tell(message: FromFrame): void {
  // The page's own origin is not known here, and what is told is no secret.
  parent.postMessage(message, "*");
}

const darkColors = { black: "#3b4252", red: "#f49b92", green: "#79cf9a", yellow: "#e8bd68", blue: "#86b8f4", magenta: "#d3a6e8", cyan: "#7fd1d6", white: "#e3e7ed" };
const lightColors = { black: "#1a2029", red: "#ad2a20", green: "#1b683a", yellow: "#7a4d00", blue: "#1f5a9e", magenta: "#7a2d8c", cyan: "#0e6470", white: "#566070" };

function setColors({ background, foreground, selection, dark }: TerminalColors): void {
  terminal.options.theme = { background, foreground, cursor: background, selectionBackground: selection, ...(dark ? darkColors : lightColors) };
  document.body.style.background = background;
}

function bufferText(): string {
  const buffer = terminal.buffer.active;
  const lines: string[] = [];
  for (let index = 0; index < buffer.length; index++) {
    const row = buffer.getLine(index);
    const text = row?.translateToString(true) ?? "";
    if (row?.isWrapped && lines.length > 0) lines[lines.length - 1] += text;
    else lines.push(text);
  }
  return lines.join("\n").trimEnd();
}

function receive(message: ToFrame): void {
  switch (message.type) {
    case "colors":
      return setColors(message.colors);
    case "reset":
      return terminal.reset();
    case "bytes":
      return terminal.write(message.bytes);
    case "find":
      if (message.direction === "next") search.findNext(message.text);
      else search.findPrevious(message.text);
      return;
    case "read":
      // Written bytes are parsed later; an empty write is done after all of them.
      return terminal.write("", () => tell({ type: "text", text: bufferText() }));
  }
}

addEventListener("message", (event: MessageEvent<ToFrame>) => {
  if (event.source === parent) receive(event.data);
});

terminal.loadAddon(fit);
terminal.loadAddon(search);
terminal.loadAddon(new WebLinksAddon((_event, href) => tell({ type: "link", href })));
terminal.attachCustomKeyEventHandler((event) => {
  const leaves = event.key === "Escape" && event.ctrlKey && event.shiftKey;
  if (leaves && event.type === "keydown") tell({ type: "leave" });
  return !leaves;
});
const element = document.getElementById("terminal");
if (element) {
  terminal.open(element);
  new ResizeObserver(() => fit.fit()).observe(element);
  fit.fit();
  tell({ type: "ready" });
}
