// Who else has an ask open, in words.

import { line } from "./visible.ts";
import type { AskViewer } from "./wire_types.ts";

/** On which other screens an ask or a question is open; nothing if on none. */
export function viewersText(viewers: AskViewer[], subject: string): string | undefined {
  const places = viewers.filter((viewer) => viewer.subject === subject).map(placeText);
  if (places.length === 0) return undefined;
  const counted = [...new Set(places)].map((place) => {
    const count = places.filter((other) => other === place).length;
    return count === 1 ? place : `${place} (${count} times)`;
  });
  return `also open: ${counted.join(", ")}`;
}

function placeText({ name, device, door }: AskViewer): string {
  if (device !== undefined) return `on ${line(device)}`;
  if (door === "web") return `in another browser of ${line(name)}`;
  return door === "socket" ? `in a terminal of ${line(name)}` : `on a screen of ${line(name)}`;
}
