// What the page tells outside of itself: title, badge, notices of the browser. Off until a person asks for notices.

import { effect } from "@preact/signals";
import { openCount } from "./inbox_items.ts";
import { announce } from "./parts/live_region.tsx";
import { preferences, setPreference } from "./preferences.ts";
import { navigate, parseRoute } from "./route.ts";
import { onHostEvent } from "./store.ts";
import { askSummary } from "./inbox_items.ts";
import { playTone } from "./sound.ts";
import { askerName, plural } from "./text.ts";
import { line } from "./visible.ts";
import type { Approval, HostEvent, Question } from "./wire_types.ts";

const NOTICE_CHARS_MAX = 140;

interface BadgeNavigator {
  setAppBadge?(count: number): Promise<void>;
  clearAppBadge?(): Promise<void>;
}

export function startPageNotices(): void {
  effect(() => {
    const count = openCount.value;
    document.title = count > 0 ? `(${count}) Countersign` : "Countersign";
    const badge = navigator as BadgeNavigator;
    const shown = count > 0 ? badge.setAppBadge?.(count) : badge.clearAppBadge?.();
    shown?.catch(() => undefined);
  });
  onHostEvent(tell);
  // A click on a push message, for which the service worker has no window of its own.
  navigator.serviceWorker?.addEventListener("message", ({ data }) => {
    const path = (data as { open?: unknown } | null)?.open;
    if (typeof path === "string") navigate(parseRoute(path));
  });
}

function tell(event: HostEvent): void {
  const notice = noticeOf(event);
  if (!notice) return;
  announce(`${notice.title}, ${plural(openCount.value, "waiting", "waiting")}`);
  if (preferences.value.sound) playTone();
  const away = document.visibilityState === "hidden" || !document.hasFocus();
  if (!preferences.value.notices || !away || Notification.permission !== "granted") return;
  // The tag replaces an earlier notice about the same ask.
  const shown = new Notification(notice.title, { body: notice.text, tag: notice.id, icon: "/icons/icon-192.png" });
  shown.onclick = () => {
    focus();
    navigate({ screen: "inbox", askId: notice.id });
    shown.close();
  };
}

interface PageNotice {
  id: string;
  title: string;
  text: string;
}

/** What is told about an event; nothing for most. */
export function noticeOf(event: HostEvent): PageNotice | undefined {
  if (event.kind === "approval.requested") {
    const row = event.payload as Approval;
    if (row.state !== "pending") return undefined;
    return { id: row.id, title: `${askerName(row)} asks: ${line(row.tool ?? "approval")}`, text: shorten(askSummary(row)) };
  }
  if (event.kind === "question.asked") {
    const row = event.payload as Question;
    if (row.for_people === false) return undefined;
    return { id: row.id, title: `${askerName(row)} has a question`, text: shorten(line(row.question)) };
  }
  return undefined;
}

function shorten(text: string): string {
  const characters = [...text];
  if (characters.length <= NOTICE_CHARS_MAX) return text;
  return `${characters.slice(0, NOTICE_CHARS_MAX).join("")}… open to read all`;
}

/** Asks the browser for permission, which it grants only after a click. */
export async function askForNotices(): Promise<boolean> {
  const granted = "Notification" in globalThis && (await Notification.requestPermission()) === "granted";
  setPreference("notices", granted);
  return granted;
}
