// Calls that failed, in words.

import { describeRefusal } from "./answers.ts";
import { CallError } from "./wire.ts";

const UNKNOWN_METHOD = -32601;

export function isUnknownMethod(error: unknown): boolean {
  return error instanceof CallError && error.code === UNKNOWN_METHOD;
}

export function describeCallError(error: unknown): string {
  if (!(error instanceof CallError)) return String(error);
  if (isUnknownMethod(error)) return "The running host is older than this page and cannot do this.";
  if (error.kind === "lost") return "The connection was lost: it is not known whether the host took it. It is not sent again.";
  return describeRefusal(error);
}
