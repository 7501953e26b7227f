import { compareIds, parseId, resume, withIds } from '../../event/event-id.ts';
import { advance } from '../../event/fold/advance.ts';
import { isFinal } from '../../event/fold/entry-rules.ts';
import type { Entry, Seq, Snapshot } from '../../event/types.ts';
import type { Abortable } from '../../stream/types.ts';
import { partsChars } from '../../task/text-budget.ts';
import type { TaskLog } from '../../task/types.ts';
import { a2aEncoder, type TextOptions } from '../protocol/stream-encoder.ts';
import { A2AError } from '../protocol/a2a-errors.ts';
import { countTurns } from '../../event/fold/turns.ts';
import { TERMINAL, type A2AStreamEvent } from '../protocol/model.ts';
import { encodeStatus, encodeTask } from '../protocol/task-encoder.ts';

const BATCH_CHARS = 32 * 1024;

/** One event of a stream, with the id that resumes behind it. */
export interface TaskStreamEvent {
  readonly id: string;
  readonly out: A2AStreamEvent;
  /** The stream closes behind it: the task has ended, or waits for input. */
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

/** How tasks are shown in a stream. */
export interface TaskViewOptions {
  readonly text?: TextOptions;
  /** How much of a task's history comes with it at most. */
  readonly historyLength?: number;
}

/** A stream of events, read once: one by one, or those together that are there together. */
export interface TaskEventStream extends AsyncIterable<TaskStreamEvent> {
  batches(): AsyncIterable<readonly TaskStreamEvent[]>;
}

export const eventStream = (
  batches: () => AsyncIterable<readonly TaskStreamEvent[]>,
): TaskEventStream => new Batched(batches);

class Batched implements TaskEventStream {
  readonly batches: TaskEventStream['batches'];

