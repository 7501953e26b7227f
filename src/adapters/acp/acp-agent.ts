import { resolve } from 'node:path';
import { DuolaneError } from '../../errors.ts';
import type {
  Agent,
  AgentContext,
  AgentEvent,
  FinishReason,
  Frame,
  Turn,
} from '../../event/types.ts';
import { asObject, asString, type JsonObject } from '../../json.ts';
import { onAbort, raceAbort } from '../../stream/abort.ts';
import { Channel } from '../../stream/channel.ts';
import type { RpcCall } from '../../wire/rpc-link.ts';
import { AcpConnection } from './acp-connection.ts';
import { type AcpOptions, clientCapabilities, mcpServersFor } from './acp-options.ts';
import { AcpQuestions, callMethod } from './client-requests.ts';
import { promptBlock } from './content-blocks.ts';
import {
  type AcpSession,
  configureSession,
  markSent,
  openAcpSession,
  type LoadedUpdates,
} from './session-choice.ts';
import { UpdateReader } from './update-reader.ts';

const CANCEL_TIMEOUT_MS = 5_000;
/** How many updates may wait for the reader of the run before the agent's output is left unread. */
const MAX_QUEUED = 1_000;

/**
 * Runs any agent that speaks the Agent Client Protocol over stdio as an `Agent`: one process for
 * each run. Text, reasoning, tool calls, plans and notices are streamed; permission requests go to
 * the person by `ctx.ask`; a cancel is sent to the agent, whose process tree is then ended. A later
 * turn of the task, and a run that was interrupted, load the session if the agent can do that.
 *
 * @example
 * ```ts
 * import { acp } from 'duolane/adapters/acp';
 * import { serve } from 'duolane/serve';
 *
 * await using served = await serve(acp('gemini', { args: ['--acp'] }));
 * ```
 */
export function acp(command: string, options: AcpOptions = {}): Agent {
  const capabilities = clientCapabilities(options);
  // The process starts with the first event that is asked for: a run that is never read, or that
  // was stopped before it began, starts none.
  const run: Agent = async function* (turn, ctx) {
    ctx.signal.throwIfAborted();
    yield* new AcpRun(command, options, turn, ctx).events(capabilities);
  };
  return Object.assign(run, { resumable: options.resumable ?? true });
}

const ACCEPTED = Promise.resolve();

/** What the run takes from its queue. */
type QueueItem =
  | { readonly update: JsonObject }
  | { readonly event: AgentEvent }
  | { readonly permission: JsonObject; readonly call: RpcCall; readonly settle: Settle }
  | { readonly response: JsonObject };

interface Settle {
  readonly resolve: (result: Promise<JsonObject> | JsonObject) => void;
}

/** One turn with an ACP agent. */
class AcpRun {
  readonly #options: AcpOptions;
  readonly #turn: Turn;
  readonly #ctx: AgentContext;
  readonly #queue = new Channel<QueueItem>({ capacity: MAX_QUEUED });
  readonly #questions: AcpQuestions;
  readonly #connection: AcpConnection;
  #replay: LoadedUpdates | undefined;
  #isPrompting = false;
  #isStopped = false;
  #cancelTimer: NodeJS.Timeout | undefined;

