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
import { uuidV7 } from '../../task/uuid-v7.ts';
import type { OnRefusedAnswers, Runner, TaskLog } from '../../task/types.ts';
import type { TextOptions } from '../protocol/stream-encoder.ts';
import { A2AError } from '../protocol/a2a-errors.ts';
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

/** Who asks. What belongs to another owner or tenant does not exist for them. */
export interface Caller {
  readonly owner?: string;
  readonly tenant?: string;
  /** The trace that the request came with; it goes with the turn. */
  readonly trace?: JsonObject | undefined;
}

export interface OperationsOptions {
  readonly agent: string;
  readonly log: TaskLog;
  readonly runner: Runner;
  /** How many messages of a task's history are given at most. */
  readonly maxHistory?: number;
  /** How the text of a run is shown. */
  readonly text?: TextOptions;
  /** For an audit log: answers that are refused here; those that the runner refuses are its own. */
  readonly onRefusedAnswers?: OnRefusedAnswers;
}

/**
 * From this size on a page of a list takes no further task. A hundred tasks with their histories and artifacts
 * may have gigabytes, and the caller of a small request chooses that.
 */
const MAX_PAGE_CHARS = 8 * 1024 * 1024;

interface StreamSentOptions {
  /** The last event that the caller has received. */
  readonly after?: string | undefined;
  readonly historyLength?: number | undefined;
}

interface Subscribed {
  /** Whether the task had ended before. */
  readonly ended: boolean;
  readonly batches: AsyncIterable<readonly TaskStreamEvent[]>;
}

/** A turn in the log, with its entry. */
export interface Submitted {
  readonly task: string;
  readonly entry: Entry;
  /** It went to a task that was there before, or it was there itself. */
  readonly known: boolean;
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
  readonly #text: TextOptions;
  readonly #onRefusedAnswers: OnRefusedAnswers | undefined;

  constructor(options: OperationsOptions) {
    const { agent, log, runner, maxHistory = 1000, text = {} } = options;
    this.#onRefusedAnswers = options.onRefusedAnswers;
    this.#agent = agent;
    this.#log = log;
    this.#runner = runner;
    this.#maxHistory = maxHistory;
    this.#text = text;
  }

  /**
   * Checks a message against its task; nothing is written yet. `lastEventId` is the last event that
   * the caller has: plain text cannot answer a question that came behind it.
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
        const place = { agent: this.#agent, owner: caller.owner ?? '', messageId };
        const refused = { ...place, task: taskId, context: contextId, answers };
        await this.#onRefusedAnswers?.(refused, error);
      }
      throw error;
    }
  }

  async #turnOf(incoming: SendRequest, caller: Caller, lastEventId?: string): Promise<Turn> {
    const { taskId, contextId, messageId } = incoming;
    const { trace, ...place } = caller;
    checkCount(incoming.answers);
    const metadata = trace ? { ...trace, ...incoming.metadata } : incoming.metadata;
    const snapshot = taskId === undefined ? undefined : await this.own(taskId, caller);
    // Sent again, it is the message that is there already, whatever has become of the task.
    const again = snapshot?.turns.some((turn) => turn.messageId === messageId) ?? false;
    if (snapshot && contextId !== undefined && contextId !== snapshot.context)
      throw new A2AError('INVALID_PARAMS', `task ${snapshot.task} belongs to another contextId`);
    if (snapshot && isFinal(snapshot.state) && !again) {
      for (const { id } of incoming.answers) await refuseAnswered(this.#log, snapshot, id);
      throw new A2AError(
        'UNSUPPORTED_OPERATION',
        `task ${snapshot.task} is ${snapshot.state} and takes no more messages; send without taskId to start another`,
      );
    }
    const { parts, answers } =
      snapshot && !again
        ? await matchAnswers(this.#log, snapshot, incoming, lastEventId)
        : incoming;
    return {
      agent: this.#agent,
      task: snapshot?.task ?? uuidV7(),
      context: snapshot?.context ?? contextId ?? uuidV7(),
      messageId,
      parts,
      ...place,
      ...(answers.length > 0 && { answers }),
      ...(metadata && { metadata }),
    };
  }

  /** Durable when it resolves; a message that was there already gives its entry of then. */
  async submit(turn: Turn): Promise<Submitted> {
    const entry = await this.#runner.submit(turn);
    const task = entry.type === 'turn.submitted' ? entry.turn.task : turn.task;
    return { task, entry, known: task !== turn.task || entry.seq > 1 };
  }

