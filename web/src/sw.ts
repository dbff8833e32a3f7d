// The service worker: keeps the shell, so that the page opens without a network, and never anything of the API; shows
// push messages.
//
// A new shell takes over on the next open, not in the middle of a decision.

import { noticeOfDenial, noticeOfPush, type NoticeTarget, type PushNotice } from "./push_notice.ts";

declare const SHELL_FILES: string[];
declare const SHELL_VERSION: string;

interface ExtendableEvent extends Event {
  waitUntil(promise: Promise<unknown>): void;
}
interface FetchEvent extends ExtendableEvent {
  request: Request;
  respondWith(response: Promise<Response>): void;
}
interface PushEvent extends ExtendableEvent {
  data: { text(): string } | null;
}
interface NotificationEvent extends ExtendableEvent {
  action: string;
  notification: Notification & { data: NoticeTarget };
}
interface WindowClient {
  focused: boolean;
  focus(): Promise<WindowClient>;
  postMessage(message: unknown): void;
}
declare const registration: ServiceWorkerRegistration;
declare const clients: {
  matchAll(options: { type: "window"; includeUncontrolled: boolean }): Promise<WindowClient[]>;
  openWindow(path: string): Promise<unknown>;
};

const cacheName = `shell-${SHELL_VERSION}`;

addEventListener("install", (event) => {
  (event as ExtendableEvent).waitUntil(caches.open(cacheName).then((cache) => cache.addAll(SHELL_FILES)));
});

addEventListener("activate", (event) => {
  (event as ExtendableEvent).waitUntil(deleteOldShells());
});

async function deleteOldShells(): Promise<void> {
  const names = await caches.keys();
  await Promise.all(names.filter((name) => name.startsWith("shell-") && name !== cacheName).map((name) => caches.delete(name)));
}

addEventListener("fetch", (event) => {
  const { request } = event as FetchEvent;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== location.origin) return;
  if (request.mode === "navigate" && isPage(url.pathname)) (event as FetchEvent).respondWith(loadPage());
  else if (SHELL_FILES.includes(url.pathname)) (event as FetchEvent).respondWith(loadFile(request));
});

function isPage(path: string): boolean {
  return path === "/" || /^\/(ask|agents|rules|timeline|insights|settings)(\/|$)/.test(path);
}

/**
 * The host's page if it answers, else the stored one: a page that is newer than the shell wins. Every address of the
 * page gives the same document. The request itself is not passed on: a link on another site would reach the host as a
 * request of that site, which is not a navigation any more, and be refused.
 */
async function loadPage(): Promise<Response> {
  try {
    return await fetch("/");
  } catch {
    return (await caches.match("/")) ?? Response.error();
  }
}

/** Names carry a hash of the content, so a stored file is the right one. */
async function loadFile(request: Request): Promise<Response> {
  return (await caches.match(request, { ignoreSearch: true })) ?? fetch(request);
}

addEventListener("push", (event) => {
  const { data } = event as PushEvent;
  (event as PushEvent).waitUntil(show(noticeOfPush(data?.text())));
});

addEventListener("notificationclick", (event) => {
  const { action, notification } = event as NotificationEvent;
  notification.close();
  const { data: target, tag } = notification;
  const denies = action === "deny" && target.denyPath !== undefined;
  (event as NotificationEvent).waitUntil(denies ? deny(target, tag) : openPage(target.path));
});

function show({ title, options }: PushNotice): Promise<void> {
  return registration.showNotification(title, options);
}

/** The address of the message denies its ask alone, and needs no login: none is sent along. */
async function deny(target: NoticeTarget, tag: string): Promise<void> {
  const reply = await fetch(target.denyPath ?? "", { method: "POST", credentials: "omit" }).catch(() => undefined);
  await show(noticeOfDenial(target, reply?.ok === true, tag));
}

/** Shows a path in a page that is open already, so that what was typed there stays; else in a new one. */
async function openPage(path: string): Promise<void> {
  const pages = await clients.matchAll({ type: "window", includeUncontrolled: true });
  const page = pages.find((other) => other.focused) ?? pages[0];
  if (page === undefined) {
    await clients.openWindow(path);
    return;
  }
  page.postMessage({ open: path });
  await page.focus();
}
