// Notifications: of this browser, and of the channels that the host was given.

import { useState } from "preact/hooks";
import { askForNotices } from "../page_notices.ts";
import { preferences, setPreference } from "../preferences.ts";
import { disablePush, enablePush, pushId, whyNoPush } from "../push.ts";
import { playTone } from "../sound.ts";
import { call, clock } from "../store.ts";
import { age } from "../text.ts";
import { line } from "../visible.ts";
import type { NotifyChannel } from "../wire_admin.ts";
import { useAction } from "./use_action.ts";
import { useLoaded } from "./use_loaded.ts";

export function NoticeSettings() {
  const { data, error, reload } = useLoaded("notify", () => call("host.notify_status", {}));
  return (
    <section class="card stack" aria-label="Notifications">
      <h2>Notifications</h2>
      <BrowserNotices />
      <label class="choice"><input type="checkbox" checked={preferences.value.sound} onChange={(event) => chooseSound(event.currentTarget.checked)} /> <span>A sound when something new waits</span></label>
      {error ? <p class="muted small">{error}</p> : <PushSwitch pushKey={data?.push_key} />}
      {data && <Channels channels={data.channels} onTested={reload} />}
    </section>
  );
}

/** The tone is played once when it is switched on, so that a person knows it. */
function chooseSound(wanted: boolean): void {
  setPreference("sound", wanted);
  if (wanted) playTone();
}

function BrowserNotices() {
  const [refused, setRefused] = useState(false);
  const change = async (wanted: boolean) => {
    if (!wanted) return setPreference("notices", false);
    setRefused(!(await askForNotices()));
  };
  return (
    <div>
      <label class="choice"><input type="checkbox" checked={preferences.value.notices} onChange={(event) => void change(event.currentTarget.checked)} /> <span>Notices while this page is open but not in front</span></label>
      {refused && <p class="warn small">The browser does not allow notifications for this page. Its settings can change that.</p>}
    </div>
  );
}

function PushSwitch({ pushKey }: { pushKey: string | undefined }) {
  const [enabled, setEnabled] = useState(pushId() !== undefined);
  const action = useAction();
  const why = whyNoPush(pushKey);
  if (why !== undefined || pushKey === undefined) return <p class="muted small">Push to this device: {why}</p>;
  const change = async (wanted: boolean) => {
    if (await action.run(() => (wanted ? enablePush(pushKey) : disablePush()))) setEnabled(wanted);
  };
  return (
    <div>
      <label class="choice">
        <input type="checkbox" checked={enabled} disabled={action.sending} onChange={(event) => void change(event.currentTarget.checked)} />
        <span>{action.sending ? "Asking the browser…" : "Push to this device, also when the page is closed"}</span>
      </label>
      {action.error && <p class="bad small" role="alert">{action.error.replace(/^\w*Error: /, "")}</p>}
    </div>
  );
}

const channelWords: Record<NotifyChannel["kind"], string> = { command: "command", ntfy: "ntfy", webhook: "webhook", push: "push", unknown: "other" };

function Channels({ channels, onTested }: { channels: NotifyChannel[]; onTested(): void }) {
  const action = useAction();
  const [results, setResults] = useState<{ name: string; ok: boolean; error?: string }[]>([]);
  if (channels.length === 0) return <p class="muted small">The host tells nobody else. <code>[notify]</code> in <code>config.toml</code> adds a command, ntfy or webhooks.</p>;
  const test = () => action.run(async () => {
    setResults((await call("host.notify_test", {}, 60_000)).results);
    onTested();
  });
  return (
    <div class="stack">
      <ul class="rule-list">
        {channels.map((channel) => {
          const result = results.find((row) => row.name === channel.name);
          return (
            <li key={channel.name} class="rule-item">
              <span class="grow"><strong>{line(channel.name)}</strong> <span class="muted small">{channelWords[channel.kind] ?? line(channel.kind)}</span></span>
              <ChannelState channel={channel} />
              {result && <span class={`small nowrap ${result.ok ? "good" : "bad"}`}>{result.ok ? "✓ test sent" : `✕ ${line(result.error ?? "failed")}`}</span>}
            </li>
          );
        })}
      </ul>
      <div><button disabled={action.sending} onClick={() => void test()}>{action.sending ? "Sending…" : "Send a test to all"}</button></div>
      {action.error && <p class="notice bad" role="alert">{action.error}</p>}
    </div>
  );
}

function ChannelState({ channel }: { channel: NotifyChannel }) {
  if (channel.last_error) return <span class="bad small">✕ last time: {line(channel.last_error)}</span>;
  if (channel.last_ok) return <span class="muted small">✓ {age(channel.last_ok, clock.value)} ago</span>;
  return <span class="muted small">not used yet</span>;
}
