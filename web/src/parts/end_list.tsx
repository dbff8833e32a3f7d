// A long list that is read from its end: it follows what is added while its end is in view, and stays where it is read
// otherwise. Only the rows in view are in the document.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useReducer, useRef } from "preact/hooks";
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";

export interface EndListControl {
  scrollToEnd(): void;
  scrollToIndex(index: number): void;
  /** The first row in view. */
  firstInView(): number;
}

interface EndListProps {
  count: number;
  estimate: number;
  label: string;
  keyOf(index: number): string;
  render(index: number): ComponentChildren;
  /** Told whenever the end comes into view or leaves it. */
  onEnd(atEnd: boolean): void;
  /** Told when the beginning is near. */
  onNearStart(): void;
  control: { current: EndListControl | undefined };
}

const END_PIXELS = 32;
const START_PIXELS = 600;

export function EndList({ count, estimate, label, keyOf, render, onEnd, onNearStart, control }: EndListProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer((version: number) => version + 1, 0);
  const virtualizer = useRef<Virtualizer<HTMLDivElement, HTMLElement> | undefined>(undefined);
  const atEnd = useRef(true);
  const options = {
    count,
    overscan: 10,
    estimateSize: () => estimate,
    getItemKey: keyOf,
    getScrollElement: () => scroller.current,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    anchorTo: "end" as const,
    followOnAppend: true,
    scrollEndThreshold: END_PIXELS,
    onChange: () => redraw(undefined),
  };
  virtualizer.current ??= new Virtualizer(options);
  const rows = virtualizer.current;
  rows.setOptions(options);
  useLayoutEffect(() => rows._didMount(), []);
  useLayoutEffect(() => rows._willUpdate());
  const hasRows = count > 0;
  useEffect(() => {
    if (hasRows) rows.scrollToEnd();
  }, [hasRows]);
  control.current = {
    scrollToEnd: () => rows.scrollToEnd(),
    scrollToIndex: (index) => rows.scrollToIndex(index, { align: "start" }),
    firstInView: () => rows.getVirtualItemForOffset(rows.scrollOffset ?? 0)?.index ?? 0,
  };
  const look = () => {
    const element = scroller.current;
    if (!element) return;
    const isEnd = element.scrollHeight - element.scrollTop - element.clientHeight <= END_PIXELS;
    if (isEnd !== atEnd.current) onEnd((atEnd.current = isEnd));
    if (element.scrollTop < START_PIXELS) onNearStart();
  };
  return (
    <div ref={scroller} class="virtual-list end-list" role="log" aria-live="off" aria-label={label} tabIndex={0} onScroll={look}>
      <div class="virtual-space" style={{ height: `${rows.getTotalSize()}px` }}>
        {rows.getVirtualItems().map((item) => (
          <div
            key={item.key as string} class="virtual-row" data-index={item.index}
            ref={(element) => rows.measureElement(element)} style={{ transform: `translateY(${item.start}px)` }}
          >
            {render(item.index)}
          </div>
        ))}
      </div>
    </div>
  );
}
