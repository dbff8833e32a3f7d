// Push messages to this browser: asks the browser for a subscription and gives it to the host.

import { readStored, writeStored } from "./stored_preferences.ts";
import { call } from "./store.ts";

const STORAGE_KEY = "countersign.push";

/** Why this browser cannot have push messages; nothing if it can. */
export function whyNoPush(pushKey: string | undefined): string | undefined {
  if (pushKey === undefined) return "The host has no push messages.";
  if (!isSecureContext) return "Browsers allow push messages only over HTTPS or on this machine.";
  if (!("serviceWorker" in navigator) || !("PushManager" in globalThis)) return "This browser has no push messages. On an iPhone, add the page to the home screen first.";
  return undefined;
}

/** The id of this browser's subscription, if it has one. */
export function pushId(): string | undefined {
  const stored = readStored(STORAGE_KEY);
  return typeof stored === "string" ? stored : undefined;
}

/** The browser asks the person; nothing is subscribed without a yes. */
export async function enablePush(pushKey: string): Promise<void> {
  if ((await Notification.requestPermission()) !== "granted") throw new Error("The browser does not allow notifications for this page.");
  const { pushManager } = await navigator.serviceWorker.ready;
  const subscription = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: decodeKey(pushKey) });
  const { endpoint, keys } = subscription.toJSON();
  const { id } = await call("host.push_subscribe", { endpoint: endpoint ?? "", p256dh: keys?.p256dh ?? "", auth: keys?.auth ?? "", device: deviceName(navigator.userAgent) });
  writeStored(STORAGE_KEY, id);
}

export async function disablePush(): Promise<void> {
  const id = pushId();
  if (id !== undefined) await call("host.push_unsubscribe", { id });
  writeStored(STORAGE_KEY, null);
  const { pushManager } = await navigator.serviceWorker.ready;
  await (await pushManager.getSubscription())?.unsubscribe();
}

/** Base 64 as push services write it, in bytes. */
export function decodeKey(text: string): Uint8Array<ArrayBuffer> {
  const padded = text.replaceAll("-", "+").replaceAll("_", "/");
  const decoded = atob(padded);
  const bytes = new Uint8Array(decoded.length);
  for (let index = 0; index < decoded.length; index++) bytes[index] = decoded.charCodeAt(index);
  return bytes;
}

const browsers: [RegExp, string][] = [[/Edg\//, "Edge"], [/Firefox\//, "Firefox"], [/Chrome\//, "Chrome"], [/Safari\//, "Safari"]];
const systems: [RegExp, string][] = [[/iPhone/, "iPhone"], [/iPad/, "iPad"], [/Android/, "Android"], [/Mac OS/, "Mac"], [/Windows/, "Windows"], [/Linux/, "Linux"]];

/** A name for this browser that a person recognises. */
export function deviceName(userAgent: string): string {
  const find = (rows: [RegExp, string][], otherwise: string) => rows.find(([pattern]) => pattern.test(userAgent))?.[1] ?? otherwise;
  return `${find(browsers, "Browser")} on ${find(systems, "another system")}`;
}
