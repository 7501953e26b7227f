import { compareIds, parseId, resume, withIds, type Identified } from '../../event/event-id.ts';
import { advance } from '../../event/fold/advance.ts';
import { isFinal } from '../../event/fold/entry-rules.ts';
import { countTurns } from '../../event/fold/turns.ts';
import type { Encoder, Entry, Seq, Snapshot } from '../../event/types.ts';
import type { Abortable } from '../../stream/types.ts';
import { findCheckpoint } from '../../task/log/checkpoints.ts';
import { followTask, type TaskFollower } from '../../task/log/follow-task.ts';
import type { TaskLog } from '../../task/types.ts';
import { A2AError } from '../protocol/a2a-errors.ts';
import { TERMINAL, type A2AStreamEvent } from '../protocol/model.ts';
import {
  a2aEncoder,
  statusEvent,
  type A2AEncoder,
  type TextOptions,
} from '../protocol/stream-encoder.ts';
import { encodeTask } from '../protocol/task-encoder.ts';

/** One event of a stream, with the id that resumes after it. */
export interface TaskStreamEvent {
  readonly id: string;
  readonly out: A2AStreamEvent;
  /** Whether the stream closes after it: the task has ended, or waits for input. */
  readonly last: boolean;
}

/**
 * Where a stream begins. `from` an entry: the task as it was there, then every later event; with
 * `watch` the stream continues even if the task already waits for input there. A caller that has
 * this entry, and it is entry 1, passes it as `entry`, which saves a read of the store; `snapshot`
 * is the task at that entry, which saves a read of all entries before it. `after` an event id:
 * exactly the events that a client with this id has missed.
 */
export type Start =
  | {
      readonly from: Seq;
      readonly watch?: boolean;
      readonly entry?: Entry;
      readonly snapshot?: Snapshot | undefined;
    }
  | { readonly after: string };

/** Resolves with the task of a stream and where to begin, after the stream's first read. */
export type BeginStream = () => Promise<{
  readonly task: string;
  readonly start: Start;
  /** Called after the complete task was sent, which is no longer in memory from then on. */
  readonly sentTask?: () => void;
}>;

/** How tasks are shown in a stream. */
export interface TaskViewOptions {
  readonly text?: TextOptions;
  /** The most messages of a task's history. */
  readonly historyLength?: number;
}

/** A stream of one item. */
export async function* once<T>(item: T): AsyncGenerator<T, void, undefined> {
  yield item;
}

/**
 * The events of a task, until it ends or waits for input that is still missing. A wait for an
 * authorization does not close the stream: the credentials may reach the agent another way, and the
 * run then continues (A2A 1.0, 7.6.1). Closing the stream does not cancel the task. A compacted
 * task has no old events any more; its stream has the final task only. `begin` is called with the
 * first read, so that the headers of a response can go out before its turn is committed.
 */
export const followTaskStream = (
  log: TaskLog,
  begin: BeginStream,
  options: Abortable,
  view: TaskViewOptions = {},
): AsyncIterable<TaskStreamEvent[]> =>
  followTask(log, new StreamFollower(log, begin, options, view), options);

class StreamFollower implements TaskFollower<TaskStreamEvent> {
  task = '';
  readonly #log: TaskLog;
  /** Until the first read: it has the message of the client in memory. */
  #begin: BeginStream | undefined;
  readonly #options: Abortable;
  readonly #view: TaskViewOptions;
  readonly #encoder: A2AEncoder;
  #encode: Encoder<Identified<A2AStreamEvent>>;
  /** The event id that the client resumes after. */
  #after: string | undefined;
  /** The entry at which the client gets the task; no event of an earlier entry is sent. */
  #from = 0;
  #watch = false;
  #sentTask: (() => void) | undefined;

  constructor(log: TaskLog, begin: BeginStream, options: Abortable, view: TaskViewOptions) {
    this.#log = log;
    this.#begin = begin;
    this.#options = options;
    this.#view = view;
    this.#encoder = a2aEncoder(view.text);
    this.#encode = withIds(this.#encoder.encode);
  }

  get seq(): Seq {
    return this.#encoder.snapshot?.seq ?? 0;
  }

