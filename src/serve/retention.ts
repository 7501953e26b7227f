import { DuolaneError } from '../errors.ts';
import type { Logger } from '../event/types.ts';
import type { TaskLog } from '../task/types.ts';
import { disposeOnce } from '../stream/dispose-once.ts';

/** A timer with a longer time fires at once, and pruning would never pause. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** How long tasks are kept after their end. Tasks that run or wait are never deleted. */
export interface Retention {
  /** A task is deleted so long after its end, with its blobs. 30 days by default; `false` keeps all. */
  readonly tasksMs?: number | false;
  /**
   * Of a task that ended so long ago, the pieces of text are deleted that the end of their block
   * repeats; a client can no longer replay how it was written. Off by default.
   */
  readonly deltasMs?: number;
  /** How often to look. Every hour by default. */
  readonly everyMs?: number;
}

const DAY_MS = 24 * 60 * 60 * 1000;
const TASKS_MS = 30 * DAY_MS;
const EVERY_MS = 60 * 60 * 1000;
/** The first look waits: a server that has just started has better things to do. */
const FIRST_MS = 60_000;

/** Prunes the log again and again, until it is disposed. A look that fails is logged, and the next one tries again. */
export function startRetention(
  log: Pick<TaskLog, 'prune'>,
  retention: Retention | false = {},
  logger: Logger,
): AsyncDisposable {
  const { tasksMs = TASKS_MS, deltasMs, everyMs = EVERY_MS } = retention || { tasksMs: false };
  for (const [name, value] of Object.entries({ tasksMs, deltasMs, everyMs }))
    if (value !== undefined && value !== false && !(value > 0))
      throw new DuolaneError(
        'invalid',
        `invalid retention.${name} "${value}": expected a positive number of ms`,
      );
  if (tasksMs === false && deltasMs === undefined) return { async [Symbol.asyncDispose]() {} };
  let looking = Promise.resolve();
  let timer: NodeJS.Timeout;
  const closing = new AbortController();
  const { signal } = closing;
  const look = async (): Promise<void> => {
    const now = Date.now();
    const count = await log.prune({
      signal,
      ...(tasksMs !== false && { tasksEndedBefore: now - tasksMs }),
      ...(deltasMs !== undefined && { deltasEndedBefore: now - deltasMs }),
    });
    if (count > 0) logger.info('ended tasks were pruned', { count });
  };
  const wait = (ms: number): void => {
    if (signal.aborted) return;
    timer = setTimeout(
      () => {
        looking = look()
          .catch((error: unknown) => {
            if (!signal.aborted)
              logger.error('ended tasks cannot be pruned', { error: String(error) });
          })
          .finally(() => wait(everyMs));
      },
      Math.min(ms, MAX_TIMER_MS),
    );
    timer.unref();
  };
  wait(Math.min(FIRST_MS, everyMs));
  return {
    [Symbol.asyncDispose]: disposeOnce(async () => {
      closing.abort();
      clearTimeout(timer);
      await looking;
    }),
  };
}
