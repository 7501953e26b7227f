import { DuolaneError } from '../../errors.ts';
import type { AgentStorage, Snapshot } from '../../event/types.ts';
import { CHECKPOINT_PREFIX } from '../log/checkpoints.ts';
import { getOwnTask } from '../log/own-task.ts';
import type { Claim, TaskLog } from '../types.ts';

/** What the agent of a run keeps with its task. Other tasks of the same caller can be read. */
export class RunStorage implements AgentStorage {
  readonly #log: TaskLog;
  readonly #claim: Claim;

  constructor(log: TaskLog, claim: Claim) {
    this.#log = log;
    this.#claim = claim;
  }

  set(values: Readonly<Record<string, unknown>>): Promise<void> {
    const taken = Object.keys(values).find((key) => key.startsWith(CHECKPOINT_PREFIX));
    if (taken !== undefined)
      return Promise.reject(
        new DuolaneError(
          'invalid',
          `invalid key "${taken}" of a stored value: expected one that does not start with "${CHECKPOINT_PREFIX}"`,
        ),
      );
    return this.#log.setValues(this.#claim, Object.entries(values));
  }

  async *list(
    prefix: string,
    { task }: Pick<Snapshot, 'task'> = this.#claim,
  ): AsyncGenerator<readonly [key: string, value: unknown], void> {
    const { owner, turns } = this.#claim.snapshot;
    const tenant = turns[0]?.tenant;
    if (task !== this.#claim.task && !(await getOwnTask(this.#log, task, { owner, tenant })))
      throw new DuolaneError('not_found', `task "${task}" not found; it may have been pruned`);
    for await (const value of this.#log.values(task, prefix))
      if (!value[0].startsWith(CHECKPOINT_PREFIX)) yield value;
  }
}
