import { DuolaneError } from '../../errors.ts';
import { sleep } from '../../stream/abort.ts';
import type { Store } from '../store/store.ts';
import type { ActiveClaims } from './active-claims.ts';
import type { LiveTails } from './live-tail.ts';

const FIRST_PAUSE_MS = 50;

/** What a log needs to read the commits that its store did not announce. */
interface MissedCommits {
  readonly store: Store;
  readonly tails: LiveTails;
  readonly claims: ActiveClaims;
  /** Ends the attempts. */
  readonly signal: AbortSignal;
  readonly maxPauseMs: number;
}

/**
 * Reads what may have been missed, until it succeeds: the store does not announce it again. If the
 * store was given up, ends its readers and claims, and resolves to false.
 */
export async function readMissed(missed: MissedCommits): Promise<boolean> {
  const { store, tails, claims, signal, maxPauseMs } = missed;
  for (let failures = 0; !signal.aborted;) {
    try {
      await store.heads([]); // throws if the store was given up
      await tails.poll();
      await claims.beat();
      return true;
    } catch (error) {
      const failure = DuolaneError.from(error);
      if (!failure.retryable) {
        tails.close(failure);
        claims.close();
        return false;
      }
      const ms = Math.min(FIRST_PAUSE_MS * 2 ** failures++, maxPauseMs);
      await sleep(ms, signal).catch(() => {}); // the log is closed
    }
  }
  return false;
}
