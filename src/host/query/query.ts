import { DuolaneError } from '../../errors.ts';
import { asString, type JsonObject } from '../../json.ts';
import { onAbort } from '../../stream/abort.ts';
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

/** What an aborted query throws. */
export class AbortError extends DuolaneError {
  override readonly name = 'AbortError';

  constructor(message = 'the query was aborted', options?: ErrorOptions) {
    super('canceled', message, options);
  }
}

/**
 * A run of an agent as a generator of messages, with the methods of the official SDK. An error
 * result is yielded and then, at the end of the process, thrown. `close`, `return` and leaving the
 * loop end the process and throw nothing; abort ends it and throws an `AbortError`.
 */
export interface Query
  extends AsyncGenerator<SDKMessage, void, undefined>, Controls, AsyncDisposable {
  /** The session below, for what the official surface has no name for. */
  readonly session: Promise<Session>;
  interrupt(options?: { readonly cancelQueued?: boolean }): Promise<InterruptReceipt>;
  /** More messages, besides those of the prompt; resolves when they are all written. */
  streamInput(stream: AsyncIterable<UserInput>): Promise<void>;
  /** Replaces all in-process servers of the session, and the others as the CLI sees fit. */
  setMcpServers(servers: Readonly<Record<string, McpServerConfig>>): Promise<McpSetServersResult>;
  reinitialize(): Promise<SDKControlInitializeResponse>;
  close(): void;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface QueryInput {
  readonly prompt: string | AsyncIterable<UserInput>;
  readonly options?: QueryOptions;
}

/**
 * Runs a prompt. A text is one message; an iterable may give more later. Stdin stays open until the
 * run is idle either way, so tools, hooks and permissions work with both.
 */
export function query({ prompt, options = {} }: QueryInput): Query {
  checkPrompt(prompt);
  const signal = signalOf(options);
  if (signal?.aborted) throw new AbortError(undefined, { cause: signal.reason });
  const setUp = new AbortController();
  // Derived, since listeners on a signal that many queries share would pile up.
  const unlisten = onAbort(signal && AbortSignal.any([signal]), (reason) => setUp.abort(reason));
  const starting = startSession(options, setUp.signal).finally(unlisten);
  return runOn(starting, prompt, signal, () =>
    setUp.abort(new DuolaneError('closed', 'the query was closed before its agent was started')),
  );
}

/** Of what may be no options, or no controller, at all: the session says so. */
function signalOf(options: QueryOptions | null): AbortSignal | undefined {
  const signal: unknown = options?.abortController?.signal;
  return signal instanceof AbortSignal ? signal : undefined;
}

/** Throws `invalid` for what is neither a text nor an async iterable, before anything is started. */
export function checkPrompt(prompt: unknown): void {
  if (typeof prompt === 'string') return;
  if (typeof prompt === 'object' && prompt !== null && Symbol.asyncIterator in prompt) return;
  const fix = Array.isArray(prompt) ? '; yield its messages from an async generator' : '';
  throw new DuolaneError(
    'invalid',
    `prompt must be a string or an async iterable of user messages, got ${describeValue(prompt)}${fix}`,
  );
}

/** A query on a session that was started before; `leaveSetUp` ends a start that is under way. */
export function runOn(
  starting: Promise<AgentSession>,
  prompt: QueryInput['prompt'],
  signal?: AbortSignal,
  leaveSetUp: () => void = () => {},
): Query {
  const run = new QueryRun(starting, prompt, signal, leaveSetUp);
  const request = async (subtype: string, fields?: JsonObject): Promise<unknown> =>
    (await starting).request(subtype, fields);
  const initialized = async (): Promise<JsonObject> => (await starting).initialized;
  return Object.assign(run, controlsOf(request, initialized));
}

type RunMembers = Omit<Query, keyof Controls>;
type Step = IteratorResult<SDKMessage, void>;

/** How many messages of ours may wait for the end of their life cycle. */
const MINTED = 10_000;

const DONE: Step = { done: true, value: undefined };

class QueryRun implements RunMembers {
  readonly session: Promise<AgentSession>;
  readonly #signal: AbortSignal | undefined;
  readonly #leaveSetUp: () => void;
  readonly generatedUuids = new Set<string>();
  #messages: FrameIterator<JsonObject> | undefined;
  #last: Promise<Step> | undefined;
  #unread = 0;
  #left = false; // we end the run ourselves: what it then says of itself is no failure
  #over = false;
  #inputFailure: { readonly error: unknown } | undefined;

  constructor(
    starting: Promise<AgentSession>,
    prompt: QueryInput['prompt'],
    signal: AbortSignal | undefined,
    leaveSetUp: () => void,
  ) {
    this.session = starting;
    this.#leaveSetUp = leaveSetUp;
    // Derived, since listeners on a signal that many runs share would pile up.
    this.#signal = signal && AbortSignal.any([signal]);
    // It runs whether anybody iterates or not; what goes wrong is told to whoever does.
    this.#drive(prompt).catch((error: unknown) => (this.#inputFailure ??= { error }));
  }

  /** Calls that do not wait for each other are served in order, as those of a generator are. */
  next(): Promise<Step> {
    const value = this.#last || this.#over ? undefined : this.#there();
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
    this[Symbol.asyncDispose]().catch(() => {}); // told by the session's logger
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    this.#left = true;
    this.#leaveSetUp();
    // A session that never started has nothing to dispose; the reader gets the failure.
    const session = await this.session.catch(() => undefined);
    await session?.[Symbol.asyncDispose]();
  }

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
      if (typeof prompt === 'string') await session.send(this.#named(prompt));
      else await this.#feed(session, prompt);
    } catch (error) {
      // A closed pipe is the session's to explain; anything else is the app's own and ends the run.
      if (!(error instanceof DuolaneError && error.code === 'closed')) {
        this.#inputFailure ??= { error };
        this.close();
      }
    }
    session.endInput();
  }

  async #feed(session: AgentSession, stream: AsyncIterable<UserInput>): Promise<void> {
    const { closing } = session;
    let unlisten = (): void => {};
    const closed = new Promise<undefined>((resolve) => {
      unlisten = onAbort(closing, () => resolve(undefined));
    });
    const iterator = stream[Symbol.asyncIterator]();
    try {
      while (!closing.aborted) {
        const step = await Promise.race([iterator.next(), closed]);
        if (!step || step.done || closing.aborted) break;
        await session.send(this.#named(step.value));
      }
    } finally {
      unlisten();
      // Not awaited: an iterator that waits for ever would keep us.
      if (closing.aborted) Promise.resolve(iterator.return?.()).catch(() => {});
    }
  }

  /** With a uuid of ours, whose life cycle the app did not ask to see. */
  #named(given: string | UserInput): JsonObject {
    const message = userFrame(given);
    if (typeof given === 'string' || given.uuid === undefined)
      this.generatedUuids.add(message.uuid);
    // A CLI without `command_lifecycle` never says that it is done with one.
    if (this.generatedUuids.size > MINTED) {
      const [oldest = ''] = this.generatedUuids;
      this.generatedUuids.delete(oldest);
    }
    return message;
  }

  /** What is there already: most messages of a busy run, which then cost one promise. */
  #there(): SDKMessage | undefined {
    for (;;) {
      const message = this.#messages?.take();
      if (!message || this.#isForApp(message)) return message as SDKMessage | undefined;
    }
  }

  // Written by hand and not as an async generator, since every message passes through it.
  readonly #step = (): Promise<Step> =>
    this.#messages && !this.#over
      ? this.#messages.next().then(this.#take, this.#end)
      : this.#begin();

  readonly #take = (step: IteratorResult<JsonObject, void>): Step | Promise<Step> => {
    if (step.done) return this.#finish();
    if (!this.#isForApp(step.value)) return this.#step();
    this.#read();
    return step as IteratorResult<SDKMessage, void>;
  };

  #read(): void {
    this.#unread -= 1;
    if (this.#unread === 0) this.#last = undefined;
  }

  async #begin(): Promise<Step> {
    try {
      if (!this.#over) this.#messages = (await this.session).messages();
    } catch (error) {
      this.#over = true;
      this.#read();
      if (this.#signal?.aborted) throw new AbortError(undefined, { cause: this.#signal.reason });
      if (this.#left) return DONE;
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
    const failed = !this.#left && last?.isError && code !== 0 && code !== null;
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
    // As with the official SDK, the reader gets the AbortError and nothing before it.
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
  const said = Array.isArray(errors) ? errors.join('; ') : asString(text);
  return new DuolaneError('server', `the agent returned an error result: ${said}`, {
    cause: result,
  });
}
