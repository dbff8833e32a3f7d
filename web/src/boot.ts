// Lets the browser paint the frame of the page before its code runs: on a slow processor that takes longer than all else.

import { loadPreferences, showLook } from "./stored_preferences.ts";
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

/** A tab in the background paints nothing, so the page does not wait for that. */
const PAINT_MAX_MS = 200;

showLook(loadPreferences());
const painted = new Promise<void>((resolve) => {
  requestAnimationFrame(() => setTimeout(resolve));
  setTimeout(resolve, document.visibilityState === "hidden" ? 0 : PAINT_MAX_MS);
});
void painted.then(() => import("./main.tsx"));
