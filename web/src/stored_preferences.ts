// What a person chose in this browser: theme, density, keys, notices. Kept in local storage and nowhere else.

export type ThemeName = "system" | "light" | "dark" | "contrast";
export type Density = "comfortable" | "compact";

export interface Preferences {
  theme: ThemeName;
  density: Density;
  /** Single letters act as commands. */
  letterKeys: boolean;
  /** Keys that were changed, by command id. */
  changedKeys: Record<string, string>;
  /** Texts of agents are shown formatted where that is possible. */
  formatted: boolean;
  notices: boolean;
  sound: boolean;
}

export const STORAGE_KEY = "countersign.preferences";

const defaults: Preferences = {
  theme: "system",
  density: "comfortable",
  letterKeys: true,
  changedKeys: {},
  formatted: false,
  notices: false,
  sound: false,
};

export function loadPreferences(): Preferences {
  return { ...defaults, ...(readStored(STORAGE_KEY) as Partial<Preferences> | undefined) };
}

/** What was stored under a key; nothing if it cannot be read. */
export function readStored(key: string): unknown {
  try {
    const text = localStorage.getItem(key);
    return text === null ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Stores a value. A full or forbidden storage loses it, which costs a preference and nothing else. */
export function writeStored(key: string, value: unknown): void {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    return;
  }
}

/** Sets the attributes that the style sheets look at. */
export function showLook({ theme, density }: Preferences): void {
  const { dataset } = document.documentElement;
  dataset.theme = theme;
  dataset.density = density;
}
