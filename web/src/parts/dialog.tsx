// A modal dialog over the native element, which keeps focus inside and gives it back.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { openDialogs } from "../keys.ts";

interface DialogProps {
  title: string;
  onClose(): void;
  children: ComponentChildren;
  /** A wide dialog takes more of the screen. */
  wide?: boolean;
}

export function Dialog({ title, onClose, children, wide }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    element.current?.showModal();
    // Where nothing asks for focus, the dialog itself has it: not the button that closes it.
    if (!element.current?.querySelector("[autofocus]")) element.current?.focus();
    openDialogs.value++;
    return () => {
      openDialogs.value--;
    };
  }, []);
  return (
    <dialog ref={element} class={wide ? "wide" : ""} tabIndex={-1} aria-label={title} onClose={onClose} onCancel={(event) => { event.preventDefault(); onClose(); }}>
      <header class="row spread">
        <h2>{title}</h2>
        <button class="plain" aria-label="Close" onClick={onClose}>×</button>
      </header>
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}
