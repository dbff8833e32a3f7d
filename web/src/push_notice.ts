// What a push message becomes on the screen of a device. Pure.
//
// Invariants: a notification can deny its ask and open it, and never allow it, whatever the message says; addresses
// lead to this host alone.

/** A notification as the browser takes it. */
export interface PushNotice {
  title: string;
  options: {
    body: string;
    /** A later notification with the same tag replaces this one. */
    tag: string;
    icon: string;
    badge: string;
    requireInteraction: boolean;
    actions: { action: "deny" | "open"; title: string }[];
    data: NoticeTarget;
  };
}

/** Where the acts on a notification lead. */
export interface NoticeTarget {
  path: string;
  denyPath?: string;
  title: string;
}

interface PushBody {
  id?: unknown;
  title?: unknown;
  text?: unknown;
  path?: unknown;
  deny_path?: unknown;
  subject?: unknown;
  waits?: unknown;
}

/** A browser shows a notification for every push, so a body that cannot be read becomes a plain one. */
export function noticeOfPush(text: string | undefined): PushNotice {
  const body = parseBody(text);
  const title = textOf(body.title) ?? "Countersign";
  const target: NoticeTarget = { path: ownPath(body.path) ?? "/", denyPath: denyPathOf(body.deny_path), title };
  const deny = { action: "deny" as const, title: "Deny" };
  const open = { action: "open" as const, title: "Open" };
  return {
    title,
    options: {
      body: textOf(body.text) ?? "Open the page to see what is new.",
      // The page tags its own notices with the ask's id as well: each ask is told once on a device.
      tag: textOf(body.subject) ?? textOf(body.id) ?? "countersign",
      icon: "/icons/icon-192.png",
      badge: "/icons/icon-192.png",
      requireInteraction: body.waits === true,
      actions: target.denyPath === undefined ? [open] : [deny, open],
      data: target,
    },
  };
}

/** What is said after *Deny* was pressed. */
export function noticeOfDenial({ path, title }: NoticeTarget, denied: boolean, tag: string): PushNotice {
  const notice = noticeOfPush(JSON.stringify({ id: tag, path, title }));
  const body = denied ? "Denied." : "Not denied: it has ended, or the host cannot be reached. Open the page to see.";
  return { ...notice, options: { ...notice.options, body, actions: denied ? [] : notice.options.actions } };
}

function parseBody(text: string | undefined): PushBody {
  try {
    const parsed: unknown = JSON.parse(text ?? "");
    return typeof parsed === "object" && parsed !== null ? parsed : {};
  } catch {
    return {};
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** A path of this host; `//example.org` would be another one. */
function ownPath(value: unknown): string | undefined {
  return typeof value === "string" && /^\/(?![/\\])/.test(value) ? value : undefined;
}

function denyPathOf(value: unknown): string | undefined {
  return typeof value === "string" && /^\/notify\/deny\/[\w.~-]+$/.test(value) ? value : undefined;
}
