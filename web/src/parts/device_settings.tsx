// Devices that are signed in: when they were last seen, and an end to their sign-in.

import { useState } from "preact/hooks";
import { call, canDecide, clock } from "../store.ts";
import { age, shortSpan } from "../text.ts";
import { line } from "../visible.ts";
import type { TokenRow } from "../wire_admin.ts";
import { showToast } from "./toasts.tsx";
import { useAction } from "./use_action.ts";
import { useLoaded } from "./use_loaded.ts";

export function DeviceSettings() {
  const { data: tokens, error, reload } = useLoaded("tokens", () => call("host.tokens", {}));
  const devices = tokens?.filter((row) => row.device) ?? [];
  const others = tokens?.filter((row) => !row.device) ?? [];
  return (
    <section class="card stack" aria-label="Devices">
      <h2>Devices</h2>
      {error && <p class="notice bad" role="alert">{error}</p>}
      {tokens && devices.length === 0 && <p class="muted small">No browser is listed.</p>}
      <ul class="rule-list">{devices.map((row) => <TokenItem key={row.id} row={row} onRevoked={reload} />)}</ul>
      <NewDevice />
      {others.length > 0 && (
        <details>
          <summary>Tokens of programs <span class="muted small">{others.length}</span></summary>
          <ul class="rule-list">{others.map((row) => <TokenItem key={row.id} row={row} onRevoked={reload} />)}</ul>
        </details>
      )}
    </section>
  );
}

function TokenItem({ row, onRevoked }: { row: TokenRow; onRevoked(): void }) {
  const [asked, setAsked] = useState(false);
  const action = useAction();
  const revoke = async () => {
    if (!(await action.run(() => call("host.revoke_token", { token_id: row.id })))) return;
    showToast({ text: `signed out ${line(row.device_name ?? row.name)}` });
    onRevoked();
  };
  return (
    <li class="rule-item">
      <div class="grow">
        <strong>{line(row.device_name ?? row.name)}</strong> {row.role !== "operator" && <span class="muted small">{line(row.role)}</span>}
        <p class="muted small">{tokenTexts(row, clock.value).join(" · ")}</p>
        {action.error && <p class="bad small" role="alert">{action.error}</p>}
      </div>
      {canDecide.value && !asked && <button onClick={() => setAsked(true)}>Sign out…</button>}
      {asked && <span class="row"><button onClick={() => setAsked(false)}>Keep</button><button class="bad" disabled={action.sending} onClick={() => void revoke()}>{action.sending ? "Sending…" : "Sign out"}</button></span>}
    </li>
  );
}

export function tokenTexts(row: TokenRow, now: number): string[] {
  const left = row.expires_at === undefined ? undefined : Date.parse(row.expires_at) - now;
  return [
    row.last_seen === undefined ? "" : `last seen ${age(row.last_seen, now)} ago`,
    `signed in ${age(row.created_at, now)} ago`,
    left === undefined ? "does not expire" : left > 0 ? `${shortSpan(left)} left` : "expired",
  ].filter(Boolean);
}

/** A link that signs in another device, once. */
function NewDevice() {
  const action = useAction();
  const [ticket, setTicket] = useState<{ url: string; expires_at: string } | undefined>(undefined);
  if (!canDecide.value) return null;
  const isOpen = ticket !== undefined && Date.parse(ticket.expires_at) > clock.value;
  return (
    <div class="stack">
      {!isOpen && <div><button disabled={action.sending} onClick={() => void action.run(async () => setTicket(await call("host.create_ticket", { phone: true })))}>Add a device…</button></div>}
      {isOpen && (
        <div class="notice">
          <div class="stack grow">
            <span>Open this on the other device within {shortSpan(Date.parse(ticket.expires_at) - clock.value)}. It works once, and whoever opens it can decide as you can.</span>
            <code class="login-link">{line(ticket.url)}</code>
          </div>
        </div>
      )}
      {action.error && <p class="notice bad" role="alert">{action.error}</p>}
    </div>
  );
}
