import { advance } from '../../event/fold/advance.ts';
import { isFinal } from '../../event/fold/entry-rules.ts';
import type { Entry, Seq, Snapshot, Turn } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import type { Abortable } from '../../stream/types.ts';
import { getOwnTask } from '../../task/log/own-task.ts';
import {
  checkCount,
  matchAnswers,
  refuseAnswered,
  spokenAnswers,
} from '../../task/match-answers.ts';
import { nameId } from '../../task/name-id.ts';
import { snapshotChars } from '../../task/text-budget.ts';
import { uuidV7 } from '../../task/uuid-v7.ts';
import type { OnRefusedAnswers, Runner, TaskLog } from '../../task/types.ts';
import type { TextOptions } from '../protocol/stream-encoder.ts';
import { A2AError } from '../protocol/a2a-errors.ts';
import { CatchUpBudget } from './catch-up-budget.ts';
import {
  followTaskStream,
  seqOf,
  settled,
  type TaskViewOptions,
  type BeginStream,
  type TaskStreamEvent,
} from './task-stream.ts';
import type { A2ATask, A2ATaskPage } from '../protocol/model.ts';
import type { SendRequest, ListRequest } from './parse-params.ts';
import { encodeTask } from '../protocol/task-encoder.ts';

/** The caller of an operation. Tasks of other owners or tenants do not exist for it. */
export interface Caller {
  readonly owner?: string;
  readonly tenant?: string;
  /** The trace context of the request, stored with the turn. */
  readonly trace?: JsonObject | undefined;
}

/** Options of `Operations`. */
export interface OperationsOptions {
  readonly agent: string;
  readonly log: TaskLog;
  readonly runner: Runner;
  /** The most messages of a task's history in a response; 1000 by default. */
  readonly maxHistory?: number;
  /** How callers see the text of a run. */
  readonly text?: TextOptions;
  /** For an audit log: called with answers that are refused here. The runner reports its own. */
  readonly onRefusedAnswers?: OnRefusedAnswers;
}

/**
 * A list page of this size gets no further task. A hundred tasks with histories and artifacts may
 * have gigabytes, and a small request of the caller decides that.
 */
const MAX_PAGE_CHARS = 8 * 1024 * 1024;

/** Of a log up to this length, a stream sends the task as it was when its message arrived. */
const SHORT_ENTRIES = 512;

interface Subscribed {
  /** Whether the task had ended before. */
  readonly ended: boolean;
  readonly batches: AsyncIterable<TaskStreamEvent[]>;
}

/** A turn in the log, with its entry. */
export interface Submitted {
  readonly task: string;
  readonly entry: Entry;
  /** Whether the task, or this turn itself, existed before. */
  readonly known: boolean;
  /** Roughly how long the task was before, in characters. */
  readonly chars: number;
  readonly owner: string | undefined;
}

/**
 * The task operations of an A2A server, the same for all bindings. Closing a stream never cancels
 * its task.
 */
export class Operations {
  readonly #options: OperationsOptions;
  readonly #log: TaskLog;
  readonly #maxHistory: number;
  readonly #text: TextOptions;
  readonly #catchUps = new CatchUpBudget();
  /** How long the task of a turn was, for the stream that follows it. */
  readonly #chars = new WeakMap<Turn, number>();

  constructor(options: OperationsOptions) {
    const { log, maxHistory = 1000, text = {} } = options;
    this.#options = options;
    this.#log = log;
    this.#maxHistory = maxHistory;
    this.#text = text;
  }

