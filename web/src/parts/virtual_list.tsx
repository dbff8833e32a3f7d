// A long list of which only the rows in view are in the document.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useReducer, useRef } from "preact/hooks";
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";

interface VirtualListProps {
  count: number;
  /** The expected height of a row, in pixels; rows are measured when they are drawn. */
  estimate: number;
  keyOf(index: number): string;
  render(index: number): ComponentChildren;
  /** The row that must be in view. */
  active?: number;
  /** For a listbox: its label and the id of its active row. */
  label: string;
  activeId?: string;
  role?: "listbox" | "list";
}

export function VirtualList({ count, estimate, keyOf, render, active, label, activeId, role = "listbox" }: VirtualListProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer((version: number) => version + 1, 0);
  const virtualizer = useRef<Virtualizer<HTMLDivElement, HTMLElement> | undefined>(undefined);
  const options = {
    count,
    overscan: 8,
    estimateSize: () => estimate,
    getItemKey: keyOf,
    getScrollElement: () => scroller.current,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => redraw(undefined),
  };
  virtualizer.current ??= new Virtualizer(options);
  const rows = virtualizer.current;
  rows.setOptions(options);
  useLayoutEffect(() => rows._didMount(), []);
  useLayoutEffect(() => rows._willUpdate());
  useEffect(() => {
    if (active !== undefined && active >= 0) rows.scrollToIndex(active, { align: "auto" });
  }, [active]);
  return (
    <div ref={scroller} class="virtual-list" role={role} aria-label={label} aria-activedescendant={activeId} tabIndex={0}>
      <div class="virtual-space" role="presentation" style={{ height: `${rows.getTotalSize()}px` }}>
        {rows.getVirtualItems().map((item) => (
          <div
            key={item.key as string} class="virtual-row" role="presentation" data-index={item.index}
            ref={(element) => rows.measureElement(element)} style={{ transform: `translateY(${item.start}px)` }}
          >
            {render(item.index)}
          </div>
        ))}
      </div>
    </div>
  );
}
