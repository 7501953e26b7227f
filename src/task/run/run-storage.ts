import { DuolaneError } from '../../errors.ts';
import type { AgentStorage, Snapshot } from '../../event/types.ts';
import { sleep } from '../../stream/index.ts';
import { getOwnTask } from '../log/own-task.ts';
import type { Claim, TaskLog } from '../types.ts';

const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 5000;

/**
 * What the agent of a run keeps with its task. Other tasks of the same caller can be read. A store
 * that cannot be reached is asked again while the run lasts, as for the events of the run: a short
 * failure of the database must not end it.
 */
export class RunStorage implements AgentStorage {
  readonly #log: TaskLog;
  readonly #claim: Claim;
  readonly #signal: AbortSignal;

  /** `signal` aborts when the run stops. */
  constructor(log: TaskLog, claim: Claim, signal: AbortSignal) {
    this.#log = log;
    this.#claim = claim;
    this.#signal = signal;
  }

  // A value that is written twice is the same, so a write whose reply was lost may be repeated.
  async set(values: Readonly<Record<string, unknown>>): Promise<void> {
    for (let tries = 0; ; tries++) {
      try {
        return await this.#log.setValues(this.#claim, Object.entries(values));
      } catch (error) {
        await this.#pauseAfter(error, tries);
      }
    }
  }

  /** Waits before the store is asked again. Throws the error if that has no use. */
  async #pauseAfter(error: unknown, tries: number): Promise<void> {
    if (!DuolaneError.from(error).retryable || this.#signal.aborted) throw error;
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** tries, MAX_PAUSE_MS);
    await sleep(pauseMs, this.#signal).catch(() => {
      throw error; // the run stops
    });
  }

  async *list(
    prefix: string,
    { task }: Pick<Snapshot, 'task'> = this.#claim,
  ): AsyncGenerator<readonly [key: string, value: unknown], void> {
    const { owner, turns } = this.#claim.snapshot;
    const tenant = turns[0]?.tenant;
    if (task !== this.#claim.task && !(await getOwnTask(this.#log, task, { owner, tenant })))
      throw new DuolaneError('not_found', `task "${task}" not found; it may have been pruned`);
    for (let tries = 0, read = 0; ; tries++) {
      let skipped = 0;
      try {
        for await (const value of this.#log.values(task, prefix)) {
          if (skipped++ < read) continue; // it was yielded before the store failed
          read++;
          yield value;
        }
        return;
      } catch (error) {
        await this.#pauseAfter(error, tries);
      }
    }
  }
}
