import type { Artifact, Snapshot } from '../types.ts';
import { type ArtifactList, setArtifacts } from './artifacts.ts';

export type SnapshotDraft = { -readonly [Field in keyof Snapshot]: Snapshot[Field] };

/**
 * Returns a copy of a snapshot for the next one, with its artifacts or with those given. It copies
 * by member, always in this order: a spread of objects of many shapes costs ten times more,
 * and one snapshot of another shape makes the fold of all tasks slower.
 */
export function copySnapshot(
  from: Snapshot,
  artifacts?: ArtifactList | readonly Artifact[],
): SnapshotDraft {
  const draft: Omit<SnapshotDraft, 'artifacts'> = {
    task: from.task,
    context: from.context,
    agent: from.agent,
    seq: from.seq,
    createdAt: from.createdAt,
    updatedAt: from.updatedAt,
    state: from.state,
    canceling: from.canceling,
    running: from.running,
    attempt: from.attempt,
    turns: from.turns,
    unserved: from.unserved,
    calls: from.calls,
    pending: from.pending,
    answers: from.answers,
    text: from.text,
  };
  setArtifacts(draft, from, artifacts);
  if (from.owner !== undefined) draft.owner = from.owner;
  if (from.current !== undefined) draft.current = from.current;
  if (from.mark !== undefined) draft.mark = from.mark;
  if (from.firstTextAt !== undefined) draft.firstTextAt = from.firstTextAt;
  if (from.usage !== undefined) draft.usage = from.usage;
  if (from.error !== undefined) draft.error = from.error;
  if (from.sessionId !== undefined) draft.sessionId = from.sessionId;
  if (from.omitted !== undefined) draft.omitted = from.omitted;
  if (from.said !== undefined) draft.said = from.said;
  if (from.delivered !== undefined) draft.delivered = from.delivered;
  if (from.answered !== undefined) draft.answered = from.answered;
  if (from.spent !== undefined) draft.spent = from.spent;
  if (from.steps !== undefined) draft.steps = from.steps;
  if (from.waits !== undefined) draft.waits = from.waits;
  if (from.suspended !== undefined) draft.suspended = from.suspended;
  return draft;
}
