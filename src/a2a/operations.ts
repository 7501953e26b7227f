import { randomUUID } from 'node:crypto';
import { resume, withIds, type Identified } from '../event/encode.ts';
import { isFinal } from '../event/contract.ts';
import type { Answer } from '../ask.ts';
import type { Part, Snapshot, Turn } from '../event/types.ts';
import type { Abortable } from '../stream/types.ts';
import type { Runner, TaskLog, TaskQuery } from '../task/types.ts';
import { a2aEncoder } from './encoder.ts';
import { Refusal } from './errors.ts';
import { INTERRUPTED, TERMINAL, type A2ATask, type StreamEvent } from './model.ts';
import type { Incoming } from './requests.ts';
import { encodeTask } from './task.ts';

/** One event of a stream with the id that resumes behind it. */
export type Numbered = Identified<StreamEvent>;

export interface OperationsOptions {
  readonly agent: string;
  readonly log: TaskLog;
  readonly runner: Runner;
}

/**
 * What an A2A server does, whatever the binding: each binding only reads requests and writes
 * answers. A stream's life never decides the task's: leaving one is not a cancel.
 */
export class Operations {
  readonly #agent: string;
  readonly #log: TaskLog;
  readonly #runner: Runner;

  constructor({ agent, log, runner }: OperationsOptions) {
    this.#agent = agent;
    this.#log = log;
    this.#runner = runner;
  }

  /** Checks a message against its task; nothing is written yet. */
  async prepare(incoming: Incoming, owner?: string): Promise<Turn> {
    const { taskId, contextId, messageId, metadata } = incoming;
    const snapshot = taskId === undefined ? undefined : await this.#own(taskId, owner);
    if (snapshot && contextId !== undefined && contextId !== snapshot.context) {
      throw new Refusal('INVALID_PARAMS', `task ${snapshot.task} belongs to another contextId`);
    }
    if (snapshot && isFinal(snapshot.state)) {
      throw new Refusal(
        'UNSUPPORTED_OPERATION',
        `task ${snapshot.task} is ${snapshot.state} and takes no more messages; send without taskId to start another`,
      );
    }
    const { parts, answers } = snapshot ? answer(snapshot, incoming) : incoming;
    return {
      agent: this.#agent,
      task: snapshot?.task ?? randomUUID(),
      context: snapshot?.context ?? contextId ?? randomUUID(),
      messageId,
      parts,
      ...(owner !== undefined && { owner }),
      ...(answers.length > 0 && { answers }),
      ...(metadata && { metadata }),
    };
  }

  /** Submits the turn and streams what follows it, up to the end or the next wait for a person. */
  async *stream(turn: Turn, options: Abortable = {}): AsyncGenerator<Numbered, void, undefined> {
    const entry = await this.#runner.submit(turn);
    const task = entry.type === 'turn.submitted' ? entry.turn.task : turn.task;
    yield* this.#follow(task, entry.seq, options);
  }

