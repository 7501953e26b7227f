import { randomUUID } from 'node:crypto';
import { isFinal } from '../event/contract.ts';
import type { Entry, Snapshot, Turn } from '../event/types.ts';
import type { Abortable } from '../stream/types.ts';
import type { Runner, TaskLog } from '../task/types.ts';
import { readAnswers } from './answers.ts';
import { a2aEncoder } from './encoder.ts';
import { Refusal } from './errors.ts';
import { follow, seqOf, settled, type Numbered } from './follow.ts';
import type { A2ATask, TaskPage } from './model.ts';
import type { Incoming, ListRequest } from './requests.ts';
import { encodeTask } from './task.ts';

/** Who asks. What belongs to another owner or tenant does not exist for them. */
export interface Caller {
  readonly owner?: string;
  readonly tenant?: string;
}

export interface OperationsOptions {
  readonly agent: string;
  readonly log: TaskLog;
  readonly runner: Runner;
  /** How many messages of a task's history are given at most. */
  readonly maxHistory?: number;
}

/** A turn that is in the log, with its entry there. */
export interface Submitted {
  readonly task: string;
  readonly entry: Entry;
}

/**
 * What an A2A server does with tasks, whatever the binding: each binding only reads requests and
 * writes answers. A stream's life never decides the task's: leaving one is not a cancel.
 */
export class Operations {
  readonly #agent: string;
  readonly #log: TaskLog;
  readonly #runner: Runner;
  readonly #maxHistory: number;

  constructor({ agent, log, runner, maxHistory = 1000 }: OperationsOptions) {
    this.#agent = agent;
    this.#log = log;
    this.#runner = runner;
    this.#maxHistory = maxHistory;
  }

  /** Checks a message against its task; nothing is written yet. */
  async prepare(incoming: Incoming, caller: Caller): Promise<Turn> {
    const { taskId, contextId, messageId, metadata } = incoming;
    const snapshot = taskId === undefined ? undefined : await this.own(taskId, caller);
    // Sent again, it is the message that is there already, whatever has become of the task.
    const again = snapshot?.turns.some((turn) => turn.messageId === messageId) ?? false;
    if (snapshot && contextId !== undefined && contextId !== snapshot.context)
      throw new Refusal('INVALID_PARAMS', `task ${snapshot.task} belongs to another contextId`);
    if (snapshot && isFinal(snapshot.state) && !again)
      throw new Refusal(
        'UNSUPPORTED_OPERATION',
        `task ${snapshot.task} is ${snapshot.state} and takes no more messages; send without taskId to start another`,
      );
    const { parts, answers } = snapshot && !again ? readAnswers(snapshot, incoming) : incoming;
    return {
      agent: this.#agent,
      task: snapshot?.task ?? randomUUID(),
      context: snapshot?.context ?? contextId ?? randomUUID(),
      messageId,
      parts,
      ...caller,
      ...(answers.length > 0 && { answers }),
      ...(metadata && { metadata }),
    };
  }

  /** Durable when it resolves; a message that was there already gives its entry of then. */
  async submit(turn: Turn): Promise<Submitted> {
    const entry = await this.#runner.submit(turn);
    return { task: entry.type === 'turn.submitted' ? entry.turn.task : turn.task, entry };
  }

