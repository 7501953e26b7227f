import { DuolaneError } from '../../errors.ts';
import { asString, type JsonObject } from '../../json.ts';
import { abortable, onAbort } from '../../stream/abort.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import { type Controls, controlsOf } from './controls.ts';
import type {
  McpSetServersResult,
  SDKControlInitializeResponse,
} from '../sdk-types/cli-info-types.ts';
import type { SDKMessage, UserInput } from '../sdk-types/message-types.ts';
import { userFrame } from '../frames/host-messages.ts';
import { startSession } from '../session/open-session.ts';
import type { McpServerConfig, QueryOptions } from '../options/options.ts';
import type { AgentSession } from '../session/agent-session.ts';
import { describeValue } from '../options/describe-value.ts';
import type { InterruptReceipt, Session } from '../types.ts';
import type { FrameIterator } from '../frames/frame-iterator.ts';

/** The error of an aborted query. */
export class AbortError extends DuolaneError {
  override readonly name = 'AbortError';

  constructor(message = 'the query was aborted', options?: ErrorOptions) {
    super('canceled', message, options);
  }
}

/**
 * One run of an agent: a generator of messages with the control methods of the official SDK. An
 * error result is yielded and then, at the end of the process, thrown. `close`, `return` and
 * breaking out of the loop end the process without an error; an abort ends it and throws an
 * `AbortError`.
 */
