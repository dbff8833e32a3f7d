// Whether every part of a text was on screen. The arithmetic is pure; the hook feeds it with what is in view.
//
// Invariant: a jump from the beginning to the end leaves the middle unread.

import { type RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";
import { openDialogs } from "./keys.ts";

export type Span = readonly [from: number, to: number];

/** Adds a span to spans that are sorted and do not touch. */
export function addSpan(spans: readonly Span[], added: Span): Span[] {
  const [from, to] = added;
  if (to <= from) return [...spans];
  const apart = spans.filter(([start, end]) => end < from || start > to);
  const touching = spans.filter(([start, end]) => end >= from && start <= to);
  const merged: Span = [Math.min(from, ...touching.map(([start]) => start)), Math.max(to, ...touching.map(([, end]) => end))];
  return [...apart, merged].sort((a, b) => a[0] - b[0]);
}

/** Rounding of pixels may leave the first or the last one out. */
const ROUNDING_PIXELS = 1.5;

export function coversAll(spans: readonly Span[], height: number): boolean {
  return spans.some(([from, to]) => from <= ROUNDING_PIXELS && to >= height - ROUNDING_PIXELS);
}

/** What was seen of one element. */
interface SeenPart {
  height: number;
  spans: Span[];
  whole: boolean;
}

export interface ReadingProgress {
  whole: boolean;
  /** From 0 to 1, by parts. */
  share: number;
}

/** Follows which of the elements with `data-read` inside of a scrolling one were on screen in full. */
export function useReading(scroller: RefObject<HTMLElement | null>, version: string, onWhole: () => void): ReadingProgress {
  const [progress, setProgress] = useState<ReadingProgress>({ whole: false, share: 0 });
  useEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    const reader = new PartReader(element, (next) => {
      setProgress(next);
      if (next.whole) onWhole();
    });
    return () => reader.stop();
  }, [version]);
  return progress;
}

class PartReader {
  private readonly seen = new WeakMap<Element, SeenPart>();
  private readonly observer = new ResizeObserver(() => this.schedule());
  private frame = 0;
  private whole = false;

  constructor(
    private readonly scroller: HTMLElement,
    private readonly onChange: (progress: ReadingProgress) => void,
  ) {
    scroller.addEventListener("scroll", this.schedule, { passive: true });
    document.addEventListener("visibilitychange", this.schedule);
    this.observer.observe(scroller);
    if (scroller.firstElementChild) this.observer.observe(scroller.firstElementChild);
    onChange({ whole: false, share: 0 });
    this.schedule();
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
    this.scroller.removeEventListener("scroll", this.schedule);
    document.removeEventListener("visibilitychange", this.schedule);
    this.observer.disconnect();
  }

  private readonly schedule = (): void => {
    cancelAnimationFrame(this.frame);
    // Frames are drawn only while the page is visible, so nothing is taken for seen in a hidden tab.
    this.frame = requestAnimationFrame(() => this.look());
  };

  private look(): void {
    if (this.whole || document.visibilityState !== "visible") return;
    // A dialog covers the text.
    if (openDialogs.value > 0) {
      setTimeout(this.schedule, 200);
      return;
    }
    // What is folded is not part of what would run, and nobody could scroll to it.
    const parts = [...this.scroller.querySelectorAll("[data-read]")].filter((part) => !part.closest("details:not([open])"));
    const view = this.scroller.getBoundingClientRect();
    for (const part of parts) this.lookAt(part, view);
    const done = parts.filter((part) => this.seen.get(part)?.whole).length;
    this.whole = parts.length > 0 && done === parts.length;
    this.onChange({ whole: this.whole, share: parts.length === 0 ? 0 : done / parts.length });
  }

  private lookAt(part: Element, view: DOMRect): void {
    const before = this.seen.get(part);
    if (before?.whole) return;
    const box = part.getBoundingClientRect();
    const span: Span = [Math.max(0, view.top - box.top), Math.min(box.height, view.bottom - box.top)];
    // Lines that were broken anew are not where they were.
    const known = before && Math.abs(before.height - box.height) < ROUNDING_PIXELS ? before.spans : [];
    const spans = addSpan(known, span);
    this.seen.set(part, { height: box.height, spans, whole: coversAll(spans, box.height) });
  }
}