  /**
   * What follows a turn, up to the end or the next wait for a person; submits it when it is read. A
   * message that was `known` goes on behind `after`, as some clients come back: by sending it again.
   */
  stream(
    submit: () => Promise<Submitted>,
    options: Abortable,
    { after, historyLength }: StreamSentOptions = {},
  ): AsyncIterable<readonly TaskStreamEvent[]> {
    const begin: BeginStream = async () => {
      const { task, entry, known } = await submit();
      if (!known || after === undefined || seqOf(after) < entry.seq)
        return { task, start: { from: entry.seq, entry } };
      checkPlace(task, after, (await this.#log.get(task))?.seq ?? 0);
      return { task, start: { after } };
    };
    return followTaskStream(this.#log, begin, options, this.#shown(historyLength));
  }

  /** Resolves when the task has ended or waits for a person. */
  settled(task: string, options: Abortable): Promise<void> {
    return settled(this.#log, task, options);
  }

  async get(task: string, caller: Caller, historyLength?: number): Promise<A2ATask> {
    const snapshot = await this.own(task, caller);
    return this.#view(snapshot, historyLength);
  }

  /** Resolves with the canceled task once its run has ended. */
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
   * Goes on behind `after`, missing and repeating nothing, also for a task that has ended. Without
   * it, the task as it is and then what follows.
   */
  async subscribe(
    task: string,
    caller: Caller,
    after: string | undefined,
    options: Abortable,
  ): Promise<Subscribed> {
    const { seq, state } = await this.own(task, caller);
    if (after !== undefined) checkPlace(task, after, seq);
    const start = after === undefined ? { from: seq, watch: true } : { after };
    const begin: BeginStream = () => Promise.resolve({ task, start });
    const batches = followTaskStream(this.#log, begin, options, this.#shown());
    return { ended: isFinal(state), batches };
  }

  /** Newest change first. A page ends early when its tasks are long. The first page counts all that match; later ones carry the count along. */
  async list(request: ListRequest, caller: Caller): Promise<A2ATaskPage> {
    const { pageSize, artifacts, pageToken, historyLength: length, ...filter } = request;
    const historyLength = Math.min(length, this.#maxHistory);
    const { owner = '', tenant = '' } = caller;
    const query = { ...filter, agent: this.#agent, owner, tenant };
    const which = nameId(JSON.stringify(query)).slice(0, 8);
    const { after, total } = parseToken(pageToken, which);
    const totalSize = total ?? (await this.#log.count(query));
    // What a task has said and made is read only if it is shown.
    const outline = historyLength === 0 && !artifacts && this.#text.pattern === undefined;
    const items = this.#log.list({
      ...query,
      outline,
      ...(after !== undefined && { after }),
    });
    const tasks: A2ATask[] = [];
    let place: string | undefined;
    let more = false;
    let chars = 0;
    for await (const snapshot of items) {
      more = tasks.length === pageSize || chars >= MAX_PAGE_CHARS;
      if (more) break;
      const task = encodeTask(snapshot, { historyLength, artifacts, text: this.#text });
      tasks.push(task);
      // Without both, a task is some hundred characters.
      if (historyLength > 0 || artifacts) chars += JSON.stringify(task).length;
      place = items.checkpoint;
    }
    return {
      tasks,
      nextPageToken: more ? `${place}.${totalSize}.${which}` : '',
      pageSize,
      totalSize,
    };
  }

  #view(snapshot: Snapshot, length?: number): A2ATask {
    const { historyLength, text } = this.#shown(length);
    return encodeTask(snapshot, { historyLength, text });
  }

  #shown(historyLength = Infinity): Required<TaskViewOptions> {
    return { historyLength: Math.min(historyLength, this.#maxHistory), text: this.#text };
  }

  /**
   * Reads a task of the caller. A task of another owner or tenant is not found, with the same message, so
   * that a caller cannot learn whether it exists.
   */
  async own(task: string, { owner, tenant }: Caller): Promise<Snapshot> {
    const snapshot = await getOwnTask(this.#log, task, { agent: this.#agent, owner, tenant });
    if (snapshot) return snapshot;
    throw new A2AError(
      'TASK_NOT_FOUND',
      `task "${task}" not found; check its id and your credentials`,
    );
  }
}

function checkPlace(task: string, after: string, head: Seq): void {
  if (seqOf(after) > head)
    throw new A2AError('INVALID_PARAMS', `task ${task} has no event ${after}; its last is ${head}`);
}

const notCancelable = ({ task, state }: Snapshot): A2AError =>
  new A2AError('TASK_NOT_CANCELABLE', `task ${task} is already ${state}`);

/** `which` list it is for is in a token, lest another one go on at a place, and with a count, of this. */
function parseToken(
  token: string | undefined,
  which: string,
): { readonly after?: string; readonly total?: number } {
  if (token === undefined) return {};
  const [, after, total, of] = /^(\d+-\d+)\.(\d{1,15})\.([0-9a-f]{8})$/.exec(token) ?? [];
  if (after === undefined || of !== which)
    throw new A2AError('INVALID_PARAMS', 'pageToken is none that this server gave for this list');
  return { after, total: Number(total) };
}