  constructor(command: string, options: AcpOptions, turn: Turn, ctx: AgentContext) {
    this.#options = options;
    this.#turn = turn;
    this.#ctx = ctx;
    this.#questions = new AcpQuestions(turn, ctx);
    this.#connection = new AcpConnection(command, options, {
      handle: (method, params, call) => this.#handle(method, params, call),
      onUpdate: (params) => this.#onUpdate(params),
      onFrame: (frame) => this.#onFrame(frame),
      warn: (message, data) => ctx.logger.warn(message, data),
    });
  }

  async *events(capabilities: JsonObject): AsyncGenerator<AgentEvent, void, undefined> {
    const connection = this.#connection;
    let unlisten = (): void => {};
    try {
      // Before the session exists there is nothing to cancel: the process is ended.
      const session = await raceAbort(this.#open(capabilities), this.#ctx.signal);
      unlisten = onAbort(this.#ctx.signal, (reason) => this.#stop(reason, session));
      // The first event, since the log keeps the session id of the first one only.
      yield { type: 'run.started', sessionId: session.sessionId };
      yield* this.#prompt(session);
    } catch (error) {
      this.#ctx.signal.throwIfAborted();
      throw error;
    } finally {
      unlisten();
      clearTimeout(this.#cancelTimer);
      this.#isStopped = true;
      this.#queue.close();
      await connection[Symbol.asyncDispose]();
    }
  }

  async #open(capabilities: JsonObject): Promise<AcpSession> {
    const { cwd = '.', additionalDirectories = [] } = this.#options;
    const connection = this.#connection;
    await connection.initialize(capabilities, this.#options);
    const canAdd = connection.can('sessionCapabilities', 'additionalDirectories');
    if (additionalDirectories.length > 0 && !canAdd)
      throw new DuolaneError(
        'unsupported',
        'the agent does not support additionalDirectories; choose a cwd that contains them',
      );
    const place = {
      cwd: resolve(cwd),
      mcpServers: mcpServersFor(this.#options, (kind) => connection.can('mcpCapabilities', kind)),
      ...(canAdd && { additionalDirectories: additionalDirectories.map((path) => resolve(path)) }),
    };
    const session = await openAcpSession(connection, this.#turn, this.#ctx, place, (replay) => {
      this.#replay = replay;
    });
    await configureSession(connection, session, this.#options);
    return session;
  }

  /** Sends the message, and yields what the agent does until it ends its turn. */
  async *#prompt(session: AcpSession): AsyncGenerator<AgentEvent, void, undefined> {
    const reader = new UpdateReader(`${this.#turn.messageId}/acp`, session);
    for (const update of session.replayed) yield* reader.read(update);
    const prompt = this.#promptOf(session);
    await markSent(session, this.#turn, this.#ctx);
    this.#ctx.signal.throwIfAborted();
    this.#isPrompting = true;
    const ended = (finish: () => void): void => {
      // An abort after this, such as that of a run that is over, cancels nothing.
      this.#isPrompting = false;
      if (!this.#queue.ended) finish();
    };
    this.#connection.request('session/prompt', { sessionId: session.sessionId, prompt }).then(
      (response) => ended(() => this.#queue.offer({ response: asObject(response) })),
      (error: unknown) => ended(() => this.#queue.fail(error)),
    );
    for await (const item of this.#queue) {
      if ('event' in item) yield item.event;
      else if ('update' in item) yield* reader.read(item.update);
      else if ('permission' in item) {
        const { call, events } = reader.asking(asObject(item.permission['toolCall']));
        yield* events;
        // Not awaited: the agent may go on with other calls. The request has the outcome.
        item.settle.resolve(this.#questions.permission(item.permission, call, item.call));
      } else {
        yield* this.#end(reader, item.response);
        return;
      }
    }
    this.#ctx.signal.throwIfAborted();
  }

  #promptOf({ continues, earlier }: AcpSession): readonly JsonObject[] {
    if (continues) return [{ type: 'text', text: this.#options.continuePrompt ?? 'Continue.' }];
    const can = {
      image: this.#connection.can('promptCapabilities', 'image'),
      audio: this.#connection.can('promptCapabilities', 'audio'),
      embeddedContext: this.#connection.can('promptCapabilities', 'embeddedContext'),
    };
    const blocks = this.#turn.parts.map((part) => promptBlock(part, can));
    return earlier === '' ? blocks : [{ type: 'text', text: earlier }, ...blocks];
  }

  *#end(reader: UpdateReader, response: JsonObject): Generator<AgentEvent, void, undefined> {
    const reason = asString(response['stopReason']);
    if (reason === 'cancelled') {
      this.#ctx.signal.throwIfAborted();
      yield { type: 'run.finished', outcome: 'canceled', text: '' };
      return;
    }
    yield* reader.finish(FINISHED[reason] ?? 'other', response);
    if (reason === 'refusal')
      throw new DuolaneError('content_filter', 'the agent refused to go on; change the message');
    if (reason === 'max_turn_requests')
      throw new DuolaneError(
        'max_steps',
        "the agent reached its limit of model requests in a turn; send a message to go on, or raise the agent's limit",
      );
    if (FINISHED[reason] === undefined)
      throw new DuolaneError(
        'malformed',
        `the agent sent the stop reason "${reason}": expected one of ${Object.keys(FINISHED).join(', ')}, cancelled`,
      );
    // Yielded here, because the end of the process is awaited after it.
    yield { type: 'run.finished', outcome: 'completed', text: '' };
  }

  async #handle(method: string, params: JsonObject, call: RpcCall): Promise<unknown> {
    switch (method) {
      case 'session/request_permission':
        return this.#askPermission(params, call);
      case 'elicitation/create':
        return this.#orNever(this.#questions.elicitation(params, call));
      default:
        return callMethod(this.#options, method, params, call);
    }
  }

  /** A question is asked when the run has yielded everything that the agent sent before it. */
  #askPermission(params: JsonObject, call: RpcCall): Promise<JsonObject> {
    const canceled = { outcome: { outcome: 'cancelled' } };
    // Outside of a turn no person can be asked, so nothing is allowed.
    if (!this.#isPrompting || this.#isStopped || this.#queue.ended)
      return Promise.resolve(canceled);
    return this.#orNever(
      new Promise((taken) => {
        onAbort(call.signal, () => taken(canceled));
        this.#queue.offer({ permission: params, call, settle: { resolve: taken } });
      }),
    );
  }

  /** A run that is suspended leaves its question unanswered, and the process is ended. */
  async #orNever<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      if (DuolaneError.from(error).code !== 'suspended') throw error;
      this.#queue.fail(error);
      return new Promise<T>(() => {});
    }
  }

  /** Resolves when there is room in the queue. The message lane is in the log as events. */
  #onFrame(frame: Frame): Promise<void> {
    this.#options.onFrame?.(frame);
    if (frame.lane !== 'control' || this.#isStopped) return ACCEPTED;
    const callId = asString(asObject(asObject(frame.data['params'])['toolCall'])['toolCallId']);
    const event: AgentEvent = { type: 'frame', frame, at: frame.at, ...(callId && { callId }) };
    return this.#queue.push({ event }).catch(() => {}); // the run has ended
  }

  #onUpdate(params: JsonObject): Promise<void> | void {
    const update = asObject(params['update']);
    if (this.#replay) return this.#replay.add(update);
    // Text that arrives before the prompt or after a cancel belongs to no turn.
    if (this.#isStopped || (!this.#isPrompting && isOutput(update))) return undefined;
    // The end of the queue is the end of the run; the rest of the output is dropped.
    return this.#queue.push({ update }).catch(() => {});
  }

  /**
   * Ends the turn. A cancel is sent to the agent, which gets a moment to end its turn. A run that
   * is suspended or handed on sends none: the agent would store that the user has canceled.
   */
  #stop(reason: unknown, { sessionId }: AcpSession): void {
    const { code } = DuolaneError.from(reason);
    if (code !== 'suspended' && code !== 'fenced' && this.#isPrompting)
      this.#connection.notify('session/cancel', { sessionId });
    this.#isStopped = code === 'suspended' || code === 'fenced';
    const ms = this.#options.cancelTimeoutMs ?? CANCEL_TIMEOUT_MS;
    if (this.#isStopped || !this.#isPrompting) return this.#queue.fail(reason);
    this.#cancelTimer = setTimeout(() => this.#queue.fail(reason), ms);
  }
}

/** Stop reasons that end a turn, and what they mean for its last step. */
const FINISHED: Readonly<Record<string, FinishReason>> = {
  end_turn: 'stop',
  max_tokens: 'length',
  max_turn_requests: 'other',
  refusal: 'content-filter',
};

const isOutput = ({ sessionUpdate }: JsonObject): boolean =>
  /^(?:agent_|tool_|user_)/.test(asString(sessionUpdate));
