import type { Logger } from '../event/types.ts';
import { settledWithin } from '../stream/abort.ts';
import type { TaskLog } from '../task/types.ts';

/** Whether the server can do its work now, or why not. */
export type Readiness = () => Promise<{ readonly ok: boolean }>;

/** How a log that knows it says whether its store takes writes. */
interface KnowsHealth {
  health?(options: { readonly timeoutMs: number }): Promise<{ readonly ok: boolean }>;
}

const TIMEOUT_MS = 2000;
const CACHE_MS = 1000;

/**
 * Asks the log whether its store works, at most once a second however many probes come. A log that
 * does not know is asked for a task that does not exist: a store that cannot answer this within two
 * seconds cannot answer a caller either.
 */
export function createReadiness(
  log: Pick<TaskLog, 'get'> & KnowsHealth,
  logger: Logger,
  timeoutMs: number = TIMEOUT_MS,
  cacheMs: number = CACHE_MS,
): Readiness {
  let known: { readonly at: number; readonly state: Promise<{ readonly ok: boolean }> } | undefined;
  let wasOk = true;
  const report = (ok: boolean, error = `no answer for ${timeoutMs} ms`): void => {
    if (ok !== wasOk && ok) logger.info('the task store answers again');
    if (ok !== wasOk && !ok)
      logger.error('the task store does not answer; /readyz is 503', { error });
    wasOk = ok;
  };
  const read = async (): Promise<{ readonly ok: boolean }> => {
    const found = log.get('duolane-readiness-probe');
    const answered = await settledWithin(found, timeoutMs);
    if (!answered) {
      found.catch(() => {}); // reported as late already
      report(false);
      return { ok: false };
    }
    return found.then(
      () => (report(true), { ok: true }),
      (error: unknown) => (report(false, String(error)), { ok: false }),
    );
  };
  return () => {
    if (!known || performance.now() - known.at > cacheMs) {
      const state = log.health ? log.health({ timeoutMs }) : read();
      known = { at: performance.now(), state };
    }
    return known.state;
  };
}