  /** What follows a submitted turn, up to the end or the next wait for a person. */
  stream(
    { task, entry }: Submitted,
    options: Abortable,
  ): AsyncGenerator<Numbered, void, undefined> {
    return follow(this.#log, task, { from: entry.seq, entry }, options);
  }

  /** Resolves when the task has ended or waits for a person. */
  settled(task: string, options: Abortable): Promise<void> {
    return settled(this.#log, task, options);
  }

  async get(task: string, caller: Caller, historyLength?: number): Promise<A2ATask> {
    const snapshot = await this.own(task, caller);
    const view = { historyLength: Math.min(historyLength ?? Infinity, this.#maxHistory) };
    // The snapshot has the text of the last run only; earlier ones are in the log.
    const runs = snapshot.turns.filter(({ parts }) => parts.length > 0).length;
    if (runs < 2) return encodeTask(snapshot, view);
    const encoder = a2aEncoder();
    for await (const entry of this.#log.read(task, 0)) {
      if (entry.seq !== (encoder.snapshot?.seq ?? 0) + 1) return encodeTask(snapshot, view);
      encoder.encode(entry);
      if (entry.seq >= snapshot.seq) break;
    }
    return encoder.task(view);
  }

  /** Resolves with the canceled task once its run has ended. */
  async cancel(task: string, caller: Caller, options: Abortable): Promise<A2ATask> {
    const before = await this.own(task, caller);
    if (isFinal(before.state) && before.state !== 'canceled') throw notCancelable(before);
    const canceled = await this.#log.requestCancel(task).catch(async (error: unknown) => {
      const now = await this.own(task, caller);
      throw isFinal(now.state) ? notCancelable(now) : error;
    });
    if (!isFinal(canceled.state))
      for await (const _ of this.#log.read(task, canceled.seq, options));
    return this.get(task, caller);
  }

  /**
   * Goes on behind `after`, missing and repeating nothing, also for a task that has ended. Without
   * it, the task as it is and then what follows.
   */
  async subscribe(
    task: string,
    caller: Caller,
    { after, ...options }: Abortable & { readonly after?: string | undefined },
  ): Promise<{ readonly ended: boolean; readonly events: AsyncGenerator<Numbered, void> }> {
    const { seq, state } = await this.own(task, caller);
    if (after !== undefined && seqOf(after) > seq)
      throw new Refusal('INVALID_PARAMS', `task ${task} has no event ${after}; its last is ${seq}`);
    const start = after === undefined ? { from: seq, watch: true } : { after };
    return { ended: isFinal(state), events: follow(this.#log, task, start, options) };
  }

  /** Newest change first. The first page counts all that match; later ones carry the count along. */
  async list(request: ListRequest, caller: Caller): Promise<TaskPage> {
    const { pageSize, historyLength, artifacts, pageToken, ...filter } = request;
    const { after, total } = parseToken(pageToken);
    const { owner } = caller;
    const items = this.#log.list({
      ...filter,
      ...(owner !== undefined && { owner }),
      ...(after !== undefined && { after }),
    });
    const tasks: A2ATask[] = [];
    let place: string | undefined;
    let count = 0;
    for await (const snapshot of items) {
      if (!this.#owns(snapshot, caller)) continue;
      count++;
      if (tasks.length < pageSize) {
        tasks.push(encodeTask(snapshot, { historyLength, artifacts }));
        place = items.checkpoint;
      } else if (total !== undefined) break;
    }
    const totalSize = total ?? count;
    const nextPageToken = count > tasks.length ? `${place}.${totalSize}` : '';
    return { tasks, nextPageToken, pageSize, totalSize };
  }

  /** The task, if it is this caller's. */
  async own(task: string, caller: Caller): Promise<Snapshot> {
    const snapshot = await this.#log.get(task);
    if (snapshot && this.#owns(snapshot, caller)) return snapshot;
    // Somebody else's task is as good as none: its existence is not told.
    throw new Refusal('TASK_NOT_FOUND', `task ${task} was not found`);
  }

  #owns({ agent, owner, turns }: Snapshot, caller: Caller): boolean {
    return agent === this.#agent && owner === caller.owner && turns[0]?.tenant === caller.tenant;
  }
}

const notCancelable = ({ task, state }: Snapshot): Refusal =>
  new Refusal('TASK_NOT_CANCELABLE', `task ${task} is already ${state}`);

function parseToken(token: string | undefined): {
  readonly after?: string;
  readonly total?: number;
} {
  if (token === undefined) return {};
  const [, after, total] = /^(\d+-\d+)\.(\d{1,15})$/.exec(token) ?? [];
  if (after === undefined)
    throw new Refusal('INVALID_PARAMS', 'pageToken is none that this server gave');
  return { after, total: Number(total) };
}
