// Settings: of this browser, and what the host says about itself and who is signed in.

import { DeviceSettings } from "../parts/device_settings.tsx";
import { KeySettings } from "../parts/key_settings.tsx";
import { NoticeSettings } from "../parts/notice_settings.tsx";
import { RadioRow } from "../parts/remember_form.tsx";
import { preferences, setPreference } from "../preferences.ts";
import type { Density, ThemeName } from "../stored_preferences.ts";
import { clock, hostStatus } from "../store.ts";
import { age } from "../text.ts";
import { line } from "../visible.ts";

const themes: [ThemeName, string][] = [["system", "as the system"], ["light", "light"], ["dark", "dark"], ["contrast", "high contrast"]];
const densities: [Density, string][] = [["comfortable", "comfortable"], ["compact", "compact"]];

export function SettingsScreen() {
  return (
    <div class="screen-column">
      <header class="screen-head"><h1>Settings</h1></header>
      <div class="screen-scroll cards">
        <section class="card stack" aria-label="Appearance">
          <h2>Appearance <span class="muted small">in this browser</span></h2>
          <RadioRow legend="Theme" name="theme" choices={themes} value={preferences.value.theme} onChange={(theme) => setPreference("theme", theme)} />
          <RadioRow legend="Rows" name="density" choices={densities} value={preferences.value.density} onChange={(density) => setPreference("density", density)} />
          <label class="choice"><input type="checkbox" checked={preferences.value.formatted} onChange={(event) => setPreference("formatted", event.currentTarget.checked)} /> <span>Show texts of agents formatted</span></label>
        </section>
        <NoticeSettings />
        <DeviceSettings />
        <KeySettings />
        <HostFacts />
      </div>
    </div>
  );
}

const confirmWords = { always: "always", risky: "for asks with a warning", never: "never", unknown: "always" };

function HostFacts() {
  const status = hostStatus.value;
  if (!status) return null;
  const facts: [string, string | undefined][] = [
    ["Version", line(status.version)],
    ["Started", `${age(status.started_at, clock.value)} ago`],
    ["You", `${line(status.you.name)}, ${status.you.role}`],
    ["Address", status.web?.public_url ?? status.listen],
    ["Record", line(status.database)],
    ["Second act", status.decide_confirm && confirmWords[status.decide_confirm]],
  ];
  return (
    <section class="card stack" aria-label="Host">
      <h2>Host</h2>
      <dl class="facts">{facts.map(([word, value]) => value && <div key={word}><dt class="muted">{word}</dt><dd>{value}</dd></div>)}</dl>
    </section>
  );
}
