import { expect } from 'vitest';
import { advance, checkLaws, isFinal } from '../../../src/event/index.ts';
import type { Agent, Entry, Snapshot } from '../../../src/event/types.ts';
import type { Runner, RunnerOptions, TaskLog } from '../../../src/task/index.ts';
import { collect, type Replica, type ReplicaOptions } from '../../task/replica-world.ts';

/**
 * What a test of runs has: replicas on one database, which end with the test, and runners on them.
 */
export interface Place {
  readonly replica: (options?: ReplicaOptions) => Replica;
  readonly start: (
    replica: Replica,
    agents: Record<string, Agent>,
    options?: Partial<RunnerOptions>,
  ) => Runner;
}

export const waits = (snapshot: Snapshot): boolean => snapshot.state === 'input-required';
export const sleeps = (snapshot: Snapshot): boolean => waits(snapshot) && !snapshot.running;

/** To the end of the task, with every law checked on the way. */
export async function whole(log: TaskLog, task: string): Promise<Entry[]> {
  const entries = await collect(log.read(task, 0));
  expect(entries.map((entry) => entry.seq)).toEqual(entries.map((_, index) => index + 1));
  expect(checkLaws(entries)).toEqual([]);
  expect(isFinal(entries.reduce(advance, undefined as never as Snapshot).state)).toBe(true);
  return entries;
}
