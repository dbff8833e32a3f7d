// A request about what is being typed, sent when the typing pauses. Only the reply to the latest text is kept.

import { useEffect, useRef, useState } from "preact/hooks";
import { describeCallError } from "../call_errors.ts";

const TYPING_PAUSE_MS = 250;

export type Delayed<Data> = { data?: Data; error?: string } | undefined;

/** Nothing is asked while the key is empty. */
export function useDelayed<Data>(key: string, load: () => Promise<Data>): Delayed<Data> {
  const [result, setResult] = useState<Delayed<Data>>(undefined);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    let current = true;
    setResult(undefined);
    const ask = () => latest.current().then(
      (data) => current && setResult({ data }),
      (failure: unknown) => current && setResult({ error: describeCallError(failure) }),
    );
    const timer = key === "" ? undefined : setTimeout(() => void ask(), TYPING_PAUSE_MS);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [key]);
  return result;
}
