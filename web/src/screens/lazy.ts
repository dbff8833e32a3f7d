// The screens beside the inbox, as one part of the page that is loaded when the first of them is opened.

export { AgentScreen } from "./agent.tsx";
export { AgentsScreen } from "./agents.tsx";
export { RulesScreen } from "./rules.tsx";
export { SettingsScreen } from "./settings.tsx";
export { TimelineScreen } from "./timeline.tsx";
