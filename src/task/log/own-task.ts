import type { Snapshot } from '../../event/types.ts';
import type { TaskLog } from '../types.ts';

/** The caller whose tasks are meant. `agent` and `tenant` are compared only if they are given. */
export interface TaskScope {
  readonly owner: string | undefined;
  readonly agent?: string;
  /** Given as undefined it means tasks without a tenant. */
  readonly tenant?: string | undefined;
}

/** Whether a task is the caller's own. */
export const isOwnTask = ({ agent, owner, turns }: Snapshot, scope: TaskScope): boolean =>
  owner === scope.owner &&
  (scope.agent === undefined || agent === scope.agent) &&
  (!('tenant' in scope) || turns[0]?.tenant === scope.tenant);

/** Reads a task of the caller. A task of another owner is undefined, as if it did not exist. */
export async function getOwnTask(
  log: Pick<TaskLog, 'get'>,
  task: string,
  scope: TaskScope,
): Promise<Snapshot | undefined> {
  const snapshot = await log.get(task);
  return snapshot && isOwnTask(snapshot, scope) ? snapshot : undefined;
}
