// A long list that is read from its beginning, with one active row that stays in view.

import { useEffect } from "preact/hooks";
import { type RowsSource, useVirtualRows, VirtualRows } from "./virtual_rows.tsx";

interface VirtualListProps extends RowsSource {
  /** The row that must be in view. */
  active?: number;
  /** For a listbox: its label and the id of its active row. */
  label: string;
  activeId?: string;
  role?: "listbox" | "list";
}

export function VirtualList({ active, label, activeId, role = "listbox", ...source }: VirtualListProps) {
  const [scroller, rows] = useVirtualRows(source);
  useEffect(() => {
    if (active !== undefined && active >= 0) rows.scrollToIndex(active, { align: "auto" });
  }, [active]);
  return (
    <div ref={scroller} class="virtual-list" role={role} aria-label={label} aria-activedescendant={activeId} tabIndex={0}>
      <VirtualRows rows={rows} render={source.render} />
    </div>
  );
}
