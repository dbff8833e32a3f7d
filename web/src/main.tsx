import { render } from "preact";
import { App } from "./app.tsx";
import { startKeyboard } from "./keys.ts";
import { applyPreferences } from "./preferences.ts";
import { followHistory } from "./route.ts";
import { startStore } from "./store.ts";
import { scriptAddress, serviceWorkerAddress } from "./trusted_types.ts";
import { startGuard } from "./guard_store.ts";
import { startPageNotices } from "./page_notices.ts";
import { startPresence } from "./presence.ts";
import { watchPageVersion } from "./page_version.ts";
import "./style/tokens.css";
import "./style/base.css";
import "./style/shell.css";
import "./style/parts.css";
import "./style/inbox.css";
import "./style/ask.css";
import "./style/screens.css";
import "./style/agents.css";
import "./style/agent.css";
import "./style/diff.css";
import "./style/settings.css";
import "./style/timeline.css";
import "./style/rules.css";
import "./style/terminals.css";

applyPreferences();
followHistory();
startStore();
startGuard();
startKeyboard();
startPageNotices();
startPresence();
watchPageVersion();

const root = document.getElementById("app");
// What stands there until the script runs.
root?.replaceChildren();
if (root) render(<App />, root);

if ("serviceWorker" in navigator && isSecureContext) {
  // Without it the page works as well; only opening it without a network does not.
  navigator.serviceWorker.register(scriptAddress(serviceWorkerAddress)).catch(() => undefined);
}
