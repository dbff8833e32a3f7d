// Text of an agent, formatted. Drawn from plain data, element by element; plain text until the worker has it.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { knownFormat, requestFormat } from "../format_client.ts";
import type { Block, Inline } from "../formatted.ts";
import { block } from "../visible.ts";

export function FormattedText({ text }: { text: string }) {
  const shown = block(text);
  const [, redraw] = useState(0);
  const known = knownFormat(shown);
  useEffect(() => {
    if (knownFormat(shown) !== "unknown") return undefined;
    return requestFormat(shown, () => redraw((version) => version + 1));
  }, [shown]);
  if (known === "unknown" || known === undefined) return <div class="plain-text">{shown}</div>;
  return <div class="formatted">{known.map((row, index) => <BlockView key={index} row={row} />)}</div>;
}

function BlockView({ row }: { row: Block }) {
  switch (row.type) {
    case "paragraph":
      return <p>{inlines(row.children)}</p>;
    case "heading":
      // Not a heading of the page: an agent's text must not change its outline.
      return <p class={`agent-heading level-${row.level}`}>{inlines(row.children)}</p>;
    case "code":
      return <pre class="code-box"><code>{row.tokens.map(([text, kind], index) => (kind ? <span key={index} class={`code-${kind}`}>{text}</span> : text))}</code></pre>;
    case "quote":
      return <blockquote>{blocks(row.children)}</blockquote>;
    case "list": {
      const items = row.items.map((item, index) => <li key={index}>{blocks(item)}</li>);
      return row.ordered ? <ol start={row.start}>{items}</ol> : <ul>{items}</ul>;
    }
    case "table":
      return <TableView row={row} />;
    case "rule":
      return <hr />;
  }
}

function TableView({ row }: { row: Extract<Block, { type: "table" }> }) {
  return (
    <div class="table-box">
      <table>
        <thead><tr>{row.head.map((cell, index) => <th key={index} scope="col">{inlines(cell)}</th>)}</tr></thead>
        <tbody>{row.rows.map((cells, index) => <tr key={index}>{cells.map((cell, position) => <td key={position}>{inlines(cell)}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

function blocks(rows: Block[]): ComponentChildren {
  return rows.map((row, index) => <BlockView key={index} row={row} />);
}

function inlines(parts: Inline[]): ComponentChildren {
  return parts.map((part, index) => <InlineView key={index} part={part} />);
}

function InlineView({ part }: { part: Inline }) {
  switch (part.type) {
    case "text":
      return <>{part.text}</>;
    case "code":
      return <code>{part.text}</code>;
    case "strong":
      return <strong>{inlines(part.children)}</strong>;
    case "em":
      return <em>{inlines(part.children)}</em>;
    case "del":
      return <del>{inlines(part.children)}</del>;
    case "break":
      return <br />;
    case "link":
      return <AgentLink href={part.href}>{inlines(part.children)}</AgentLink>;
  }
}

/** A link shows where it leads, and opens on a second act. */
function AgentLink({ href, children }: { href: string; children: ComponentChildren }) {
  const [asked, setAsked] = useState(false);
  return (
    <span class="agent-link">
      <button class="plain inline" aria-expanded={asked} onClick={() => setAsked(!asked)}>{children}</button>
      <span class="muted small"> ({href}) </span>
      {asked && <a href={href} target="_blank" rel="noopener noreferrer">Open it ↗</a>}
    </span>
  );
}
