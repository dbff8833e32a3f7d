// Icons as data, drawn as SVG elements.

import { h } from "preact";
import { Activity, Bot, Check, ChevronLeft, CircleHelp, Clock, Ellipsis, FileText, Inbox, Scale, Search, Settings, TriangleAlert, X } from "lucide";

const icons = {
  activity: Activity,
  agents: Bot,
  back: ChevronLeft,
  check: Check,
  clock: Clock,
  close: X,
  file: FileText,
  help: CircleHelp,
  inbox: Inbox,
  more: Ellipsis,
  rules: Scale,
  search: Search,
  settings: Settings,
  warning: TriangleAlert,
};

export type IconName = keyof typeof icons;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  const shapes = icons[name] as unknown as [string, Record<string, string | number>][];
  return (
    <svg width={size} height={size} viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.75" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      {shapes.map(([tag, attributes]) => h(tag, attributes))}
    </svg>
  );
}
