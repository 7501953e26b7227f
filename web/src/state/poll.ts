/** A running poll; `stop` ends it. */
export interface Poll {
  /** Sends a request now, unless one is pending. */
  now(): void;
  stop(): void;
}

/**
 * Calls `request` every `everyMs` while the page is visible, and waits for one call before the
 * next. Overlapping calls would add load to a slow server, and an old response could replace a
 * newer one.
 */
export function pollInterval(
  request: () => Promise<void>,
  everyMs: number,
  isHidden = (): boolean => document.hidden,
): Poll {
  let isPending = false;
  const now = (): void => {
    if (isPending) return;
    isPending = true;
    // `request` reports its own failures. Any other error must not end the polling.
    request()
      .catch(() => {})
      .finally(() => (isPending = false));
  };
  const timer = setInterval(() => isHidden() || now(), everyMs);
  return { now, stop: () => clearInterval(timer) };
}
