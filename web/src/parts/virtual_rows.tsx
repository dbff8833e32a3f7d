// Rows of a long list, of which only those in view are in the document. The lists that are made of it choose where
// they begin and what they follow.

import type { ComponentChildren, RefObject } from "preact";
import { useLayoutEffect, useReducer, useRef } from "preact/hooks";
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer, type VirtualizerOptions } from "@tanstack/virtual-core";

export interface RowsSource {
  count: number;
  /** The expected height of a row, in pixels; rows are measured when they are drawn. */
  estimate(index: number): number;
  keyOf(index: number): string;
  render(index: number): ComponentChildren;
}

type Rows = Virtualizer<HTMLDivElement, HTMLElement>;
type RowsOptions = Partial<VirtualizerOptions<HTMLDivElement, HTMLElement>>;

/** Rows drawn beyond the edges, so that a quick scroll does not meet a gap. */
const OVERSCAN = 8;

/** Follows which rows are in view of the element that `scroller` refers to. */
export function useVirtualRows({ count, estimate, keyOf }: RowsSource, special: RowsOptions = {}): [RefObject<HTMLDivElement | null>, Rows] {
  const scroller = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer((version: number) => version + 1, 0);
  const virtualizer = useRef<Rows | undefined>(undefined);
  const options = {
    count,
    overscan: OVERSCAN,
    estimateSize: estimate,
    getItemKey: keyOf,
    getScrollElement: () => scroller.current,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    // Until the list is measured: rows are drawn at once and not after a first, empty pass.
    initialRect: { width: innerWidth, height: innerHeight },
    onChange: () => redraw(undefined),
    ...special,
  };
  virtualizer.current ??= new Virtualizer(options);
  const rows = virtualizer.current;
  rows.setOptions(options);
  useLayoutEffect(() => rows._didMount(), []);
  useLayoutEffect(() => rows._willUpdate());
  return [scroller, rows];
}

export function VirtualRows({ rows, render }: { rows: Rows; render: RowsSource["render"] }) {
  return (
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
  );
}
