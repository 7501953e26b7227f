import { DuolaneError } from '../../errors.ts';
import { sleep } from '../../stream/index.ts';

const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 5000;

/**
 * Waits before a store that failed is asked again; the pauses grow with `tries`. Throws the error
 * if that has no use: the store refused, or the run stops.
 */
export async function pauseAfter(
  error: unknown,
  tries: number,
  signal: AbortSignal,
): Promise<void> {
  if (!DuolaneError.from(error).retryable || signal.aborted) throw error;
  const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** tries, MAX_PAUSE_MS);
  await sleep(pauseMs, signal).catch(() => {
    throw error; // the run stops
  });
}

/** Reads a list from a store that may fail for a while. An item is yielded once, by its key. */
export async function* readWithRetry<T>(
  read: () => AsyncIterable<T>,
  keyOf: (item: T) => string,
  signal: AbortSignal,
): AsyncGenerator<T, void> {
  const seen = new Set<string>();
  for (let tries = 0; ; tries++) {
    try {
      for await (const item of read()) {
        const key = keyOf(item);
        if (seen.has(key)) continue;
        seen.add(key);
        yield item;
      }
      return;
    } catch (error) {
      await pauseAfter(error, tries, signal);
    }
  }
}
