// Short notices in a corner. They say what happened and never ask for a decision.

import { signal } from "@preact/signals";
import { announce } from "./live_region.tsx";

export interface Toast {
  id: number;
  text: string;
  tone?: "good" | "warn" | "bad";
  action?: { word: string; run(): void };
}

const SHOWN_MS = 6_000;
const TOASTS_MAX = 4;
const toasts = signal<Toast[]>([]);
let nextId = 1;

export function showToast(toast: Omit<Toast, "id">): void {
  const id = nextId++;
  toasts.value = [...toasts.value, { ...toast, id }].slice(-TOASTS_MAX);
  announce(toast.text);
  setTimeout(() => dismiss(id), SHOWN_MS);
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

export function Toasts() {
  return (
    <aside class="toasts" aria-label="Notices">
      <ul>
      {toasts.value.map((toast) => (
        <li key={toast.id} class={`notice fade-in ${toast.tone ?? ""}`}>
          <span class="grow">{toast.text}</span>
          {toast.action && (
            <button class="plain" onClick={() => { toast.action?.run(); dismiss(toast.id); }}>{toast.action.word}</button>
          )}
          <button class="plain" aria-label="Dismiss" onClick={() => dismiss(toast.id)}>×</button>
        </li>
      ))}
      </ul>
    </aside>
  );
}
