// A screen whose code is loaded when it is first opened, so that the inbox does not wait for it.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

const loaders: (() => Promise<void>)[] = [];

/** Loads the code of all screens before one is opened. What fails is tried again when it is. */
export async function preloadScreens(): Promise<void> {
  await Promise.allSettled(loaders.map((load) => load()));
}

/** A component that loads another one and then draws it. */
export function lazyScreen<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  let loaded: ComponentType<Props> | undefined;
  const ensureLoaded = async () => {
    loaded ??= await load();
  };
  loaders.push(ensureLoaded);
  return function LazyScreen(props: Props) {
    const [failed, setFailed] = useState(false);
    const [, setVersion] = useState(0);
    useEffect(() => {
      if (!loaded) ensureLoaded().then(() => setVersion(1), () => setFailed(true));
    }, []);
    if (loaded) {
      const Loaded = loaded;
      return <Loaded {...props} />;
    }
    if (!failed) return <p class="empty muted">Loading…</p>;
    // A host that was updated has other files, and the page knows the names of the old ones.
    return (
      <div class="empty" role="alert">
        <p>This screen could not be loaded.</p>
        <button onClick={() => location.reload()}>Reload the page</button>
      </div>
    );
  };
}
