export interface Poll {
  /** Asks now, unless an answer is still awaited. */
  now(): void;
  stop(): void;
}

/**
 * Asks again and again while the page is seen, one question at a time: a server that is slow is not
 * asked more often because of it, and no old answer comes after a newer one.
 */
export function pollInterval(
  ask: () => Promise<void>,
  everyMs: number,
  isHidden = (): boolean => document.hidden,
): Poll {
  let isAsking = false;
  const now = (): void => {
    if (isAsking) return;
    isAsking = true;
    // `ask` shows its own failures; whatever else it throws must not end the polling.
    ask()
      .catch(() => {})
      .finally(() => (isAsking = false));
  };
  const timer = setInterval(() => isHidden() || now(), everyMs);
  return { now, stop: () => clearInterval(timer) };
}
