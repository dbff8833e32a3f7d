// Which screens there are: their word, icon, command and component. Navigation and palette are made from it.

import type { ComponentChild } from "preact";
import type { IconName } from "./parts/icon.tsx";
import { lazyScreen } from "./parts/lazy_screen.tsx";
import type { Route } from "./route.ts";
import { InboxScreen } from "./screens/inbox.tsx";

export interface ScreenRow {
  /** The routes it draws. */
  routes: Route["screen"][];
  /** Where the link in the navigation leads. */
  home: Route;
  word: string;
  icon: IconName;
  command: string;
  draw(route: Route): ComponentChild;
}

const AgentsScreen = lazyScreen(async () => (await import("./screens/lazy.ts")).AgentsScreen);
const AgentScreen = lazyScreen(async () => (await import("./screens/lazy.ts")).AgentScreen);
const RulesScreen = lazyScreen(async () => (await import("./screens/lazy.ts")).RulesScreen);
const TimelineScreen = lazyScreen(async () => (await import("./screens/lazy.ts")).TimelineScreen);
const SettingsScreen = lazyScreen(async () => (await import("./screens/lazy.ts")).SettingsScreen);

export const screens: readonly ScreenRow[] = [
  { routes: ["inbox"], home: { screen: "inbox" }, word: "Inbox", icon: "inbox", command: "go.inbox", draw: (route) => <InboxScreen askId={route.screen === "inbox" ? route.askId : undefined} /> },
  { routes: ["agents", "agent"], home: { screen: "agents" }, word: "Agents", icon: "agents", command: "go.agents", draw: (route) => (route.screen === "agent" ? <AgentScreen agentId={route.agentId} tab={route.tab} /> : <AgentsScreen />) },
  { routes: ["rules"], home: { screen: "rules" }, word: "Rules", icon: "rules", command: "go.rules", draw: () => <RulesScreen /> },
  { routes: ["timeline"], home: { screen: "timeline" }, word: "Timeline", icon: "activity", command: "go.timeline", draw: (route) => <TimelineScreen sequence={route.screen === "timeline" ? route.sequence : undefined} /> },
  { routes: ["settings"], home: { screen: "settings" }, word: "Settings", icon: "settings", command: "go.settings", draw: () => <SettingsScreen /> },
];
