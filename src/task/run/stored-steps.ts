import { isStepOver } from '../../event/fold/steps.ts';
import { type EarlierRuns, SeenEvents } from '../../event/run/replay-filter.ts';
import type { StepRecord } from '../../event/step-types.ts';
import type { Agent, Snapshot } from '../../event/types.ts';
import type { TaskLog } from '../types.ts';
import { pauseAfter } from './retry-store.ts';

/**
 * Whether the agent may be called again after its process crashed. An agent with stored steps may,
 * unless it says no: it finds what it has done in the log.
 */
export const isResumable = (
  { resumable }: Pick<Agent, 'resumable'>,
  { steps }: Pick<Snapshot, 'steps'>,
): boolean => resumable ?? steps !== undefined;

/**
 * Reads the earlier runs of the current turn: the last record of each durable step, and what
 * readers have seen. Waits for a store that fails, since without them the agent would repeat what
 * it has done.
 */
export async function readEarlierRuns(
  log: Pick<TaskLog, 'read'>,
  { task, steps, seq }: Pick<Snapshot, 'task' | 'steps' | 'seq'>,
  signal: AbortSignal,
): Promise<EarlierRuns> {
  const found = new Map<string, StepRecord>();
  const seen = new SeenEvents();
  let after = steps ? steps.from - 1 : seq;
  for (let tries = 0; after < seq; tries++) {
    try {
      for await (const entry of log.read(task, after, { signal })) {
        after = entry.seq;
        if (entry.type === 'step.stored') addStep(found, entry);
        seen.add(entry);
        if (after >= seq) break;
      }
      if (after < seq) break;
    } catch (error) {
      await pauseAfter(error, tries, signal);
    }
  }
  return { steps: found, seen };
}

// `started` is for readers. It says nothing about what is done.
function addStep(found: Map<string, StepRecord>, record: StepRecord): void {
  const before = found.get(record.id);
  if (record.status === 'started' || (before && isStepOver(before))) return;
  found.set(record.id, record);
}
