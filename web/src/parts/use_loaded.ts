// Data that a screen reads from the host: loaded when shown, and again when its key changes or the link comes back.

import { useEffect, useRef, useState } from "preact/hooks";
import { describeCallError } from "../call_errors.ts";
import { isLive } from "../store.ts";

export interface Loaded<Data> {
  data: Data | undefined;
  error: string | undefined;
  loading: boolean;
  reload(): void;
}

/** Keeps the data of the last success while it loads again. */
export function useLoaded<Data>(key: string, load: () => Promise<Data>): Loaded<Data> {
  const [data, setData] = useState<{ key: string; value: Data } | undefined>(undefined);
  const [error, setError] = useState<string | undefined>(undefined);
  const [loading, setLoading] = useState(true);
  const [version, setVersion] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  const live = isLive.value;
  useEffect(() => {
    if (!live) return;
    let current = true;
    setLoading(true);
    latest.current().then((value) => {
      if (!current) return;
      setData({ key, value });
      setError(undefined);
    }, (failure: unknown) => {
      if (current) setError(describeCallError(failure));
    }).finally(() => {
      if (current) setLoading(false);
    });
    return () => {
      current = false;
    };
  }, [key, version, live]);
  return { data: data?.key === key ? data.value : undefined, error, loading, reload: () => setVersion((before) => before + 1) };
}
