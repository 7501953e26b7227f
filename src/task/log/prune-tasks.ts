import { raceAbort } from '../../stream/abort.ts';
import type { Abortable } from '../../stream/types.ts';
import type { Store } from '../store/store.ts';
import type { LogOptions, PrunePolicy } from '../types.ts';

/** Deletes or compacts ended tasks in small steps. Returns how many. */
export async function pruneTasks(
  store: Store,
  { tasksEndedBefore, deltasEndedBefore, signal }: PrunePolicy & Abortable,
  blobs: LogOptions['blobs'],
): Promise<number> {
  const remove = async (tasks: readonly string[]): Promise<void> => {
    // Bytes first: after a crash in between, the task is pruned again, and no bytes stay behind.
    for (const task of tasks) await blobs?.removeTask(task);
    await store.remove(tasks);
  };
  let count = 0;
  while (tasksEndedBefore !== undefined) {
    signal?.throwIfAborted();
    const tasks = await raceAbort(store.ended(tasksEndedBefore), signal);
    if (tasks.length === 0) break;
    await raceAbort(remove(tasks), signal);
    count += tasks.length;
  }
  while (deltasEndedBefore !== undefined) {
    signal?.throwIfAborted();
    const compacted = await raceAbort(store.compact(deltasEndedBefore), signal);
    if (compacted === 0) break;
    count += compacted;
  }
  return count;
}
