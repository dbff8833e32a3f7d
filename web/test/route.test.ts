import assert from "node:assert/strict";
import { test } from "node:test";
import { formatRoute, parseRoute, type Route } from "../src/route.ts";

const routes: [string, Route][] = [
  ["/", { screen: "inbox" }],
  ["/ask/approval-1", { screen: "inbox", askId: "approval-1" }],
  ["/agents", { screen: "agents" }],
  ["/agents/a%2Fb", { screen: "agent", agentId: "a/b", tab: "transcript" }],
  ["/agents/a/diff", { screen: "agent", agentId: "a", tab: "diff" }],
  ["/agents/a/terminals", { screen: "agent", agentId: "a", tab: "terminals" }],
  ["/rules", { screen: "rules" }],
  ["/timeline", { screen: "timeline" }],
  ["/settings", { screen: "settings" }],
  ["/nothing/here", { screen: "unknown", path: "/nothing/here" }],
  ["/agents/a/b/c", { screen: "unknown", path: "/agents/a/b/c" }],
];

test("a path and its route stand for each other", () => {
  for (const [path, route] of routes) {
    assert.deepEqual(parseRoute(path), route);
    assert.equal(formatRoute(route), path);
  }
});

test("a place in the timeline is in the query", () => {
  assert.deepEqual(parseRoute("/timeline", "?at=42"), { screen: "timeline", sequence: 42 });
  assert.deepEqual(parseRoute("/timeline", "?at=x"), { screen: "timeline" });
});
