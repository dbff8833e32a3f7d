import { render } from "preact";
import { App } from "./app.tsx";
import { startKeyboard } from "./keys.ts";
import { applyPreferences } from "./preferences.ts";
import { followHistory } from "./route.ts";
import { preloadScreens } from "./parts/lazy_screen.tsx";
import { hasSnapshot, startStore } from "./store.ts";
import { scriptAddress, serviceWorkerAddress } from "./trusted_types.ts";
import { startGuard } from "./guard_store.ts";
import { startPageNotices } from "./page_notices.ts";
import { startPresence } from "./presence.ts";
import { watchPageVersion } from "./page_version.ts";

/** After the first screen was drawn and nothing else is to be done. */
function whenIdle(run: () => void): void {
  const stop = hasSnapshot.subscribe((has) => {
    if (!has) return;
    queueMicrotask(() => stop());
    // Safari has no idle callbacks.
    if ("requestIdleCallback" in globalThis) requestIdleCallback(run, { timeout: 5_000 });
    else setTimeout(run, 1_000);
  });
}

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

whenIdle(() => void preloadScreens());

if ("serviceWorker" in navigator && isSecureContext) {
  // Without it the page works as well; only opening it without a network does not.
  navigator.serviceWorker.register(scriptAddress(serviceWorkerAddress)).catch(() => undefined);
}
