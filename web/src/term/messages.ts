// What the page and the frame with the terminal tell each other.

export interface TerminalColors {
  background: string;
  foreground: string;
  selection: string;
  dark: boolean;
}

export type ToFrame =
  | { type: "colors"; colors: TerminalColors }
  /** What is shown is for another terminal from now on. */
  | { type: "reset" }
  | { type: "bytes"; bytes: Uint8Array }
  | { type: "find"; text: string; direction: "next" | "previous" }
  /** Asks for the whole buffer as text. */
  | { type: "read" };

/** Nothing in here is trusted: the frame handles bytes of agents. */
export type FromFrame =
  | { type: "ready" }
  | { type: "text"; text: string }
  | { type: "link"; href: string }
  | { type: "leave" };

/** A message of the frame, if it is one. */
export function parseFromFrame(data: unknown): FromFrame | undefined {
  if (typeof data !== "object" || data === null) return undefined;
  const { type, text, href } = data as Record<string, unknown>;
  if (type === "ready" || type === "leave") return { type };
  if (type === "text" && typeof text === "string") return { type, text };
  // Only addresses of the web: the page offers them as links.
  if (type === "link" && typeof href === "string" && /^https?:\/\//i.test(href)) return { type, href };
  return undefined;
}