  async begin(events: TaskStreamEvent[]): Promise<boolean> {
    const begin = (this.#begin as BeginStream)();
    this.#begin = undefined;
    const { task, start, sentTask } = await begin;
    this.task = task;
    this.#sentTask = sentTask;
    if ('after' in start) {
      this.#after = start.after;
      this.#encode = resume(this.#encoder.encode, start.after);
      await this.#seek(start.after);
      return false;
    }
    this.#from = start.from;
    this.#watch = start.watch === true;
    if (start.entry?.seq === 1) {
      this.#encode(start.entry);
      events.push({ id: '1', out: this.#task(), last: false });
    } else if (start.snapshot && this.#encoder.seek(start.snapshot)) return this.#addTask(events);
    return false;
  }

  /** Begins with the checkpoint before the event, if there is one; else with entry 1. */
  async #seek(after: string): Promise<void> {
    const { seq, part } = parseId(after);
    // The client may lack some events of the entry itself.
    const found = await findCheckpoint(this.#log, this.task, part === Infinity ? seq : seq - 1);
    if (found) this.#encoder.seek(found);
  }

  follow(entry: Entry, events: TaskStreamEvent[]): boolean | Promise<boolean> {
    return this.#encoder.lacks(entry) ? this.#restore(entry, events) : this.#add(entry, events);
  }

  async compacted(events: TaskStreamEvent[]): Promise<void> {
    const snapshot = await this.#log.get(this.task);
    if (!snapshot) throw new A2AError('TASK_NOT_FOUND', `task "${this.task}" was deleted`);
    const id = String(snapshot.seq);
    if (this.#after !== undefined && compareIds(this.#after, id) >= 0) return;
    events.push({ id, out: { task: encodeTask(snapshot, this.#view) }, last: false });
    events.push({ id, out: statusEvent(snapshot, this.#view.text), last: true });
  }

  /** Reads the task again, because the entry needs text that the encoder has dropped. */
  async #restore(entry: Entry, events: TaskStreamEvent[]): Promise<boolean> {
    const complete = await snapshotAt(this.#log, this.task, entry.seq - 1, this.#options);
    this.#encoder.restore(complete);
    return this.#add(entry, events);
  }

  #add(entry: Entry, events: TaskStreamEvent[]): boolean | Promise<boolean> {
    const encoded = this.#encode(entry);
    // A client that resumes has the task already, or gets it with entry 1.
    if (this.#after !== undefined) this.#encoder.forget();
    if (entry.seq === this.#from) return this.#addTask(events);
    if (entry.seq < this.#from) return false;
    let ended = false;
    for (let k = 0; k < encoded.length; k++) {
      const { id, out } = encoded[k] as Identified<A2AStreamEvent>;
      if (asksForInput(out)) return this.#addQuestion(encoded, k, events);
      ended = ends(out);
      events.push({ id, out, last: ended });
    }
    return ended;
  }

  /** Adds the task at the entry where the stream begins. */
  #addTask(events: TaskStreamEvent[]): boolean {
    const snapshot = this.#encoder.snapshot as Snapshot;
    const id = String(this.#from);
    events.push({ id, out: this.#task(), last: false });
    const ended = isFinal(snapshot.state) || (needsInput(snapshot) && !this.#watch);
    // A 0.3 client learns of the end of a stream by `final`, which a status has and a task has not.
    if (ended) events.push({ id, out: statusEvent(snapshot, this.#view.text), last: true });
    return ended;
  }

  /** Adds the outputs from number `first` on, of an entry with a question. */
  async #addQuestion(
    encoded: readonly Identified<A2AStreamEvent>[],
    first: number,
    events: TaskStreamEvent[],
  ): Promise<boolean> {
    const open = await isOpen(this.#log, this.#encoder.snapshot);
    let ended = false;
    for (const { id, out } of encoded.slice(first)) {
      ended = ends(out) || (open && asksForInput(out));
      events.push({ id, out, last: ended });
    }
    return ended;
  }

  /** The task as an event; from then on the encoder keeps only what later events need. */
  #task(): A2AStreamEvent {
    const task = this.#encoder.task(this.#view);
    this.#encoder.forget();
    // The batch with the task is encoded and written in this turn of the event loop, and the
    // listener counts what the client has not read.
    if (this.#sentTask) setImmediate(this.#sentTask);
    return { task };
  }
}

/** The task as it was at an entry. */
async function snapshotAt(
  log: TaskLog,
  task: string,
  seq: Seq,
  options: Abortable,
): Promise<Snapshot> {
  let snapshot: Snapshot | undefined;
  for await (const entry of log.read(task, 0, options)) {
    snapshot = advance(snapshot, entry);
    if (entry.seq >= seq) break;
  }
  return snapshot as Snapshot;
}

/** Resolves when the task has ended or waits for a person. */
export async function settled(log: TaskLog, task: string, options: Abortable): Promise<void> {
  const seq = await runningAt(log, task);
  if (seq === undefined) return;
  for await (const { type } of log.read(task, seq, options))
    if (type === 'input.required' && waits(await log.get(task))) return;
}

/** The last entry of a task that runs; not its snapshot, which a wait would keep in memory. */
async function runningAt(log: TaskLog, task: string): Promise<Seq | undefined> {
  const now = await log.get(task);
  return !now || isFinal(now.state) || waits(now) ? undefined : now.seq;
}

/** The number of the entry of an event id. Throws `invalid` for an invalid id. */
export const seqOf = (id: string): Seq => parseId(id).seq;

/**
 * Whether the task waits for a person: every submitted turn was handled, and a question is open.
 */
const waits = (snapshot: Snapshot | undefined): boolean =>
  needsInput(snapshot) || (snapshot?.state === 'auth-required' && snapshot.unserved.length === 0);

const needsInput = (snapshot: Snapshot | undefined): boolean =>
  snapshot?.state === 'input-required' && snapshot.unserved.length === 0;

/**
 * Whether the question at `then`, a snapshot that may be old, is still the open one. A replay
 * passes questions that were answered since. If a stream ended at one of them, the person's next
 * "ok" would answer a different question, which they have not seen. Every answer is a turn, and a
 * question that was asked or withdrawn since changes the list of ids.
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
