import assert from "node:assert/strict";
import { test } from "node:test";
import { noticeOfDenial, noticeOfPush } from "../src/push_notice.ts";

const body = {
  id: "evt_7", kind: "approval.requested", title: "fix asks: Bash", text: "cargo test", path: "/ask/approval-1",
  deny_path: "/notify/deny/SECRET-1_x", subject: "approval-1", waits: true,
};

test("a push about an ask can be denied and opened", () => {
  assert.deepEqual(noticeOfPush(JSON.stringify(body)), {
    title: "fix asks: Bash",
    options: {
      body: "cargo test", tag: "approval-1", icon: "/icons/icon-192.png", badge: "/icons/icon-192.png", requireInteraction: true,
      actions: [{ action: "deny", title: "Deny" }, { action: "open", title: "Open" }],
      data: { path: "/ask/approval-1", denyPath: "/notify/deny/SECRET-1_x", title: "fix asks: Bash" },
    },
  });
});

test("no push offers to allow, whatever it says", () => {
  const hostile = { ...body, allow_path: "/notify/allow/x", actions: [{ action: "allow", title: "Allow" }], deny_path: "/api/v1/approvals/approval-1/allow" };
  assert.deepEqual(noticeOfPush(JSON.stringify(hostile)).options.actions, [{ action: "open", title: "Open" }]);
});

test("an address outside of this host leads to the inbox", () => {
  const paths = ["//example.org/", "/\\example.org", "https://example.org", 7, undefined].map((path) => noticeOfPush(JSON.stringify({ ...body, path })).options.data.path);
  assert.deepEqual(paths, ["/", "/", "/", "/", "/"]);
});

test("a push that cannot be read is told without its content", () => {
  const { title, options } = noticeOfPush("not JSON");
  assert.deepEqual([title, options.body, options.data], ["Countersign", "Open the page to see what is new.", { path: "/", denyPath: undefined, title: "Countersign" }]);
  assert.deepEqual(["null", "3", undefined].map((text) => noticeOfPush(text)), [noticeOfPush(""), noticeOfPush(""), noticeOfPush("")]);
});

test("what became of a denial replaces the notification", () => {
  const target = { path: "/ask/approval-1", denyPath: "/notify/deny/x", title: "fix asks: Bash" };
  const [denied, failed] = [true, false].map((done) => noticeOfDenial(target, done, "approval-1").options);
  assert.deepEqual([denied?.tag, denied?.body, denied?.actions], ["approval-1", "Denied.", []]);
  assert.deepEqual([failed?.tag, failed?.actions, failed?.data.path], ["approval-1", [{ action: "open", title: "Open" }], "/ask/approval-1"]);
});