  /** Submits the turn; the task at its end or next wait, or at once when not `blocking`. */
  async send(turn: Turn, incoming: Incoming, options: Abortable = {}): Promise<A2ATask> {
    const entry = await this.#runner.submit(turn);
    const task = entry.type === 'turn.submitted' ? entry.turn.task : turn.task;
    if (incoming.blocking) {
      for await (const _ of this.#follow(task, entry.seq, options));
    }
    return this.#task(task, incoming.historyLength);
  }

  async get(task: string, owner: string | undefined, historyLength?: number): Promise<A2ATask> {
    await this.#own(task, owner);
    return this.#task(task, historyLength);
  }

  /** Resolves with the canceled task once its run has ended. */
  async cancel(task: string, owner: string | undefined, options: Abortable = {}): Promise<A2ATask> {
    const before = await this.#own(task, owner);
    if (isFinal(before.state) && before.state !== 'canceled') {
      throw new Refusal('TASK_NOT_CANCELABLE', `task ${task} is already ${before.state}`);
    }
    const { seq, state } = await this.#log.requestCancel(task);
    if (!isFinal(state)) for await (const _ of this.#log.read(task, seq, options));
    return this.#task(task);
  }

  /** Goes on behind `after`, missing and repeating nothing; without it, the task as it is and then what follows. */
  async *subscribe(
    task: string,
    owner: string | undefined,
    { after, signal }: Abortable & { readonly after?: string } = {},
  ): AsyncGenerator<Numbered, void, undefined> {
    const { seq } = await this.#own(task, owner);
    const options = signal ? { signal } : {};
    if (after === undefined) yield* this.#follow(task, seq, options);
    else yield* this.#replay(task, after, options);
  }

  /** Whether a subscription without a place to resume from would have nothing to say. */
  async ended(task: string, owner: string | undefined): Promise<boolean> {
    return isFinal((await this.#own(task, owner)).state);
  }

  async list(
    query: TaskQuery,
    {
      pageSize,
      historyLength = 0,
      artifacts = false,
    }: { pageSize: number; historyLength?: number; artifacts?: boolean },
  ): Promise<{ readonly tasks: readonly A2ATask[]; readonly nextPageToken: string }> {
    const tasks: A2ATask[] = [];
    const items = this.#log.list(query);
    for await (const snapshot of items) {
      tasks.push(encodeTask(snapshot, { historyLength, artifacts }));
      if (tasks.length === pageSize) return { tasks, nextPageToken: items.checkpoint ?? '' };
    }
    return { tasks, nextPageToken: '' };
  }

  async count(query: TaskQuery): Promise<number> {
    let count = 0;
    for await (const _ of this.#log.list(query)) count++;
    return count;
  }

  async #own(task: string, owner: string | undefined): Promise<Snapshot> {
    const snapshot = await this.#log.get(task);
    // Somebody else's task is as good as none: its existence is not told.
    if (!snapshot || snapshot.owner !== owner || snapshot.agent !== this.#agent) {
      throw new Refusal('TASK_NOT_FOUND', `there is no task ${task}`);
    }
    return snapshot;
  }

  async #task(task: string, historyLength?: number): Promise<A2ATask> {
    const snapshot = await this.#log.get(task);
    if (!snapshot) throw new Refusal('TASK_NOT_FOUND', `there is no task ${task}`);
    return encodeTask(snapshot, historyLength === undefined ? {} : { historyLength });
  }

  /** From entry `from` on: first the task as it was there, then every event behind it. */
  async *#follow(
    task: string,
    from: number,
    options: Abortable,
  ): AsyncGenerator<Numbered, void, undefined> {
    const encoder = a2aEncoder();
    const encode = withIds(encoder.encode);
    for await (const entry of this.#log.read(task, 0, options)) {
      const events = encode(entry);
      if (entry.seq < from) continue;
      if (entry.seq > from) yield* events;
      else yield { id: String(from), out: { task: encodeTask(encoder.snapshot as Snapshot) } };
      if (entry.seq > from && events.some(({ out }) => closes(out))) return;
    }
  }

  async *#replay(
    task: string,
    after: string,
    options: Abortable,
  ): AsyncGenerator<Numbered, void, undefined> {
    const encode = resume(a2aEncoder().encode, after);
    for await (const entry of this.#log.read(task, 0, options)) {
      const events = encode(entry);
      yield* events;
      if (events.some(({ out }) => closes(out))) return;
    }
  }
}

/** Whether a stream ends behind this event. */
export const closes = (event: StreamEvent): boolean =>
  'statusUpdate' in event &&
  (TERMINAL.has(event.statusUpdate.status.state) ||
    INTERRUPTED.has(event.statusUpdate.status.state));

const YES = /^(y|yes|ok|okay|approve|approved|accept|allow)\b/i;
const NO = /^(n|no|reject|rejected|decline|deny|denied)\b/i;

/** Plain text to a waiting task answers its only question; several need an id. */
function answer(
  snapshot: Snapshot,
  { parts, answers }: Pick<Incoming, 'parts' | 'answers'>,
): { readonly parts: readonly Part[]; readonly answers: readonly Answer[] } {
  const { pending } = snapshot;
  const unknown = answers.find(({ id }) => !pending.some((request) => request.id === id));
  if (unknown) throw new Refusal('INVALID_PARAMS', `nothing waits for an answer to ${unknown.id}`);
  if (answers.length > 0 || pending.length === 0) return { parts, answers };
  const [only, another] = pending;
  if (!only || another) {
    const ids = pending.map(({ id }) => id).join(', ');
    throw new Refusal(
      'INVALID_PARAMS',
      `several questions wait (${ids}); answer with a data part {"answers":[{"id":…,"action":"accept"}]}`,
    );
  }
  const text = parts
    .map((part) => ('text' in part ? part.text : ''))
    .join('\n')
    .trim();
  if (only.kind === 'question')
    return { parts: [], answers: [{ id: only.id, action: 'accept', content: text }] };
  if (YES.test(text)) return { parts: [], answers: [{ id: only.id, action: 'accept' }] };
  if (NO.test(text)) return { parts: [], answers: [{ id: only.id, action: 'decline' }] };
  throw new Refusal('INVALID_PARAMS', `the task waits for a decision: say "approve" or "reject"`);
}
