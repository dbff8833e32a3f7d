// Calls that failed, in words.

import { describeRefusal } from "./answers.ts";
import { CallError } from "./wire.ts";

const UNKNOWN_METHOD = -32601;
const INVALID_PARAMS = -32602;

/** Whether the host lacks the method, or a field that the page sends with it. */
function isOlderHost(error: CallError): boolean {
  return error.code === UNKNOWN_METHOD || (error.code === INVALID_PARAMS && error.message.startsWith("unknown field"));
}

export function describeCallError(error: unknown): string {
  if (!(error instanceof CallError)) return String(error);
  if (isOlderHost(error)) return "The running host is older than this page and cannot do this.";
  if (error.kind === "lost") return "The connection was lost: it is not known whether the host took it. It is not sent again.";
  return describeRefusal(error);
}