  constructor(batches: TaskEventStream['batches']) {
    this.batches = batches;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TaskStreamEvent, void, undefined> {
    for await (const batch of this.batches()) yield* batch;
  }
}

/**
 * A task as a stream, up to its end or to a wait for input that still lasts. A wait for an
 * authorization does not close it: the credentials may reach the agent by another way, and the
 * run then goes on by itself (A2A 1.0, 7.6.1). Leaving it leaves the task alone. A task that was compacted has no old events any more; it comes as it is. `begin`
 * is called with the first read, and what it throws is thrown there.
 */
export const followTaskStream = (
  log: TaskLog,
  begin: () => Promise<{ readonly task: string; readonly start: Start }>,
  options: Abortable,
  shown: TaskViewOptions = {},
): TaskEventStream => eventStream(() => batches(log, begin, options, shown));

async function* batches(
  log: TaskLog,
  begin: Parameters<typeof followTaskStream>[1],
  options: Abortable,
  { text = {}, historyLength }: TaskViewOptions,
): AsyncGenerator<readonly TaskStreamEvent[], void, undefined> {
  const { task, start } = await begin();
  const encoder = a2aEncoder(text);
  const from = 'from' in start ? start.from : 0;
  const encode = 'after' in start ? resume(encoder.encode, start.after) : withIds(encoder.encode);
  if ('entry' in start && start.entry?.seq === 1) {
    encode(start.entry);
    const out = { task: encoder.task({ historyLength }) };
    encoder.forget();
    yield [{ id: '1', out, last: false }];
  }
  const reading = log.read(task, encoder.snapshot?.seq ?? 0, options);
  const entries = reading[Symbol.asyncIterator]();
  // In a function of its own: what a generator has in its variables it holds while it waits, for each stream.
  const next = async (): Promise<Batch | undefined> => {
    const { done, value: first } = await entries.next();
    if (done) return undefined;
    const events: TaskStreamEvent[] = [];
    let over = false;
    let chars = 0;
    for (let entry: Entry | undefined = first; entry;) {
      if (entry.seq !== (encoder.snapshot?.seq ?? 0) + 1) {
        const snapshot = await log.get(task);
        if (!snapshot) throw new A2AError('TASK_NOT_FOUND', `task ${task} was deleted`);
        const id = String(snapshot.seq);
        if ('after' in start && compareIds(start.after, id) >= 0) return { events: [], over: true };
        const view = { historyLength, text };
        const whole = { id, out: { task: encodeTask(snapshot, view) }, last: false };
        const last = { id, out: statusOf(snapshot, text), last: true };
        return { events: [...events, whole, last], over: true };
      }
      if (encoder.lacks(entry)) encoder.restore(await wholeTask(log, task, entry.seq - 1, options));
      let encoded: ReturnType<typeof encode>;
      try {
        encoded = encode(entry);
      } catch (error) {
        // What came before it is sent first.
        return { events, over: true, failure: { error } };
      }
      // Who resumes has the task itself, or gets it with its first entry.
      if ('after' in start) encoder.forget();
      if (entry.seq === from) {
        const snapshot = encoder.snapshot as Snapshot;
        const id = String(from);
        const out = { task: encoder.task({ historyLength }) };
        encoder.forget();
        events.push({ id, out, last: false });
        over = isFinal(snapshot.state) || (needsInput(snapshot) && !('watch' in start));
        // A task has no word for the end of a stream in 0.3; a status has.
        if (over) events.push({ id, out: statusOf(snapshot, text), last: true });
      } else if (entry.seq > from)
        for (const { id, out } of encoded) {
          over = ends(out) || (asksForInput(out) && (await isOpen(log, encoder.snapshot)));
          events.push({ id, out, last: over });
        }
      chars += sizeOf(entry);
      entry = over || chars > BATCH_CHARS ? undefined : reading.take();
    }
    return { events, over };
  };
  try {
    for (let batch = await next(); batch; batch = undefined, batch = await next()) {
      if (batch.events.length > 0) yield batch.events;
      if (batch.failure) throw batch.failure.error;
      if (batch.over) return;
    }
  } finally {
    await entries.return?.();
  }
}

interface Batch {
  readonly events: readonly TaskStreamEvent[];
  /** Nothing follows. */
  readonly over: boolean;
  readonly failure?: { readonly error: unknown };
}

/** The task as it was at an entry. */
async function wholeTask(
  log: TaskLog,
  task: string,
  seq: Seq,
  options: Abortable,
): Promise<Snapshot> {
  let whole: Snapshot | undefined;
  for await (const entry of log.read(task, 0, options)) {
    whole = advance(whole, entry);
    if (entry.seq >= seq) break;
  }
  return whole as Snapshot;
}

// Only roughly: so that a batch stays small beside what a socket takes.
function sizeOf(entry: Entry): number {
  if ('delta' in entry) return entry.delta.length;
  if (entry.type === 'artifact') return BATCH_CHARS / 8 + partsChars(entry.parts);
  return entry.type === 'status' || entry.type === 'run.started' ? 256 : BATCH_CHARS / 8;
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

/** Whether nothing happens before a person answers. */
const waits = (snapshot: Snapshot | undefined): boolean =>
  needsInput(snapshot) || (snapshot?.state === 'auth-required' && snapshot.unserved.length === 0);

const needsInput = (snapshot: Snapshot | undefined): boolean =>
  snapshot?.state === 'input-required' && snapshot.unserved.length === 0;

/**
 * Whether the wait at `then`, an entry that may be old, is the one that lasts now. A replay passes
 * waits that are over: shown as the open one, the next "ok" of the person would answer another
 * question, which they have not seen. Every answer is a turn, and a question that was asked or
 * withdrawn since changes the list.
 */
async function isOpen(log: TaskLog, then: Snapshot | undefined): Promise<boolean> {
  if (!then || !needsInput(then)) return false;
  const now = await log.get(then.task);
  if (!now || !needsInput(now) || countTurns(now) !== countTurns(then)) return false;
  const ids = ({ pending }: Snapshot): string => JSON.stringify(pending.map(({ id }) => id));
  return ids(now) === ids(then);
}

const ends = (event: A2AStreamEvent): boolean =>
  'statusUpdate' in event && TERMINAL.has(event.statusUpdate.status.state);

const asksForInput = (event: A2AStreamEvent): boolean =>
  'statusUpdate' in event && event.statusUpdate.status.state === 'TASK_STATE_INPUT_REQUIRED';

const statusOf = (snapshot: Snapshot, text: TextOptions): A2AStreamEvent => ({
  statusUpdate: {
    taskId: snapshot.task,
    contextId: snapshot.context,
    status: encodeStatus(snapshot, text),
  },
});
