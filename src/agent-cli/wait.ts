import { onAbort } from '../stream/abort.ts';

/**
 * The value of the promise, or the signal's reason at once when that aborts first: then nobody waits
 * for the promise any more, and its failure is nobody's either.
 */
export async function raceAbort<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  // If the abort wins, the loser's rejection must not count as unhandled.
  promise.catch(() => {});
  let unlisten = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    unlisten = onAbort(signal, reject);
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    unlisten();
  }
}
