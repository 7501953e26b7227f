import { DuolaneError } from '../../errors.ts';
import { onAbort, sleep } from '../../stream/abort.ts';
import type { A2ATransport, Received } from './a2a-transport.ts';
import type { JsonObject } from '../../json.ts';
import { pollTask } from './poll-task.ts';
import { A2AError } from '../protocol/a2a-errors.ts';
import { isSettled, TaskFold, type StreamProblem } from './task-fold.ts';
import type { A2AMessage, A2AStatus, A2ATask, A2AStreamEvent } from '../protocol/model.ts';

export interface StreamOptions {
  readonly signal?: AbortSignal;
  /** How long the server may be out of reach, or say nothing new, before the stream gives up. */
  readonly retryForMs?: number;
  /** The first wait before coming back; doubled each time, up to ten seconds. */
  readonly retryMs?: number;
  /** Told once when a connection has broken, before it is made again. */
  readonly onDisconnect?: () => void;
}

/** Where a stream begins: with a message, or at a task that runs already. */
export type StreamStart =
  | { readonly params: JsonObject }
  | { readonly task: string; readonly after?: string };

/** What the card says of the server's streams. */
export interface ServerCapabilities {
  /** The server resumes by event id, and takes a message twice as one. */
  readonly exact: boolean;
  /** Undefined: the card does not say, and the first refusal does. */
  readonly streams: boolean | undefined;
}

const RETRY_MS = 250;
const MAX_RETRY_MS = 10_000;
/** How long a server that said `final` too early has to say the real end. */
const EARLY_FINAL_MS = 2000;

/**
 * A task as it happens: its events, each once and in order, up to the end or a wait for a person. A
 * connection that breaks is made again behind the last event; with a server that cannot resume,
 * the next event is the task as it is then. Of a server without streams the task is read until it
 * has settled, and comes as the same events; `problems` says so. `disconnect`, leaving the loop and an abort leave the
 * task alone; `cancel` stops it, and the stream goes on to its end. Read it once.
 */
export class A2AStream implements AsyncIterable<A2AStreamEvent>, AsyncDisposable {
  readonly #wire: A2ATransport;
  readonly #begin: StreamStart;
  readonly #exact: boolean;
  readonly #streams: boolean | undefined;
  readonly #options: StreamOptions;
  readonly #fold = new TaskFold();
  readonly #left = new AbortController();
  #taskId: string | undefined;
  #lastEventId: string | undefined;
  #reading = false;
  #polls = false;
  /** The task as a poll read it last. */
  #polled: A2ATask | undefined;
  /** The last event was the task again, as it had been. */
  #stale = false;

  constructor(
    wire: A2ATransport,
    begin: StreamStart,
    { exact, streams }: ServerCapabilities,
    options: StreamOptions,
  ) {
    this.#wire = wire;
    this.#begin = begin;
    this.#exact = exact;
    this.#streams = streams;
    this.#options = options;
    if (streams === false) this.#beginPolling("the agent's card says that it does not stream");
    if ('task' in begin) {
      this.#taskId = begin.task;
      this.#lastEventId = begin.after;
    }
  }

  get taskId(): string | undefined {
    return this.#taskId;
  }

  /** The id that resumes behind the last event, for `client.resume` in another process. */
  get lastEventId(): string | undefined {
    return this.#lastEventId;
  }

  /** The task as far as it was read. */
  get task(): A2ATask | undefined {
    return this.#fold.task;
  }

  get status(): A2AStatus | undefined {
    return this.#fold.status;
  }

  /** What the agent said so far, in whichever of the two ways it says it. */
  get text(): string {
    return this.#fold.text;
  }

  /** How the server broke the contract, or that it has no streams. */
  get problems(): readonly StreamProblem[] {
    return this.#fold.problems;
  }

  /**
   * Reads to the end: the task, or the plain message that was the whole answer. Of a stream that was
   * left, the task as far as it was read; `closed` if nothing was.
   */
  async result(): Promise<A2ATask | A2AMessage> {
    for await (const _ of this);
    const result = this.#fold.task ?? this.#fold.message;
    if (result) return result;
    throw new DuolaneError('closed', 'the stream was left before its first event');
  }

