import type { ComponentChildren, VNode } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

/** A modal: the browser keeps the focus in it, Escape closes it, and the focus goes back where it was. */
export function Dialog({
  title,
  onClose,
  children,
}: {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}): VNode {
  const element = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={element}
      aria-label={title}
      onClose={onClose}
      onClick={(event) => event.target === element.current && element.current?.close()}
    >
      <header>
        <h2>{title}</h2>
        <button type="button" onClick={() => element.current?.close()}>
          Close
        </button>
      </header>
      {children}
    </dialog>
  );
}
