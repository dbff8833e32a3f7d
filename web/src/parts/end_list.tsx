// A long list that is read from its end: it follows what is added while its end is in view, and stays where it is read
// otherwise.

import { useEffect, useRef } from "preact/hooks";
import { type RowsSource, useVirtualRows, VirtualRows } from "./virtual_rows.tsx";

export interface EndListControl {
  scrollToEnd(): void;
  scrollToIndex(index: number): void;
  /** The first row in view. */
  firstInView(): number;
}

interface EndListProps extends RowsSource {
  label: string;
  /** Told whenever the end comes into view or leaves it. */
  onEnd(atEnd: boolean): void;
  /** Told when the beginning is near. */
  onNearStart(): void;
  control: { current: EndListControl | undefined };
}

const END_PIXELS = 32;
const START_PIXELS = 600;

export function EndList({ label, onEnd, onNearStart, control, ...source }: EndListProps) {
  const [scroller, rows] = useVirtualRows(source, {
    anchorTo: "end",
    followOnAppend: true,
    scrollEndThreshold: END_PIXELS,
    // The rows at the end are the first that are drawn.
    initialOffset: () => Math.max(0, totalEstimate(source) - innerHeight),
  });
  const atEnd = useRef(true);
  const hasRows = source.count > 0;
  useEffect(() => {
    if (hasRows) rows.scrollToEnd();
  }, [hasRows]);
  useEffect(() => {
    const element = scroller.current;
    // A list that is hardly longer than its window cannot be scrolled towards its beginning.
    if (element && element.scrollHeight <= element.clientHeight + START_PIXELS) onNearStart();
  }, [source.count]);
  useEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    // What opens below the list makes it shorter, and its end stays in view.
    const observer = new ResizeObserver(() => {
      if (atEnd.current) rows.scrollToEnd();
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
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
      <VirtualRows rows={rows} render={source.render} />
    </div>
  );
}

function totalEstimate({ count, estimate }: RowsSource): number {
  let total = 0;
  for (let index = 0; index < count; index++) total += estimate(index);
  return total;
}