  /**
   * Validates a message against its task and returns the turn; writes nothing. `lastEventId` is the
   * last event that the caller has received: text cannot answer a question that came after it.
   */
  async prepare(incoming: SendRequest, caller: Caller, lastEventId?: string): Promise<Turn> {
    try {
      return await this.#turnOf(incoming, caller, lastEventId);
    } catch (error) {
      const { taskId, contextId, messageId } = incoming;
      const answers =
        taskId === undefined || incoming.answers.length > 0
          ? incoming.answers
          : spokenAnswers(incoming.parts);
      if (answers.length > 0) {
        const sender = { agent: this.#options.agent, owner: caller.owner ?? '', messageId };
        const refused = { ...sender, task: taskId, context: contextId, answers };
        await this.#options.onRefusedAnswers?.(refused, error);
      }
      throw error;
    }
  }

  async #turnOf(incoming: SendRequest, caller: Caller, lastEventId?: string): Promise<Turn> {
    const { taskId, contextId, messageId } = incoming;
    const { trace, ...scope } = caller;
    checkCount(incoming.answers);
    const metadata = trace ? { ...trace, ...incoming.metadata } : incoming.metadata;
    const snapshot = taskId === undefined ? undefined : await this.own(taskId, caller);
    // A message that is sent again is the stored turn, whatever the state of the task is now.
    const again = snapshot?.turns.some((turn) => turn.messageId === messageId) ?? false;
    if (snapshot && contextId !== undefined && contextId !== snapshot.context)
      throw new A2AError(
        'INVALID_PARAMS',
        `invalid contextId "${contextId}": expected that of task "${snapshot.task}"`,
      );
    if (snapshot && isFinal(snapshot.state) && !again) {
      for (const { id } of incoming.answers) await refuseAnswered(this.#log, snapshot, id);
      throw new A2AError(
        'UNSUPPORTED_OPERATION',
        `cannot send: task "${snapshot.task}" is ${snapshot.state}; send without taskId to start a new task`,
      );
    }
    const { parts, answers } =
      snapshot && !again
        ? await matchAnswers(this.#log, snapshot, incoming, lastEventId)
        : incoming;
    const turn: Turn = {
      agent: this.#options.agent,
      task: snapshot?.task ?? uuidV7(),
      context: snapshot?.context ?? contextId ?? uuidV7(),
      messageId,
      parts,
      ...scope,
      ...(answers.length > 0 && { answers }),
      ...(metadata && { metadata }),
    };
    if (snapshot) this.#chars.set(turn, snapshotChars(snapshot));
    return turn;
  }

  /**
   * Stores a turn; durable when it resolves. A message that is stored already returns its entry.
   */
  async submit(turn: Turn): Promise<Submitted> {
    const entry = await this.#options.runner.submit(turn);
    const task = entry.type === 'turn.submitted' ? entry.turn.task : turn.task;
    const chars = this.#chars.get(turn) ?? 0;
    const known = task !== turn.task || entry.seq > 1;
    return { task, entry, known, chars, owner: turn.owner };
  }

  /**
   * The events after a turn, until the task ends or waits for a person. Submits the turn with the
   * first read. If the message was `known`, the stream resumes after the event `after`: some
   * clients reconnect by sending the message again.
   */
  stream(
    submit: () => Promise<Submitted>,
    options: Abortable,
    after?: string,
    historyLength?: number,
  ): AsyncIterable<TaskStreamEvent[]> {
    const begin: BeginStream = async () => {
      const { task, entry, known, chars, owner } = await submit();
      if (!known || after === undefined || seqOf(after) < entry.seq) {
        const sentTask = await this.#catchUps.take(chars, owner, options);
        const now = entry.seq > 1 ? await this.#log.get(task) : undefined;
        // A run that began meanwhile has changed the task. A long log is not read again for the
        // events since: the task has them.
        const isShort = entry.seq <= SHORT_ENTRIES && now?.seq !== entry.seq;
        if (!now || isShort || isFinal(now.state))
          return { task, start: { from: entry.seq, entry }, sentTask };
        return { task, start: { from: now.seq, snapshot: now }, sentTask };
      }
      checkEventId(task, after, (await this.#log.get(task))?.seq ?? 0);
      return { task, start: { after } };
    };
    return followTaskStream(this.#log, begin, options, this.#viewOptions(historyLength));
  }

  /** Resolves when the task has ended or waits for a person. */
  settled(task: string, options: Abortable): Promise<void> {
    return settled(this.#log, task, options);
  }

  /** Reads a task of the caller. */
  async get(task: string, caller: Caller, historyLength?: number): Promise<A2ATask> {
    const snapshot = await this.own(task, caller);
    return this.#view(snapshot, historyLength);
  }

  /** Cancels a task. Resolves with it after its run has ended. */
  async cancel(task: string, caller: Caller, options: Abortable): Promise<A2ATask> {
    const before = await this.own(task, caller);
    if (isFinal(before.state) && before.state !== 'canceled') throw notCancelable(before);
    let now = await this.#log.requestCancel(task).catch(async (error: unknown) => {
      const ended = await this.own(task, caller);
      throw isFinal(ended.state) ? notCancelable(ended) : error;
    });
    if (!isFinal(now.state))
      for await (const entry of this.#log.read(task, now.seq, options)) now = advance(now, entry);
    return this.#view(now);
  }

  /**
   * The events after the event `after`, without loss or repetition, also for a task that has ended.
   * Without `after`, the current task and then the events that follow.
   */
  async subscribe(
    task: string,
    caller: Caller,
    after: string | undefined,
    options: Abortable,
  ): Promise<Subscribed> {
    const snapshot = await this.own(task, caller);
    const { seq, state } = snapshot;
    if (after !== undefined) checkEventId(task, after, seq);
    const chars = snapshotChars(snapshot);
    const begin: BeginStream = async () => {
      if (after !== undefined) return { task, start: { after } };
      const sentTask = await this.#catchUps.take(chars, caller.owner, options);
      // Read again: a stream that waits for memory must not keep the complete task.
      const now = await this.#log.get(task);
      // The stream of a task that has ended meanwhile needs its last event.
      if (!now || isFinal(now.state)) return { task, start: { from: seq, watch: true }, sentTask };
      return { task, start: { from: now.seq, watch: true, snapshot: now }, sentTask };
    };
    const batches = followTaskStream(this.#log, begin, options, this.#viewOptions());
    return { ended: isFinal(state), batches };
  }

  /**
   * One list page of tasks, newest change first. It ends early if its tasks are large. The first
   * page counts all matching tasks; the page token carries that count to the later ones.
   */
  async list(request: ListRequest, caller: Caller): Promise<A2ATaskPage> {
    const { pageSize, artifacts, pageToken, historyLength: length, ...filter } = request;
    const historyLength = Math.min(length, this.#maxHistory);
    const { owner = '', tenant = '' } = caller;
    const query = { ...filter, agent: this.#options.agent, owner, tenant };
    const queryHash = nameId(JSON.stringify(query)).slice(0, 8);
    const { after, total } = parseToken(pageToken, queryHash);
    const totalSize = total ?? (await this.#log.count(query));
    // Texts and artifacts of a task are read only if they are shown.
    const outline = historyLength === 0 && !artifacts && this.#text.pattern === undefined;
    const items = this.#log.list({ ...query, outline, ...(after !== undefined && { after }) });
    const tasks: A2ATask[] = [];
    let checkpoint: string | undefined;
    let more = false;
    let chars = 0;
    for await (const snapshot of items) {
      more = tasks.length === pageSize || chars >= MAX_PAGE_CHARS;
      if (more) break;
      const task = encodeTask(snapshot, { historyLength, artifacts, text: this.#text });
      tasks.push(task);
      // Without history and artifacts a task has a few hundred characters.
      if (historyLength > 0 || artifacts) chars += JSON.stringify(task).length;
      checkpoint = items.checkpoint;
    }
    return {
      tasks,
      nextPageToken: more ? `${checkpoint}.${totalSize}.${queryHash}` : '',
      pageSize,
      totalSize,
    };
  }

  #view(snapshot: Snapshot, length?: number): A2ATask {
    const { historyLength, text } = this.#viewOptions(length);
    return encodeTask(snapshot, { historyLength, text });
  }

  #viewOptions(historyLength = Infinity): Required<TaskViewOptions> {
    return { historyLength: Math.min(historyLength, this.#maxHistory), text: this.#text };
  }

  /**
   * Reads a task of the caller. A task of another owner or tenant is not found, with the same
   * message, so that a caller cannot learn whether it exists.
   */
  async own(task: string, { owner, tenant }: Caller): Promise<Snapshot> {
    const snapshot = await getOwnTask(this.#log, task, {
      agent: this.#options.agent,
      owner,
      tenant,
    });
    if (snapshot) return snapshot;
    throw new A2AError(
      'TASK_NOT_FOUND',
      `task "${task}" not found; check its id and your credentials`,
    );
  }
}

function checkEventId(task: string, after: string, head: Seq): void {
  if (seqOf(after) > head)
    throw new A2AError(
      'INVALID_PARAMS',
      `invalid event id "${after}": expected an event of task "${task}", whose last entry is ${head}`,
    );
}

const notCancelable = ({ task, state }: Snapshot): A2AError =>
  new A2AError('TASK_NOT_CANCELABLE', `cannot cancel: task "${task}" is already ${state}`);

/**
 * Parses a page token. It contains a hash of the query, so that it cannot be used with another
 * filter.
 */
function parseToken(
  token: string | undefined,
  queryHash: string,
): { readonly after?: string; readonly total?: number } {
  if (token === undefined) return {};
  const [, after, total, of] = /^(\d+-\d+)\.(\d{1,15})\.([0-9a-f]{8})$/.exec(token) ?? [];
  if (after === undefined || of !== queryHash)
    throw new A2AError(
      'INVALID_PARAMS',
      'invalid pageToken: expected nextPageToken of the same query',
    );
  return { after, total: Number(total) };
}
