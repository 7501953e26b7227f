import { parseId, resume, withIds } from '../event/encode.ts';
import { isFinal } from '../event/contract.ts';
import type { Entry, Seq, Snapshot } from '../event/types.ts';
import type { Abortable } from '../stream/types.ts';
import type { TaskLog } from '../task/types.ts';
import { a2aEncoder } from './encoder.ts';
import { INTERRUPTED, TERMINAL, type StreamEvent } from './model.ts';
import { encodeStatus, encodeTask } from './task.ts';

/** One event of a stream, with the id that resumes behind it. */
export interface Numbered {
  readonly id: string;
  readonly out: StreamEvent;
  /** The stream closes behind it: the task has ended, or waits for a person. */
  readonly last: boolean;
}

/**
 * Where a stream begins. `from` an entry: first the task as it was there, then every event behind
 * it; with `watch` it goes on even if the task waits there already. Whoever has that entry and it
 * is the first gives it, and the task is shown without asking the store. `after` an id: exactly
 * the events that a client with that id has missed, be they a minute or a month old.
 */
export type Start =
  | { readonly from: Seq; readonly watch?: boolean; readonly entry?: Entry }
  | { readonly after: string };

/**
 * A task as a stream, up to its end or to a wait for a person that still lasts. Leaving it leaves
 * the task alone. A task that was compacted has no old events any more; it comes as it is.
 */
export async function* follow(
  log: TaskLog,
  task: string,
  start: Start,
  options: Abortable,
): AsyncGenerator<Numbered, void, undefined> {
  const encoder = a2aEncoder();
  const from = 'from' in start ? start.from : 0;
  const encode = 'after' in start ? resume(encoder.encode, start.after) : withIds(encoder.encode);
  if ('entry' in start && start.entry?.seq === 1) {
    encode(start.entry);
    yield { id: '1', out: { task: encoder.task() }, last: false };
  }
  for await (const entry of log.read(task, encoder.snapshot?.seq ?? 0, options)) {
    if (entry.seq !== (encoder.snapshot?.seq ?? 0) + 1) {
      const snapshot = (await log.get(task)) as Snapshot;
      return yield { id: String(snapshot.seq), out: { task: encodeTask(snapshot) }, last: true };
    }
    const events = encode(entry);
    if (entry.seq < from) continue;
    if (entry.seq === from) {
      const snapshot = encoder.snapshot as Snapshot;
      const id = String(from);
      yield { id, out: { task: encoder.task() }, last: isFinal(snapshot.state) };
      if (waits(snapshot) && !('watch' in start))
        return yield { id, out: statusOf(snapshot), last: true };
      continue;
    }
    for (const { id, out } of events) {
      const last = ends(out) || (interrupts(out) && waits(await log.get(task)));
      yield { id, out, last };
      if (last) return;
    }
  }
}

/** Resolves when the task has ended or waits for a person. */
export async function settled(log: TaskLog, task: string, options: Abortable): Promise<void> {
  const now = await log.get(task);
  if (!now || isFinal(now.state) || waits(now)) return;
  for await (const entry of log.read(task, now.seq, options)) {
    if (entry.type === 'input.required' && waits(await log.get(task))) return;
  }
}

/** The number of the entry that an id names. Throws `invalid` on what is no id. */
export const seqOf = (id: string): Seq => parseId(id).seq;

/** Whether nothing happens before somebody answers. */
const waits = (snapshot: Snapshot | undefined): boolean =>
  snapshot !== undefined &&
  (snapshot.state === 'input-required' || snapshot.state === 'auth-required') &&
  snapshot.unserved.length === 0;

const ends = (event: StreamEvent): boolean =>
  'statusUpdate' in event && TERMINAL.has(event.statusUpdate.status.state);

const interrupts = (event: StreamEvent): boolean =>
  'statusUpdate' in event && INTERRUPTED.has(event.statusUpdate.status.state);

const statusOf = (snapshot: Snapshot): StreamEvent => ({
  statusUpdate: {
    taskId: snapshot.task,
    contextId: snapshot.context,
    status: encodeStatus(snapshot),
  },
});
