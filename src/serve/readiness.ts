import type { Logger } from '../event/types.ts';
import type { LogHealth, TaskLog } from '../task/types.ts';

/** Checks whether the server can handle requests now. */
export type Readiness = () => Promise<LogHealth>;

/** A store that needs longer counts as down; probes of orchestrators give up soon after this. */
const TIMEOUT_MS = 2000;
/** How long one result is reused, so that many probes do not add load to a slow store. */
const CACHE_MS = 1000;

/**
 * Checks the health of the log's store, at most once per `cacheMs` however many probes arrive. Logs
 * only changes: a probe every second must not fill the log.
 */
export function createReadiness(
  log: Pick<TaskLog, 'health'>,
  logger: Logger,
  cacheMs: number = CACHE_MS,
): Readiness {
  let known: { readonly at: number; readonly state: Promise<LogHealth> } | undefined;
  let wasOk = true;
  const ask = async (): Promise<LogHealth> => {
    const state = await log.health({ timeoutMs: TIMEOUT_MS });
    if (state.ok !== wasOk && state.ok) logger.info('the task store responds again');
    if (state.ok !== wasOk && !state.ok)
      logger.error('the task store does not respond; /readyz is 503', { ...state.failure });
    wasOk = state.ok;
    return state;
  };
  return () => {
    if (!known || performance.now() - known.at > cacheMs)
      known = { at: performance.now(), state: ask() };
    return known.state;
  };
}
