import { DuolaneError } from '../../errors.ts';
import { onAbort, sleep } from '../../stream/abort.ts';
import type { A2ATransport, Received } from './a2a-transport.ts';
import type { InputRequest } from '../../ask.ts';
import type { JsonObject } from '../../json.ts';
import { pollTask } from './poll-task.ts';
import { A2AError } from '../protocol/a2a-errors.ts';
import { questionsOf } from './task-questions.ts';
import { isSettled, TaskFold, type StreamProblem } from './task-fold.ts';
import type { A2AMessage, A2AStatus, A2ATask, A2AStreamEvent } from '../protocol/model.ts';

/** Options of a stream of the client. */
export interface StreamOptions {
  readonly signal?: AbortSignal;
  /** How long the server may be unreachable, or send nothing new, before the stream fails. */
  readonly retryForMs?: number;
  /** The first pause before a reconnect; doubled each time, up to ten seconds. */
  readonly retryMs?: number;
  /** Called once when a connection was lost, before the first reconnect. */
  readonly onDisconnect?: () => void;
}

/** How a stream begins: with a message to send, or at a task that exists. */
export type StreamStart =
  | { readonly params: JsonObject }
  | { readonly task: string; readonly after?: string };

/** What the agent card says about the server's streams. */
export interface ServerCapabilities {
  /** The server resumes by event id, and handles a message that is sent twice once. */
  readonly exact: boolean;
  /** Undefined if the card does not say: the first request finds out. */
  readonly streams: boolean | undefined;
}

const RETRY_MS = 250;
const MAX_RETRY_MS = 10_000;
/** How long the client waits for the real end after a server sent `final` too early. */
const EARLY_FINAL_MS = 2000;

/**
 * The events of a task, each once and in order, until the task ends or waits for a person. After a
 * lost connection the stream resumes after the last event; if the server cannot resume, the next
 * event is the current task. If the server has no streams, the client polls the task and yields the
 * same events; `problems` reports that. `disconnect`, breaking out of the loop and an abort do not
 * affect the task; `cancel` does, and the stream continues to its end. It can be read once.
 */
export class A2AStream implements AsyncIterable<A2AStreamEvent>, AsyncDisposable {
  readonly #transport: A2ATransport;
  readonly #start: StreamStart;
  readonly #exact: boolean;
  readonly #streams: boolean | undefined;
  readonly #options: StreamOptions;
  readonly #fold = new TaskFold();
  readonly #disconnected = new AbortController();
  #taskId: string | undefined;
  #lastEventId: string | undefined;
  #reading = false;
  #polls = false;
  /** The task as the last poll returned it. */
  #polled: A2ATask | undefined;
  /**
   * Whether the last event was a task that had not changed, so that it does not count as progress.
   */
  #stale = false;

  constructor(
    transport: A2ATransport,
    start: StreamStart,
    { exact, streams }: ServerCapabilities,
    options: StreamOptions,
  ) {
    this.#transport = transport;
    this.#start = start;
    this.#exact = exact;
    this.#streams = streams;
    this.#options = options;
    if (streams === false) this.#startPolling("the agent's card says that it does not stream");
    if ('task' in start) {
      this.#taskId = start.task;
      this.#lastEventId = start.after;
    }
  }

  /** The id of the task; undefined before its first event. */
  get taskId(): string | undefined {
    return this.#taskId;
  }

  /** The event id to resume after, for `client.resume` in another process. */
  get lastEventId(): string | undefined {
    return this.#lastEventId;
  }

  /** The task, folded from the events so far. */
  get task(): A2ATask | undefined {
    return this.#fold.task;
  }

  /** The last status of the task. */
  get status(): A2AStatus | undefined {
    return this.#fold.status;
  }

  /** The agent's text so far, whether the server sends it as artifacts or as status messages. */
  get text(): string {
    return this.#fold.text;
  }

  /** The questions that the task waits for; `client.answer` answers them. */
  get questions(): readonly InputRequest[] {
    const { status } = this.#fold;
    return status ? questionsOf(status) : [];
  }

  /** How the server broke the stream contract, or that it has no streams. */
  get problems(): readonly StreamProblem[] {
    return this.#fold.problems;
  }

  /**
   * Reads to the end and returns the task, or the message if the agent replied without a task.
   * After `disconnect` it returns the task as far as it was read, and throws `closed` if nothing
   * was.
   */
  async result(): Promise<A2ATask | A2AMessage> {
    for await (const _ of this);
    const result = this.#fold.task ?? this.#fold.message;
    if (result) return result;
    throw new DuolaneError('closed', 'the stream was disconnected before its first event');
  }

