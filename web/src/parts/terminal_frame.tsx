// The output of one terminal, drawn in a frame without an origin.

import { useEffect, useRef, useState } from "preact/hooks";
import { describeCallError } from "../call_errors.ts";
import { preferences } from "../preferences.ts";
import { call, isLive } from "../store.ts";
import { plural } from "../text.ts";
import { parseFromFrame, type TerminalColors, type ToFrame } from "../term/messages.ts";
import { frameAddress } from "../trusted_types.ts";
import { block, line } from "../visible.ts";

/** The host answers a waiting read after 25 seconds at the latest. */
const WAIT_REPLY_MS = 40_000;

interface TerminalFrameProps {
  agentId: string;
  terminalId: string;
}

export function TerminalFrame({ agentId, terminalId }: TerminalFrameProps) {
  const frame = useRef<HTMLIFrameElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [ready, setReady] = useState(false);
  const [copied, setCopied] = useState<string | undefined>(undefined);
  const [link, setLink] = useState<string | undefined>(undefined);
  const [findText, setFindText] = useState("");
  const send = (message: ToFrame) => frame.current?.contentWindow?.postMessage(message, "*");
  useEffect(() => {
    const receive = (event: MessageEvent) => {
      if (event.source !== frame.current?.contentWindow) return;
      const message = parseFromFrame(event.data);
      if (message?.type === "ready") setReady(true);
      else if (message?.type === "text") setCopied(message.text);
      else if (message?.type === "link") setLink(message.href);
      else if (message?.type === "leave") box.current?.focus();
    };
    addEventListener("message", receive);
    return () => removeEventListener("message", receive);
  }, []);
  const { theme } = preferences.value;
  useEffect(() => {
    if (!ready || !box.current) return undefined;
    const colors = matchMedia("(prefers-color-scheme: dark)");
    const tell = () => box.current && send({ type: "colors", colors: readColors(box.current) });
    tell();
    colors.addEventListener("change", tell);
    return () => colors.removeEventListener("change", tell);
  }, [ready, theme]);
  const { error, skipped } = useOutput({ agentId, terminalId, ready, send });
  const find = (direction: "next" | "previous") => send({ type: "find", text: findText, direction });
  return (
    <div class="terminal-view">
      <div class="terminal-tools">
        <input
          type="search" placeholder="Find" aria-label="Find in the output" value={findText} onInput={(event) => setFindText(event.currentTarget.value)}
          onKeyDown={(event) => event.key === "Enter" && find(event.shiftKey ? "previous" : "next")}
        />
        <button onClick={() => find("previous")} aria-label="Find before">↑</button>
        <button onClick={() => find("next")} aria-label="Find next">↓</button>
        <button aria-pressed={copied !== undefined} onClick={() => (copied === undefined ? send({ type: "read" }) : setCopied(undefined))}>{copied === undefined ? "Show as text" : "Show the terminal"}</button>
      </div>
      {error && <p class="notice bad" role="alert">{error}</p>}
      {skipped > 0 && <p class="muted small terminal-note">The first {plural(skipped, "byte")} are not kept any more.</p>}
      {link && <p class="notice"><span class="grow">{line(link)}</span><a href={link} target="_blank" rel="noopener noreferrer">Open it ↗</a><button class="plain" aria-label="Dismiss" onClick={() => setLink(undefined)}>×</button></p>}
      <div ref={box} class="terminal-box" tabIndex={-1} hidden={copied !== undefined}>
        <iframe ref={frame} title="Terminal output" src={frameAddress} sandbox="allow-scripts" />
      </div>
      {copied !== undefined && <pre class="terminal-text" tabIndex={0}>{block(copied)}</pre>}
    </div>
  );
}

/** The page's own colours, as the browser resolved them. */
function readColors(element: HTMLElement): TerminalColors {
  const style = getComputedStyle(element);
  const parts = style.backgroundColor.match(/[\d.]+/g)?.map(Number) ?? [255];
  return { background: style.backgroundColor, foreground: style.color, selection: style.outlineColor, dark: (parts[0] ?? 255) < 128 };
}

interface OutputContext extends TerminalFrameProps {
  ready: boolean;
  send(message: ToFrame): void;
}

/** Reads the output from its beginning and goes on while the terminal lives. */
function useOutput({ agentId, terminalId, ready, send }: OutputContext): { error: string | undefined; skipped: number } {
  const [error, setError] = useState<string | undefined>(undefined);
  const [skipped, setSkipped] = useState(0);
  const live = isLive.value;
  const place = useRef<{ id: string; after: number }>({ id: "", after: 0 });
  useEffect(() => {
    if (!ready || !live) return undefined;
    let current = true;
    if (place.current.id !== terminalId) {
      place.current = { id: terminalId, after: 0 };
      setSkipped(0);
      send({ type: "reset" });
    }
    const read = async () => {
      setError(undefined);
      while (current) {
        const output = await call("host.terminal_output", { agent_id: agentId, terminal_id: terminalId, after: place.current.after, wait: true }, WAIT_REPLY_MS);
        if (!current) return;
        place.current.after = output.next;
        if (output.skipped > 0) setSkipped((before) => before + output.skipped);
        if (output.data) send({ type: "bytes", bytes: decodeBase64(output.data) });
        else if (output.ended) return;
      }
    };
    read().catch((failure: unknown) => current && setError(describeCallError(failure)));
    return () => {
      current = false;
    };
  }, [agentId, terminalId, ready, live]);
  return { error, skipped };
}

function decodeBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
