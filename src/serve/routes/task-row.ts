import type { Part, Snapshot } from '../../event/types.ts';
import { isObject, omitUndefined } from '../../json.ts';
import type { TaskRow } from '../page-api-types.ts';

/** One row of the task list. */
export function taskRow(snapshot: Snapshot): TaskRow {
  return omitUndefined<TaskRow>({
    task: snapshot.task,
    context: snapshot.context,
    agent: snapshot.agent,
    state: snapshot.state,
    createdAt: snapshot.createdAt,
    updatedAt: snapshot.updatedAt,
    seq: snapshot.seq,
    pending: snapshot.pending,
    canceling: snapshot.canceling,
    running: snapshot.running,
    suspended: snapshot.suspended,
    attempt: snapshot.attempt,
    owner: snapshot.owner,
    error: snapshot.error,
    firstTextAt: snapshot.firstTextAt,
    usage: snapshot.usage,
    title: titleOf(snapshot.turns[0]?.parts[0]).slice(0, 120),
  });
}

function titleOf(part: Part | undefined): string {
  if (!part) return '';
  if ('text' in part) return part.text;
  if (!('data' in part)) return part.filename ?? '';
  const { data } = part;
  const named = isObject(data) ? (data['title'] ?? data['name']) : undefined;
  return typeof named === 'string' ? named : JSON.stringify(data);
}
