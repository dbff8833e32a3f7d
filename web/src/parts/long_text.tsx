// Text of any length in parts that are drawn when they come into view, each of which has to be seen.

import { chunk } from "./diff_view.tsx";

const CHUNK_LINES = 80;

/** The text must be escaped already. */
export function LongText({ text, class: className = "" }: { text: string; class?: string }) {
  const chunks = chunk(text.split("\n"), CHUNK_LINES);
  return (
    <div class={`long-text ${className}`}>
      {chunks.map((lines, index) => <pre key={index} data-read>{lines.join("\n")}</pre>)}
    </div>
  );
}
