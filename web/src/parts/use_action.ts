// A request that a button sends: nothing is shown as done before the host's reply.

import { useState } from "preact/hooks";
import { describeCallError } from "../call_errors.ts";

export interface Action {
  sending: boolean;
  /** Why the last one failed. */
  error: string | undefined;
  /** Runs a request unless one is under way, and says whether it succeeded. */
  run(request: () => Promise<unknown>): Promise<boolean>;
}

export function useAction(): Action {
  const [sending, setSending] = useState(false);
  const [error, setError] = useState<string | undefined>(undefined);
  const run = async (request: () => Promise<unknown>) => {
    if (sending) return false;
    setSending(true);
    setError(undefined);
    try {
      await request();
      return true;
    } catch (failure) {
      setError(describeCallError(failure));
      return false;
    } finally {
      setSending(false);
    }
  };
  return { sending, error, run };
}