export interface Query
  extends AsyncGenerator<SDKMessage, void, undefined>, Controls, AsyncDisposable {
  /** The session of the query, for features that the official SDK does not have. */
  readonly session: Promise<Session>;
  /** Interrupts the running turn; resolves with the CLI's receipt. */
  interrupt(options?: { readonly cancelQueued?: boolean }): Promise<InterruptReceipt>;
  /** Sends more messages beside those of the prompt; resolves when all are written. */
  streamInput(stream: AsyncIterable<UserInput>): Promise<void>;
  /** Replaces all in-process servers of the session; the CLI decides about its own servers. */
  setMcpServers(servers: Readonly<Record<string, McpServerConfig>>): Promise<McpSetServersResult>;
  /** Sends `initialize` again; permission requests that are still open are handled. */
  reinitialize(): Promise<SDKControlInitializeResponse>;
  /** Ends the process without waiting for it. */
  close(): void;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface QueryInput {
  /** One message, or an iterable of messages. */
  readonly prompt: string | AsyncIterable<UserInput>;
  readonly options?: QueryOptions;
}

/**
 * Runs a prompt. A string is one message; an iterable may yield more later. In both cases stdin
 * stays open until the run is idle, so tools, hooks and permissions work with both.
 *
 * @example
 * for await (const message of query({ prompt: 'Summarize README.md' })) {
 *   if (message.type === 'result' && message.subtype === 'success') console.log(message.result);
 * }
 */
export function query({ prompt, options = {} }: QueryInput): Query {
  checkPrompt(prompt);
  const signal = signalOf(options);
  if (signal?.aborted) throw new AbortError(undefined, { cause: signal.reason });
  const setUp = new AbortController();
  // A derived signal: one that many queries share would collect their listeners.
  const unlisten = onAbort(signal && AbortSignal.any([signal]), (reason) => setUp.abort(reason));
  const starting = startSession(options, setUp.signal).finally(unlisten);
  return runOn(starting, prompt, signal, () =>
    setUp.abort(new DuolaneError('closed', 'the query was closed before its agent was started')),
  );
}

/**
 * The signal of options that are not validated yet. The session reports what is wrong with them.
 */
function signalOf(options: QueryOptions | null): AbortSignal | undefined {
  const signal: unknown = options?.abortController?.signal;
  return signal instanceof AbortSignal ? signal : undefined;
}

/**
 * Throws `invalid` for a prompt that is neither a string nor an async iterable, before a process is
 * started.
 */
export function checkPrompt(prompt: unknown): void {
  if (typeof prompt === 'string') return;
  if (typeof prompt === 'object' && prompt !== null && Symbol.asyncIterator in prompt) return;
  const fix = Array.isArray(prompt) ? '; yield its messages from an async generator' : '';
  throw new DuolaneError(
    'invalid',
    `prompt must be a string or an async iterable of user messages, got ${describeValue(prompt)}${fix}`,
  );
}

/** Runs a query on a session that starts or has started; `cancelStart` cancels a start. */
export function runOn(
  starting: Promise<AgentSession>,
  prompt: QueryInput['prompt'],
  signal?: AbortSignal,
  cancelStart: () => void = () => {},
): Query {
  const run = new QueryRun(starting, prompt, signal, cancelStart);
  const request = async (subtype: string, fields?: JsonObject): Promise<unknown> =>
    (await starting).request(subtype, fields);
  const initialized = async (): Promise<JsonObject> => (await starting).initialized;
  return Object.assign(run, controlsOf(request, initialized));
}

type RunMembers = Omit<Query, keyof Controls>;
type Step = IteratorResult<SDKMessage, void>;

/** How many generated uuids are kept until the CLI reports the end of their message. */
const MAX_GENERATED = 10_000;

const DONE: Step = { done: true, value: undefined };

/**
 * The generator of a query. Its own `next` keeps the order of calls that do not wait for each
 * other.
 */
class QueryRun implements RunMembers {
  readonly session: Promise<AgentSession>;
  readonly #signal: AbortSignal | undefined;
  readonly #cancelStart: () => void;
  readonly generatedUuids = new Set<string>();
  #messages: FrameIterator<SDKMessage> | undefined;
  #last: Promise<Step> | undefined;
  #unread = 0;
  #closed = false; // the app ended the run, so its exit code is not a failure
  #over = false;
  #inputFailure: { readonly error: unknown } | undefined;

  constructor(
    starting: Promise<AgentSession>,
    prompt: QueryInput['prompt'],
    signal: AbortSignal | undefined,
    cancelStart: () => void,
  ) {
    this.session = starting;
    this.#cancelStart = cancelStart;
    // A derived signal: one that many runs share would collect their listeners.
    this.#signal = signal && AbortSignal.any([signal]);
    // The prompt is sent also without a reader. A reader gets the error.
    this.#drive(prompt).catch((error: unknown) => (this.#inputFailure ??= { error }));
  }

  /** Calls that do not wait for each other are served in order, as those of a generator. */
  next(): Promise<Step> {
    // Most messages of a busy run are available already; they cost one promise.
    const value = this.#last || this.#over ? undefined : this.#messages?.take();
    if (value) return Promise.resolve({ done: false, value });
    this.#unread += 1;
    this.#last = this.#last ? this.#last.then(this.#step, this.#step) : this.#step();
    return this.#last;
  }

  async return(): Promise<Step> {
    this.#over = true;
    await this[Symbol.asyncDispose]();
    return DONE;
  }

  async throw(error: unknown): Promise<Step> {
    await this.return();
    throw error;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  close(): void {
    this[Symbol.asyncDispose]().catch(() => {}); // the session logs the error
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(async () => {
    this.#closed = true;
    this.#cancelStart();
    // A session that never started has nothing to dispose; the reader gets the error.
    const session = await this.session.catch(() => undefined);
    await session?.[Symbol.asyncDispose]();
  });

  async interrupt(options?: { readonly cancelQueued?: boolean }): Promise<InterruptReceipt> {
    return (await this.session).interrupt(options);
  }

  async streamInput(stream: AsyncIterable<UserInput>): Promise<void> {
    await this.#feed(await this.session, stream);
  }

  async setMcpServers(
    servers: Readonly<Record<string, McpServerConfig>>,
  ): Promise<McpSetServersResult> {
    return (await (await this.session).setServers(servers)) as McpSetServersResult;
  }

  async reinitialize(): Promise<SDKControlInitializeResponse> {
    return (await (await this.session).reinitialize()) as SDKControlInitializeResponse;
  }

  async #drive(prompt: QueryInput['prompt']): Promise<void> {
    const session = await this.session;
    const unlisten = onAbort(this.#signal, () => this.close());
    onAbort(session.closing, unlisten);
    try {
      if (typeof prompt === 'string') await session.send(this.#withUuid(prompt));
      else await this.#feed(session, prompt);
    } catch (error) {
      // The session reports a closed pipe. Any other error comes from the app and ends the run.
      if (!(error instanceof DuolaneError && error.code === 'closed')) {
        this.#inputFailure ??= { error };
        this.close();
      }
    }
    session.endInput();
  }

  async #feed(session: AgentSession, stream: AsyncIterable<UserInput>): Promise<void> {
    const { closing } = session;
    // `abortable` ends the wait for an iterator that never yields when the session closes.
    try {
      for await (const message of abortable(stream, closing))
        await session.send(this.#withUuid(message));
    } catch (error) {
      if (!closing.aborted || error !== closing.reason) throw error;
    }
  }

  /** The message with a uuid. The app does not see the life cycle of a generated uuid. */
  #withUuid(given: string | UserInput): JsonObject {
    const message = userFrame(given);
    if (typeof given === 'string' || given.uuid === undefined)
      this.generatedUuids.add(message.uuid);
    // A CLI without `command_lifecycle` never reports the end of a message.
    if (this.generatedUuids.size > MAX_GENERATED) {
      const [oldest = ''] = this.generatedUuids;
      this.generatedUuids.delete(oldest);
    }
    return message;
  }

  // Not an async generator, because every message passes through it.
  readonly #step = (): Promise<Step> =>
    this.#messages && !this.#over
      ? this.#messages.next().then(this.#take, this.#end)
      : this.#begin();

  readonly #take = (step: Step): Step | Promise<Step> => {
    if (step.done) return this.#finish();
    this.#read();
    return step;
  };

  readonly #select = (message: JsonObject): SDKMessage | undefined =>
    this.#isForApp(message) ? (message as SDKMessage) : undefined;

  #read(): void {
    this.#unread -= 1;
    if (this.#unread === 0) this.#last = undefined;
  }

  async #begin(): Promise<Step> {
    try {
      if (!this.#over) this.#messages = (await this.session).selectMessages(this.#select);
    } catch (error) {
      this.#over = true;
      this.#read();
      if (this.#signal?.aborted) throw new AbortError(undefined, { cause: this.#signal.reason });
      if (this.#closed) return DONE;
      throw error;
    }
    if (!this.#over) return this.#step();
    this.#read();
    return DONE;
  }

  async #finish(): Promise<Step> {
    const session = await this.session;
    let code: number | null;
    try {
      ({ code } = await session.done);
    } catch (error) {
      return this.#end(error);
    }
    const last = session.turns.last;
    const failed = !this.#closed && last?.isError && code !== 0 && code !== null;
    return this.#end(failed ? errorResult(last.message) : undefined);
  }

  readonly #end = async (error?: unknown): Promise<Step> => {
    const isOver = this.#over;
    this.#over = true;
    this.#read();
    await this[Symbol.asyncDispose]();
    if (isOver) return DONE;
    this.#throwIfAborted();
    if (error !== undefined) throw error;
    return DONE;
  };

  #throwIfAborted(): void {
    if (this.#inputFailure) throw this.#inputFailure.error;
    if (this.#signal?.aborted) throw new AbortError(undefined, { cause: this.#signal.reason });
  }

  #isForApp(message: JsonObject): boolean {
    // As in the official SDK, the reader gets no more messages before the AbortError.
    if (this.#signal?.aborted) return false;
    const { type } = message;
    if (type === 'system' && message['host'] === true)
      return message['subtype'] === 'tool_response_lost' || message['subtype'] === 'stalled';
    const uuid = message['command_uuid'];
    if (type !== 'command_lifecycle' || typeof uuid !== 'string') return true;
    const ours = this.generatedUuids.has(uuid);
    if (message['state'] === 'completed' || message['state'] === 'cancelled')
      this.generatedUuids.delete(uuid);
    return !ours;
  }
}

function errorResult(result: JsonObject): DuolaneError {
  const { errors, result: text } = result;
  const reason = Array.isArray(errors) ? errors.join('; ') : asString(text);
  return new DuolaneError('server', `the agent returned an error result: ${reason}`, {
    cause: result,
  });
}
