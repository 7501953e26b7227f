import type { Answer } from '../../ask.ts';
import { omitUndefined } from '../../json.ts';
import type { OpenWait, StepRecord } from '../step-types.ts';
import type { Snapshot } from '../types.ts';

type StepDraft = {
  -readonly [
    Field in keyof Pick<Snapshot, 'steps' | 'waits' | 'seq' | 'attempt' | 'mark'>
  ]: Snapshot[Field];
};

/** Whether the record ends its step. */
export const isStepOver = ({ status }: Pick<StepRecord, 'status'>): boolean =>
  status === 'completed' || status === 'failed';

/**
 * Folds a durable step: the snapshot learns that the turn has steps, and which waits are open.
 * Results stay in the log, so that a snapshot does not grow with them.
 */
export function foldStep(draft: StepDraft, record: StepRecord): void {
  const { id, status, kind, until, schema } = record;
  const from = draft.steps?.from ?? draft.mark?.from ?? draft.seq;
  draft.steps = { from, attempt: draft.attempt };
  if (status === 'started') return;
  const others = (draft.waits ?? []).filter((wait) => wait.id !== id);
  const waits = isStepOver(record)
    ? others
    : [...others, omitUndefined<OpenWait>({ id, kind, until, schema, answer: undefined })];
  if (waits.length > 0) draft.waits = waits;
  else delete draft.waits;
}

/** Returns the rule that forbids the record; undefined if it is valid. */
export function stepViolation(
  { waits = [] }: Pick<Snapshot, 'waits'>,
  { id, status, kind, until }: StepRecord,
): string | undefined {
  const open = waits.find((wait) => wait.id === id);
  if (open && open.kind !== kind) return `step ${id} is a ${open.kind}, not a ${kind}`;
  if (status === 'waiting' && open) return `step ${id} waits already`;
  if (status === 'retrying' && until === undefined) return `step ${id} has no time to try again`;
  return undefined;
}

/** Gives each event to the wait for it. The first event counts. */
export function takeEvents(draft: StepDraft, answers: readonly Answer[]): void {
  if (!draft.waits || answers.length === 0) return;
  draft.waits = draft.waits.map((wait) => {
    const answer = isOpenEvent(wait) ? answers.find(({ id }) => id === wait.id) : undefined;
    return answer ? { ...wait, answer } : wait;
  });
}

/** Whether the wait takes an event from outside. */
export const isOpenEvent = ({ kind, answer }: OpenWait): boolean =>
  kind === 'event' && answer === undefined;

/** Whether the task waits for this event from outside. */
export const awaitsEvent = ({ waits = [] }: Pick<Snapshot, 'waits'>, id: string): boolean =>
  waits.some((wait) => wait.id === id && isOpenEvent(wait));

/** Whether a run that was suspended can go on: an event has arrived, or a time has come. */
export function mayResume(snapshot: Snapshot, now: number): boolean {
  if (!isSuspended(snapshot)) return false;
  return (snapshot.waits ?? []).some(
    ({ answer, until }) => answer !== undefined || (until !== undefined && until <= now),
  );
}

/**
 * Returns when a suspended run must go on at the latest, in Unix ms; undefined if no time decides
 * that. Stores index it.
 */
export function dueAt(snapshot: Snapshot): number | undefined {
  if (!isSuspended(snapshot) || snapshot.canceling) return undefined;
  const times = (snapshot.waits ?? []).flatMap(({ until }) => until ?? []);
  return times.length === 0 ? undefined : Math.min(...times);
}

// A run that also asks a person ends as input-required when it is suspended. Its waits stay open.
const isSuspended = ({ suspended, running, waits }: Snapshot): boolean =>
  waits !== undefined && (suspended === true || !running);
