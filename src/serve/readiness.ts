import type { Logger } from '../event/types.ts';
import type { LogHealth, TaskLog } from '../task/types.ts';

/** Whether the server can do its work now. */
export type Readiness = () => Promise<LogHealth>;

const TIMEOUT_MS = 2000;
const CACHE_MS = 1000;

/** Asks the log whether its store works, at most once a second however many probes come. */
export function createReadiness(
  log: Pick<TaskLog, 'health'>,
  logger: Logger,
  cacheMs: number = CACHE_MS,
): Readiness {
  let known: { readonly at: number; readonly state: Promise<LogHealth> } | undefined;
  let wasOk = true;
  const ask = async (): Promise<LogHealth> => {
    const state = await log.health({ timeoutMs: TIMEOUT_MS });
    if (state.ok !== wasOk && state.ok) logger.info('the task store answers again');
    if (state.ok !== wasOk && !state.ok)
      logger.error('the task store does not answer; /readyz is 503', { ...state.failure });
    wasOk = state.ok;
    return state;
  };
  return () => {
    if (!known || performance.now() - known.at > cacheMs)
      known = { at: performance.now(), state: ask() };
    return known.state;
  };
}
