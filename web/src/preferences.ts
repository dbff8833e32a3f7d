// The preferences of this browser as a signal.

import { effect, signal } from "@preact/signals";
import { loadPreferences, type Preferences, showLook, STORAGE_KEY, writeStored } from "./stored_preferences.ts";

export const preferences = signal<Preferences>(loadPreferences());

export function setPreference<Key extends keyof Preferences>(key: Key, value: Preferences[Key]): void {
  preferences.value = { ...preferences.value, [key]: value };
  writeStored(STORAGE_KEY, preferences.value);
}

export function applyPreferences(): void {
  effect(() => showLook(preferences.value));
}
