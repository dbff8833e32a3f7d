import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeKey, deviceName } from "../src/push.ts";

test("a push key is read from its web form", () => {
  assert.deepEqual([...decodeKey("-_8A")], [0xfb, 0xff, 0x00]);
});

test("a browser has a name that a person recognises", () => {
  assert.equal(deviceName("Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 Chrome/156.0 Mobile Safari/537.36"), "Chrome on Android");
  assert.equal(deviceName("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Safari/604.1"), "Safari on iPhone");
  assert.equal(deviceName("curl/8"), "Browser on another system");
});
