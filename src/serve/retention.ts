import { DuolaneError } from '../errors.ts';
import type { Logger } from '../event/types.ts';
import type { TaskLog } from '../task/types.ts';
import { disposeOnce } from '../stream/dispose-once.ts';

/**
 * The longest delay of a timer. One with a longer delay fires immediately, so pruning never pauses.
 */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * How long tasks are kept after their end. Tasks that run or wait for a person are never deleted.
 */
export interface Retention {
  /**
   * Deletes a task with its blobs this long after its end. 30 days by default; `false` keeps all.
   */
  readonly tasksMs?: number | false;
  /**
   * Deletes the text deltas of a task this long after its end; the end of each block repeats the
   * text. A client can then no longer replay how the text was written. Off by default.
   */
  readonly deltasMs?: number;
  /** How often the server prunes. Every hour by default. */
  readonly everyMs?: number;
}

const DAY_MS = 24 * 60 * 60 * 1000;
const TASKS_MS = 30 * DAY_MS;
const EVERY_MS = 60 * 60 * 1000;
/** The delay of the first pruning, so that it does not compete with the start of the server. */
const FIRST_MS = 60_000;

/**
 * Prunes the log periodically until disposed. A failure is logged, and the next period tries again.
 */
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
  let pruning = Promise.resolve();
  let timer: NodeJS.Timeout;
  const closing = new AbortController();
  const { signal } = closing;
  const prune = async (): Promise<void> => {
    const now = Date.now();
    const count = await log.prune({
      signal,
      ...(tasksMs !== false && { tasksEndedBefore: now - tasksMs }),
      ...(deltasMs !== undefined && { deltasEndedBefore: now - deltasMs }),
    });
    if (count > 0) logger.info('pruned ended tasks', { count });
  };
  const wait = (ms: number): void => {
    if (signal.aborted) return;
    timer = setTimeout(
      () => {
        pruning = prune()
          .catch((error: unknown) => {
            if (!signal.aborted) logger.error('cannot prune ended tasks', { error: String(error) });
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
      await pruning;
    }),
  };
}
