// Paths and what they show. Pure, except for `navigate` and `currentRoute`.

import { signal } from "@preact/signals";

export type Route =
  | { screen: "inbox"; askId?: string }
  | { screen: "agents" }
  | { screen: "agent"; agentId: string; tab: "transcript" | "diff" | "terminals" }
  | { screen: "rules" }
  | { screen: "timeline"; sequence?: number }
  | { screen: "insights" }
  | { screen: "settings" }
  | { screen: "unknown"; path: string };

export function parseRoute(path: string, query = ""): Route {
  const [first = "", second = "", third = "", ...rest] = path.split("/").filter(Boolean).map(decodePart);
  if (rest.length > 0) return { screen: "unknown", path };
  switch (first) {
    case "":
      return { screen: "inbox" };
    case "ask":
      return second && !third ? { screen: "inbox", askId: second } : { screen: "unknown", path };
    case "agents":
      return parseAgentRoute(path, second, third);
    case "timeline": {
      const sequence = Number(new URLSearchParams(query).get("at") ?? NaN);
      return Number.isSafeInteger(sequence) ? { screen: "timeline", sequence } : { screen: "timeline" };
    }
    case "rules":
    case "insights":
    case "settings":
      return second ? { screen: "unknown", path } : { screen: first };
    default:
      return { screen: "unknown", path };
  }
}

function parseAgentRoute(path: string, agentId: string, tab: string): Route {
  if (!agentId) return { screen: "agents" };
  if (tab === "") return { screen: "agent", agentId, tab: "transcript" };
  if (tab === "diff" || tab === "terminals") return { screen: "agent", agentId, tab };
  return { screen: "unknown", path };
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function formatRoute(route: Route): string {
  switch (route.screen) {
    case "inbox":
      return route.askId ? `/ask/${encodeURIComponent(route.askId)}` : "/";
    case "agent": {
      const base = `/agents/${encodeURIComponent(route.agentId)}`;
      return route.tab === "transcript" ? base : `${base}/${route.tab}`;
    }
    case "timeline":
      return route.sequence === undefined ? "/timeline" : `/timeline?at=${route.sequence}`;
    case "unknown":
      return route.path;
    default:
      return `/${route.screen}`;
  }
}

export const currentRoute = signal<Route>({ screen: "inbox" });

/** Shows a route. `replace` keeps the history short where a person only moves through a list. */
export function navigate(route: Route, how: "push" | "replace" = "push"): void {
  const path = formatRoute(route);
  if (how === "push") history.pushState(null, "", path);
  else history.replaceState(null, "", path);
  currentRoute.value = route;
}

export function followHistory(): void {
  const read = () => {
    currentRoute.value = parseRoute(location.pathname, location.search);
  };
  read();
  addEventListener("popstate", read);
}
