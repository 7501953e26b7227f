import { DuolaneError } from '../../errors.ts';
import type { AgentStorage, Snapshot } from '../../event/types.ts';
import { CHECKPOINT_PREFIX } from '../log/checkpoints.ts';
import { getOwnTask } from '../log/own-task.ts';
import type { Claim, TaskLog } from '../types.ts';
import { pauseAfter, readWithRetry } from './retry-store.ts';

/**
 * What the agent of a run keeps with its task. Other tasks of the same caller can be read. A store
 * that cannot be reached is asked again while the run lasts, as for the events of the run: a short
 * failure of the database must not end it.
 */
export class RunStorage implements AgentStorage {
  readonly #log: TaskLog;
  readonly #claim: Claim;
  readonly #signal: AbortSignal;
  readonly #written: () => Promise<void>;

  /** `signal` aborts when the run stops; `written` resolves when what it has shown is durable. */
  constructor(log: TaskLog, claim: Claim, signal: AbortSignal, written: () => Promise<void>) {
    this.#log = log;
    this.#claim = claim;
    this.#signal = signal;
    this.#written = written;
  }

  // A value that is written twice is the same, so a write whose reply was lost may be repeated.
  async set(values: Readonly<Record<string, unknown>>): Promise<void> {
    const taken = Object.keys(values).find((key) => key.startsWith(CHECKPOINT_PREFIX));
    if (taken !== undefined)
      throw new DuolaneError(
        'invalid',
        `invalid key "${taken}" of a stored value: expected one that does not start with "${CHECKPOINT_PREFIX}"`,
      );
    // An agent that continues after a crash reads here how far it has come. What it had shown by
    // then must not be missing.
    await this.#written();
    for (let tries = 0; ; tries++) {
      try {
        return await this.#log.setValues(this.#claim, Object.entries(values));
      } catch (error) {
        await pauseAfter(error, tries, this.#signal);
      }
    }
  }

  list(
    prefix: string,
    task: Pick<Snapshot, 'task'> = this.#claim,
  ): AsyncGenerator<readonly [key: string, value: unknown], void> {
    return readWithRetry(
      () => this.#values(task.task, prefix),
      ([key]) => key,
      this.#signal,
    );
  }

  async *#values(
    task: string,
    prefix: string,
  ): AsyncGenerator<readonly [key: string, value: unknown], void> {
    const { owner, turns } = this.#claim.snapshot;
    const tenant = turns[0]?.tenant;
    if (task !== this.#claim.task && !(await getOwnTask(this.#log, task, { owner, tenant })))
      throw new DuolaneError('not_found', `task "${task}" not found; it may have been pruned`);
    for await (const value of this.#log.values(task, prefix))
      if (!value[0].startsWith(CHECKPOINT_PREFIX)) yield value;
  }
}