  /** Cancels the task. Resolves when the server has canceled it; the stream then ends. */
  async cancel(): Promise<A2ATask> {
    if (this.#taskId === undefined)
      throw new DuolaneError(
        'invalid',
        'cannot cancel: the stream has no task yet; read its first event first',
      );
    const task = await this.#transport.call('cancel', { id: this.#taskId }, this.#options.signal);
    return this.#transport.dialect.decodeTask(task);
  }

  /** Stops reading. The task continues; `client.resume` subscribes to it again. */
  disconnect(): void {
    this.#disconnected.abort(new DuolaneError('closed', 'the stream was disconnected'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.disconnect();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<A2AStreamEvent, void, undefined> {
    if (this.#reading)
      throw new DuolaneError(
        'invalid',
        'cannot read the stream: it was read already; use client.resume to read it again',
      );
    this.#reading = true;
    const { signal } = this.#options;
    const stop = new AbortController();
    const unlisten = onAbort(signal, (reason) => stop.abort(reason));
    onAbort(this.#disconnected.signal, (reason) => stop.abort(reason));
    try {
      yield* this.#read(stop.signal);
    } catch (error) {
      if (!this.#disconnected.signal.aborted) throw error;
    } finally {
      unlisten();
      stop.abort();
    }
  }

  async *#read(signal: AbortSignal): AsyncGenerator<A2AStreamEvent, void, undefined> {
    const { retryForMs = 300_000, retryMs = RETRY_MS, onDisconnect } = this.#options;
    // The time of the first connection that brought nothing new. It is not the time of the last
    // event: a stream may be silent for long before its connection is lost. `performance.now()`
    // does not jump when the system clock is set.
    let since: number | undefined;
    // The caller has an event and has not asked for the next one, or never will.
    let isAway = false;
    for (let tries = 0; ; tries++) {
      let failure: unknown;
      try {
        for await (const event of this.#connect(tries, signal)) {
          if (!this.#stale) [since, tries] = [undefined, 0];
          isAway = true;
          yield event;
          if (this.#fold.settled) return;
          isAway = false;
        }
      } catch (error) {
        // The connection could not be closed: it was lost meanwhile, and is no longer needed.
        if (isAway) return;
        signal.throwIfAborted();
        if (this.#refusedToStream(error)) continue;
        failure = error;
      }
      if (failure !== undefined && !this.#mayRetry(failure)) throw failure;
      if (this.#taskId === undefined && !this.#exact)
        throw new DuolaneError(
          'malformed',
          'the server closed the stream before it sent a task: expected a task id; the message may have been accepted, so it is not sent again',
        );
      const exponential = Math.min(retryMs * 2 ** tries, MAX_RETRY_MS);
      const wantedMs = Math.max(this.#transport.retryMs ?? 0, retryAfterOf(failure));
      const pauseMs = Math.max(wantedMs, exponential * (0.5 + Math.random() / 2));
      since ??= performance.now();
      if (performance.now() + pauseMs - since > retryForMs)
        throw new DuolaneError(
          'network',
          `the stream of task "${this.#taskId ?? '(unknown)'}" stopped: no new event within retryForMs (${retryForMs} ms); read the task later`,
          { cause: failure },
        );
      if (tries === 0) onDisconnect?.();
      await sleep(pauseMs, signal);
    }
  }

  /** Reads one connection, starting where the previous one was lost. */
  async *#connect(
    tries: number,
    signal: AbortSignal,
  ): AsyncGenerator<A2AStreamEvent, void, undefined> {
    const start = this.#start;
    if (this.#taskId === undefined) {
      yield* this.#events('stream', 'params' in start ? start.params : {}, signal, false);
      return;
    }
    const resumed = tries > 0 || 'params' in start;
    let received = false;
    try {
      for await (const event of this.#events('subscribe', { id: this.#taskId }, signal, resumed)) {
        received = true;
        yield event;
      }
    } catch (error) {
      if (this.#polls || received || !isRefusedSubscribe(error)) throw error;
      // A 1.0 server refuses to subscribe to a final task, whose result can still be read. A server
      // without the operation is polled until the task has settled.
      yield* this.#readTask(signal);
      const known = this.#exact && this.#lastEventId !== undefined;
      if (!known && !this.#fold.settled)
        this.#startPolling(`the server refused to resume (${DuolaneError.from(error).message})`);
      return;
    }
    // No event came: nothing was missed, or the server sends no events for a final task.
    if (!received && !this.#isPaused) yield* this.#readTask(signal);
  }

  /**
   * Whether the server wants the client to come back later. Only servers that resume by event id
   * mean that by `retry:`; others send it with every stream.
   */
  get #isPaused(): boolean {
    return this.#exact && this.#transport.retryMs !== undefined;
  }

  async *#readTask(signal: AbortSignal): AsyncGenerator<A2AStreamEvent, void, undefined> {
    const task = await this.#transport.call('get', { id: this.#taskId }, signal);
    const event = { task: this.#transport.dialect.decodeTask(task) };
    // A running task continues by its events. To apply its snapshot here would repeat the events
    // between the last event id and the snapshot.
    const byEvents = this.#exact && this.#lastEventId !== undefined;
    if (byEvents && !isSettled(event.task.status.state)) return;
    this.#apply(event, true);
    this.#polled = event.task;
    yield event;
  }

  /** Folds an event, and notes whether a task after a reconnect contained anything new. */
  #apply(event: A2AStreamEvent, resumed: boolean): void {
    const before = resumed && 'task' in event ? contentOf(this.#fold.task) : undefined;
    this.#fold.apply(event, resumed);
    this.#stale = before !== undefined && before === contentOf(this.#fold.task);
  }

  async *#events(
    operation: 'stream' | 'subscribe',
    params: JsonObject,
    signal: AbortSignal,
    resumed: boolean,
  ): AsyncGenerator<A2AStreamEvent, void, undefined> {
    const after = this.#exact ? this.#lastEventId : undefined;
    const early = new AbortController();
    const unlisten = onAbort(signal, (reason) => early.abort(reason));
    let timer: ReturnType<typeof setTimeout> | undefined;
    let first = true;
    try {
      const received = this.#open(operation, params, early.signal, after);
      for await (const each of received) {
        clearTimeout(timer);
        if ('malformed' in each) {
          this.#fold.note('malformed', each.malformed.message);
          continue;
        }
        const { event, id, final, task } = each;
        this.#apply(task ? { task } : event, task !== undefined || (resumed && first));
        this.#polled = task ?? this.#polled;
        first = false;
        this.#taskId ??= taskIdOf(event);
        if (id !== '') this.#lastEventId = id;
        if (final === true && !this.#fold.settled) {
          this.#fold.note(
            'final-not-terminal',
            'an event had final: true, but the task had not ended',
          );
          timer = setTimeout(() => early.abort(), EARLY_FINAL_MS);
        }
        yield event;
      }
      const missedNothing = first && after !== undefined;
      if (!this.#fold.settled && !missedNothing && !this.#isPaused)
        this.#fold.note('closed-without-final', 'the stream closed before the task had ended');
    } catch (error) {
      // The client aborted it: the server kept a stream open after an event with `final`.
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
    after: string | undefined,
  ): AsyncGenerator<Received, void, undefined> {
    const { retryMs: pauseMs = RETRY_MS } = this.#options;
    if (this.#polls) {
      const { configuration } = 'params' in this.#start ? this.#start.params : {};
      const polled = { ...params, ...(configuration !== undefined && { configuration }) };
      return pollTask(this.#transport, operation, polled, { signal, pauseMs, known: this.#polled });
    }
    const lastEventId = operation === 'subscribe' ? after : undefined;
    return this.#transport.stream(operation, params, {
      signal,
      ...(lastEventId !== undefined && { lastEventId }),
    });
  }

  /**
   * Whether the server refused to stream and its card had not said so. Switches to polling, which
   * sends the message again: a refused message was not accepted.
   */
  #refusedToStream(error: unknown): boolean {
    if (this.#polls || this.#streams !== undefined || !(error instanceof A2AError)) return false;
    if (error.reason !== 'METHOD_NOT_FOUND' && error.reason !== 'UNSUPPORTED_OPERATION')
      return false;
    this.#startPolling(`the server refused to stream (${error.message})`);
    return true;
  }

  #startPolling(why: string): void {
    this.#polls = true;
    this.#fold.note('no-streaming', `${why}; the client polled the task instead`);
  }

  #mayRetry(failure: unknown): boolean {
    const { retryable } = DuolaneError.from(failure);
    // Without a task id a retry sends the message again, which must not create a second task.
    return retryable && (this.#taskId !== undefined || this.#exact);
  }
}

/**
 * Whether the server lacks the operation, or refuses it for this task. The task itself may exist.
 */
const isRefusedSubscribe = (error: unknown): boolean =>
  error instanceof A2AError
    ? error.reason === 'UNSUPPORTED_OPERATION' || error.reason === 'METHOD_NOT_FOUND'
    : error instanceof DuolaneError && NO_ROUTE.has(error.status ?? 0);

/** The HTTP statuses of a router that has no such path or method. */
const NO_ROUTE: ReadonlySet<number> = new Set([404, 405, 501]);

const retryAfterOf = (failure: unknown): number =>
  (failure instanceof DuolaneError && failure.retryAfterMs) || 0;

/** A task for comparison. Without its time, which some servers set to the time of the request. */
const contentOf = (task: A2ATask | undefined): string | undefined =>
  task && JSON.stringify([task.status.state, task.status.message, task.artifacts, task.history]);

function taskIdOf(event: A2AStreamEvent): string | undefined {
  if ('task' in event) return event.task.id;
  if ('statusUpdate' in event) return event.statusUpdate.taskId;
  return 'artifactUpdate' in event ? event.artifactUpdate.taskId : undefined;
}
