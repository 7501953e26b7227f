import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

export interface VirtualRows {
  readonly ref: RefObject<HTMLDivElement | null>;
  /** The rows to draw: from `first` up to, but without, `end`. */
  readonly first: number;
  readonly end: number;
  /** How many rows fit into the element. */
  readonly page: number;
  /** Scrolls so far that the row is visible. */
  readonly reveal: (row: number) => void;
}

const EXTRA_ROWS = 10;

/**
 * The visible rows of a long list of equal heights, so that only those are in the document. The
 * list follows its end while the end is visible.
 */
export function useVirtualRows(count: number, rowPx: number, isFollowing: boolean): VirtualRows {
  const ref = useRef<HTMLDivElement>(null);
  const [visible, setVisible] = useState({ top: 0, height: 600 });
  const atEnd = useRef(true);

  useEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const measure = (): void => {
      atEnd.current = element.scrollTop + element.clientHeight >= element.scrollHeight - rowPx;
      setVisible((was) =>
        was.top === element.scrollTop && was.height === element.clientHeight
          ? was
          : { top: element.scrollTop, height: element.clientHeight },
      );
    };
    measure();
    element.addEventListener('scroll', measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => {
      element.removeEventListener('scroll', measure);
      observer.disconnect();
    };
  }, []);

  useLayoutEffect(() => {
    const element = ref.current;
    if (element && isFollowing && atEnd.current) element.scrollTop = element.scrollHeight;
  }, [count, isFollowing]);

  return {
    ref,
    first: Math.max(0, Math.floor(visible.top / rowPx) - EXTRA_ROWS),
    end: Math.min(count, Math.ceil((visible.top + visible.height) / rowPx) + EXTRA_ROWS),
    page: Math.max(1, Math.floor(visible.height / rowPx) - 1),
    reveal(row) {
      const element = ref.current;
      if (!element) return;
      const top = row * rowPx;
      if (top < element.scrollTop) element.scrollTop = top;
      else if (top + rowPx > element.scrollTop + element.clientHeight)
        element.scrollTop = top + rowPx - element.clientHeight;
    },
  };
}