  /** Asks the server to stop the task. Resolves when it has; the stream then ends by itself. */
  async cancel(): Promise<A2ATask> {
    if (this.#taskId === undefined)
      throw new DuolaneError('invalid', 'there is no task yet; read its first event first');
    const task = await this.#wire.call('cancel', { id: this.#taskId }, this.#options.signal);
    return this.#wire.dialect.decodeTask(task);
  }

  /** Stops reading; the task goes on, and `client.resume` comes back to it. */
  disconnect(): void {
    this.#left.abort(new DuolaneError('closed', 'the stream was left'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.disconnect();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<A2AStreamEvent, void, undefined> {
    if (this.#reading) throw new DuolaneError('invalid', 'a stream is read once');
    this.#reading = true;
    const { signal } = this.#options;
    const stop = new AbortController();
    const unlisten = onAbort(signal, (reason) => stop.abort(reason));
    onAbort(this.#left.signal, (reason) => stop.abort(reason));
    try {
      yield* this.#read(stop.signal);
    } catch (error) {
      if (!this.#left.signal.aborted) throw error;
    } finally {
      unlisten();
      stop.abort();
    }
  }

  async *#read(signal: AbortSignal): AsyncGenerator<A2AStreamEvent, void, undefined> {
    const {
      retryForMs: giveUpMs = 300_000,
      retryMs = RETRY_MS,
      onDisconnect: onLost,
    } = this.#options;
    // From the first connection that brought nothing new: a stream may be quiet for long before it is
    // cut. By a clock that does not jump, as when a laptop wakes.
    let since: number | undefined;
    for (let tries = 0; ; tries++) {
      let failure: unknown;
      try {
        for await (const event of this.#connect(tries, signal)) {
          if (!this.#stale) [since, tries] = [undefined, 0];
          yield event;
          if (this.#fold.settled) return;
        }
      } catch (error) {
        signal.throwIfAborted();
        if (this.#foundOut(error)) continue;
        failure = error;
      }
      if (failure !== undefined && !this.#mayRetry(failure)) throw failure;
      if (this.#taskId === undefined && !this.#exact)
        throw new DuolaneError(
          'malformed',
          'the server closed the stream without naming a task; whether it took the message is unknown, so it is not sent again',
        );
      const exponential = Math.min(retryMs * 2 ** tries, MAX_RETRY_MS);
      const wantedMs = Math.max(this.#wire.retryMs ?? 0, retryAfterOf(failure));
      const pauseMs = Math.max(wantedMs, exponential * (0.5 + Math.random() / 2));
      since ??= performance.now();
      if (performance.now() + pauseMs - since > giveUpMs)
        throw new DuolaneError(
          'network',
          `the stream of task ${this.#taskId ?? '(unknown)'} could not be brought to its end; read the task later`,
          { cause: failure },
        );
      if (tries === 0) onLost?.();
      await sleep(pauseMs, signal);
    }
  }

  /** One connection, from where the last one broke off. */
  async *#connect(
    tries: number,
    signal: AbortSignal,
  ): AsyncGenerator<A2AStreamEvent, void, undefined> {
    const begin = this.#begin;
    if (this.#taskId === undefined) {
      yield* this.#events('stream', 'params' in begin ? begin.params : {}, signal, false);
      return;
    }
    const resumed = tries > 0 || 'params' in begin;
    let told = false;
    try {
      for await (const event of this.#events('subscribe', { id: this.#taskId }, signal, resumed)) {
        told = true;
        yield event;
      }
    } catch (error) {
      if (this.#polls || told || !isRefusedSubscribe(error)) throw error;
      // A task that has ended cannot be subscribed to in 1.0; how it ended can be read. A server
      // without the operation is asked until the task has settled.
      yield* this.#asItIs(signal);
      const known = this.#exact && this.#lastEventId !== undefined;
      if (!known && !this.#fold.settled)
        this.#beginPolling(`the server refused to resume (${DuolaneError.from(error).message})`);
      return;
    }
    // Nothing was missed, or the server says nothing about a task that has ended.
    if (!told && this.#wire.retryMs === undefined) yield* this.#asItIs(signal);
  }

  async *#asItIs(signal: AbortSignal): AsyncGenerator<A2AStreamEvent, void, undefined> {
    const task = await this.#wire.call('get', { id: this.#taskId }, signal);
    const event = { task: this.#wire.dialect.decodeTask(task) };
    // What runs is gone on with by its events; taken up in the middle they would be said twice.
    const byEvents = this.#exact && this.#lastEventId !== undefined;
    if (byEvents && !isSettled(event.task.status.state)) return;
    this.#apply(event, true);
    this.#polled = event.task;
    yield event;
  }

  /** Notes whether an event after a reconnect told something that was not known before it. */
  #apply(event: A2AStreamEvent, resumed: boolean): void {
    const before = resumed && 'task' in event ? wordsOf(this.#fold.task) : undefined;
    this.#fold.apply(event, resumed);
    this.#stale = before !== undefined && before === wordsOf(this.#fold.task);
  }

  async *#events(
    operation: 'stream' | 'subscribe',
    params: JsonObject,
    signal: AbortSignal,
    resumed: boolean,
  ): AsyncGenerator<A2AStreamEvent, void, undefined> {
    const place = this.#exact ? this.#lastEventId : undefined;
    const early = new AbortController();
    const unlisten = onAbort(signal, (reason) => early.abort(reason));
    let timer: NodeJS.Timeout | undefined;
    let first = true;
    try {
      const received = this.#open(operation, params, early.signal, place);
      for await (const each of received) {
        clearTimeout(timer);
        if ('malformed' in each) {
          this.#fold.note('malformed', each.malformed.message);
          continue;
        }
        const { event, id, final, whole } = each;
        this.#apply(whole ? { task: whole } : event, whole !== undefined || (resumed && first));
        this.#polled = whole ?? this.#polled;
        first = false;
        this.#taskId ??= taskIdOf(event);
        if (id !== '') this.#lastEventId = id;
        if (final === true && !this.#fold.settled) {
          this.#fold.note('final-not-terminal', 'an event said final, but the task had not ended');
          timer = setTimeout(() => early.abort(), EARLY_FINAL_MS);
        }
        yield event;
      }
      const missedNothing = first && place !== undefined;
      if (!this.#fold.settled && !missedNothing && this.#wire.retryMs === undefined)
        this.#fold.note('closed-without-final', 'the stream closed before the task had ended');
    } catch (error) {
      // Our own doing: the server kept a stream open that it had called final.
      if (!early.signal.aborted || signal.aborted) throw error;
    } finally {
      clearTimeout(timer);
      unlisten();
    }
  }

  #open(
    operation: 'stream' | 'subscribe',
    params: JsonObject,
    signal: AbortSignal,
    place: string | undefined,
  ): AsyncGenerator<Received, void, undefined> {
    const { retryMs: pauseMs = RETRY_MS } = this.#options;
    if (this.#polls) {
      const { configuration } = 'params' in this.#begin ? this.#begin.params : {};
      const asked = { ...params, ...(configuration !== undefined && { configuration }) };
      return pollTask(this.#wire, operation, asked, { signal, pauseMs, known: this.#polled });
    }
    const lastEventId = operation === 'subscribe' ? place : undefined;
    return this.#wire.stream(operation, params, {
      signal,
      ...(lastEventId !== undefined && { lastEventId }),
    });
  }

  /** Whether the server has just said what its card did not: that it has no streams. What it refused it did not take. */
  #foundOut(error: unknown): boolean {
    if (this.#polls || this.#streams !== undefined || !(error instanceof A2AError)) return false;
    if (error.reason !== 'METHOD_NOT_FOUND' && error.reason !== 'UNSUPPORTED_OPERATION')
      return false;
    this.#beginPolling(`the server refused to stream (${error.message})`);
    return true;
  }

  #beginPolling(why: string): void {
    this.#polls = true;
    this.#fold.note('no-streaming', `${why}; its task was asked for until it had settled`);
  }

  #mayRetry(failure: unknown): boolean {
    const { retryable } = DuolaneError.from(failure);
    // Without a task id the message would be sent again: only where that makes no second task.
    return retryable && (this.#taskId !== undefined || this.#exact);
  }
}

/** Whether the server has no such operation, or not for this task; the task itself may be there. */
const isRefusedSubscribe = (error: unknown): boolean =>
  error instanceof A2AError
    ? error.reason === 'UNSUPPORTED_OPERATION' || error.reason === 'METHOD_NOT_FOUND'
    : error instanceof DuolaneError && NO_ROUTE.has(error.status ?? 0);

/** What a router answers that knows no such path or method. */
const NO_ROUTE: ReadonlySet<number> = new Set([404, 405, 501]);

const retryAfterOf = (failure: unknown): number =>
  (failure instanceof DuolaneError && failure.retryAfterMs) || 0;

/** Without the time: a server may put the present one. */
const wordsOf = (task: A2ATask | undefined): string | undefined =>
  task && JSON.stringify([task.status.state, task.status.message, task.artifacts, task.history]);

function taskIdOf(event: A2AStreamEvent): string | undefined {
  if ('task' in event) return event.task.id;
  if ('statusUpdate' in event) return event.statusUpdate.taskId;
  return 'artifactUpdate' in event ? event.artifactUpdate.taskId : undefined;
}
