import { type A2AClient, connectA2A, type ConnectOptions } from '../../a2a/client/a2a-client.ts';
import type { A2AStream } from '../../a2a/client/a2a-stream.ts';
import { RESUME_EXTENSION } from '../../a2a/protocol/agent-card.ts';
import { INTERRUPTED, type A2AStatus } from '../../a2a/protocol/model.ts';
import { encodePart } from '../../a2a/protocol/task-encoder.ts';
import type { Answer } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import type { Agent, AgentContext, AgentEvent, Snapshot, Turn } from '../../event/types.ts';
import {
  asObject,
  asObjects,
  asString,
  isObject,
  type JsonObject,
  omitUndefined,
} from '../../json.ts';
import { onAbort, raceAbort } from '../../stream/abort.ts';
import { nameId } from '../../task/name-id.ts';
import { nextHop } from './hops.ts';
import { RemoteEvents, textOf } from './remote-events.ts';
import { answerParts, questionsOf, sameQuestions } from './remote-questions.ts';

/** Options of `remote`. */
export interface RemoteAgentOptions extends Omit<ConnectOptions, 'signal'> {
  /** The longest chain of agents that call each other; 16 by default. */
  readonly maxHops?: number;
  /** How long the remote agent may take to confirm a cancel; 10 s by default. */
  readonly cancelTimeoutMs?: number;
}

/** What the task log keeps of a call, so that any process can continue it. */
interface CallState {
  readonly messageId: string;
  readonly task?: string;
  /** How often answers were sent. */
  readonly answered?: number;
}

const CANCEL_TIMEOUT_MS = 10_000;
const CONTEXT_KEY = 'remote/context';

/**
 * An agent on another server as an `Agent`: the remote task is one run. Text, artifacts and status
 * are streamed; questions go to the person and the answers back to the agent that asked; a cancel
 * cancels the remote task, also before its first event. The caller's trace and the chain of agents
 * go along, and a chain that is too long or comes back to an agent is refused.
 *
 * The message has the same id whenever it is sent, and the id of the remote task is in the task
 * log. After a crash or on another replica, the run continues to read that task, and sends nothing
 * twice. If the process ended between sending and the first event, the message is sent again only
 * to a server that handles a message id once; otherwise the run fails with `interrupted`.
 *
 * @param address the URL of the agent or of its card, or the card itself
 *
 * @example
 * ```ts
 * await using served = await serve(remote('https://pharmacist.example.com'));
 * ```
 */
export function remote(address: string | JsonObject, options: RemoteAgentOptions = {}): Agent {
  const run: Agent = async function* (turn, ctx) {
    const metadata = nextHop(turn.metadata, addressOf(address), options.maxHops);
    const headers = { ...options.headers, ...ctx.trace };
    await using client = await connectA2A(address, { ...options, headers, signal: ctx.signal });
    yield* new RemoteCall(client, turn, ctx, options).run(metadata);
  };
  return Object.assign(run, { resumable: true, continues: true });
}

export const addressOf = (address: string | JsonObject): string =>
  typeof address === 'string'
    ? address
    : asString(asObjects(address['supportedInterfaces'])[0]?.['url'], asString(address['url']));

/** The part of an agent's context that a call needs. */
export interface RemoteContext extends Pick<
  AgentContext,
  'signal' | 'ask' | 'storage' | 'logger' | 'history'
> {
  readonly task: Pick<Snapshot, 'text' | 'artifacts' | 'current'>;
}

/** One turn with a remote agent. */
export class RemoteCall {
  readonly #client: A2AClient;
  readonly #turn: Turn;
  readonly #ctx: RemoteContext;
  readonly #cancelTimeoutMs: number;
  readonly #key: string;
  readonly #events: RemoteEvents;
  /** Ends the streams. The remote task continues. */
  readonly #disconnect = new AbortController();
  /** Resolves when the id of the remote task is known, or when no more events can come. */
  readonly #started: Promise<void>;
  #onStarted: () => void = () => {};
  /** Resolves when no stream is read any more. */
  readonly #ended: Promise<void>;
  #onEnded: () => void = () => {};
  #state: CallState;

  constructor(client: A2AClient, turn: Turn, ctx: RemoteContext, options: RemoteAgentOptions) {
    this.#started = new Promise((resolve) => (this.#onStarted = resolve));
    this.#ended = new Promise((resolve) => (this.#onEnded = resolve));
    this.#client = client;
    this.#turn = turn;
    this.#ctx = ctx;
    this.#cancelTimeoutMs = options.cancelTimeoutMs ?? CANCEL_TIMEOUT_MS;
    const id = nameId(`remote/${turn.task}/${turn.messageId}`);
    this.#key = `remote/${id}`;
    this.#state = { messageId: id };
    // The text belongs to this turn only if an earlier process has run it.
    const { text, artifacts, current } = ctx.task;
    this.#events = new RemoteEvents(baseUrlOf(client), {
      text: current?.messageId === turn.messageId ? text : '',
      artifacts: new Set(artifacts.map(({ artifactId }) => artifactId)),
    });
  }

  async *run(metadata: JsonObject): AsyncGenerator<AgentEvent, void, undefined> {
    let stream = await this.#begin(metadata);
    let { answered = 0 } = this.#state;
    // Nothing has been sent yet, so there is nothing to cancel.
    if (this.#state.task === undefined) this.#ctx.signal.throwIfAborted();
    let canceled: Promise<void> | undefined;
    const stop = onAbort(this.#ctx.signal, (reason) => {
      const code = reason instanceof DuolaneError ? reason.code : undefined;
      // A suspended run, and one that another process continues, leaves the remote task alone.
      if (code === 'canceled' || code === 'timeout') canceled = this.#cancel();
      else this.#disconnect.abort(reason);
    });
    try {
      for (;;) {
        for await (const event of stream) {
          await this.#remember(stream, answered);
          yield* this.#events.receive(event);
        }
        const { status } = stream;
        if (status === undefined || !INTERRUPTED.has(status.state)) {
          yield* this.#end(status);
          return;
        }
        stream = await this.#answer(status, answered++);
      }
    } catch (error) {
      // The caller's run ends here, so no reader is left for the end of the remote task.
      this.#onStarted();
      this.#onEnded();
      // A run that is suspended while it waits for a person continues with the same remote task.
      const continues = error instanceof DuolaneError && error.code === 'suspended';
      if (!this.#ctx.signal.aborted && !continues) await this.#cancel();
      this.#ctx.signal.throwIfAborted();
      throw error;
    } finally {
      stop();
      this.#onStarted();
      this.#onEnded();
      await canceled;
      this.#disconnect.abort(new DuolaneError('closed', 'the call has ended'));
    }
  }

  /** Sends the message, or subscribes to the task that an earlier process started. */
  async #begin(metadata: JsonObject): Promise<A2AStream> {
    const { storage } = this.#ctx;
    const stored = await first(storage?.list(this.#key));
    const { task, messageId, answered } = isObject(stored) ? stored : {};
    if (typeof task === 'string') {
      this.#state = { messageId: asString(messageId), task, answered: Number(answered ?? 0) };
      this.#onStarted();
      return this.#client.resume(task, { signal: this.#disconnect.signal });
    }
    if (stored !== undefined && !handlesIdsOnce(this.#client))
      throw new DuolaneError(
        'interrupted',
        'the process ended while the message was being sent, and the remote agent may have received it; send a new message to call it again',
      );
    await storage?.set({ [this.#key]: this.#state });
    const contextId = await this.#contextOf();
    return this.#client.stream(this.#turn.parts.map(encodePart), {
      messageId: this.#state.messageId,
      metadata: { ...this.#turn.metadata, ...metadata },
      signal: this.#disconnect.signal,
      ...omitUndefined({ contextId }),
    });
  }

  /** The remote context of this conversation: that of its newest earlier task. */
  async #contextOf(): Promise<string | undefined> {
    const { storage } = this.#ctx;
    if (!storage) return undefined;
    const own = await first(storage.list(CONTEXT_KEY));
    if (typeof own === 'string') return own;
    for await (const task of this.#ctx.history()) {
      const context = await first(storage.list(CONTEXT_KEY, task));
      if (typeof context === 'string') return context;
    }
    return undefined;
  }

  /**
   * Stores the id of the remote task before anything of it is yielded, and that it got answers when
   * its first event after them has arrived.
   */
  async #remember(stream: A2AStream, answered: number): Promise<void> {
    const { task = stream.taskId, answered: stored = 0 } = this.#state;
    if (task === undefined || (this.#state.task === task && stored === answered)) return;
    this.#state = { ...this.#state, task, answered };
    this.#onStarted();
    const context = stream.task?.contextId;
    await this.#ctx.storage?.set({
      [this.#key]: this.#state,
      ...(context !== undefined && { [CONTEXT_KEY]: context }),
    });
  }

  /**
   * Asks the person what the remote agent asks, and sends the answers to it. A question that it
   * asks again after it got the answer is another question: the person has not seen that one.
   */
  async #answer(status: A2AStatus, answered: number): Promise<A2AStream> {
    const task = this.#state.task as string;
    const round = answered === 0 ? '' : `${answered}/`;
    const questions = questionsOf(status);
    const answers = await Promise.all(
      questions.map(async ({ local, remoteId }): Promise<Answer> => {
        const id = `${this.#turn.messageId}/remote/${round}${local.id}`;
        const answer = await this.#ctx.ask({ ...local, id });
        return { ...answer, id: remoteId ?? id };
      }),
    );
    const signal = this.#disconnect.signal;
    // Another client may have answered meanwhile, and a sign-in needs no message at all.
    const now = await this.#client.get(task, { historyLength: 0, signal });
    if (!INTERRUPTED.has(now.status.state) || !sameQuestions(questionsOf(now.status), questions))
      return this.#client.resume(task, { signal });
    const ids = questions.map(({ local }) => local.id).join('/');
    return this.#client.stream(answerParts(questions, answers), {
      taskId: task,
      contextId: now.contextId,
      messageId: nameId(`${this.#state.messageId}/answer/${round}${ids}`),
      signal,
    });
  }

  *#end(status: A2AStatus | undefined): Generator<AgentEvent> {
    const text = textOf(status?.message?.parts ?? []);
    switch (status?.state) {
      case 'TASK_STATE_FAILED':
        throw new DuolaneError('server', `the remote agent failed: ${text || 'no reason given'}`, {
          retryable: false,
        });
      case 'TASK_STATE_REJECTED':
        yield { type: 'run.finished', outcome: 'rejected', text };
        return;
      case 'TASK_STATE_CANCELED':
        this.#ctx.signal.throwIfAborted();
        yield { type: 'run.finished', outcome: 'canceled', text: '' };
        return;
      default: // completed, or a reply without a task
        yield* this.#events.finalText(text);
    }
  }

  /**
   * Cancels the remote task. Its id comes with the first event, so before that the stream is read
   * on. The stream then ends with the state that the task really has; if the remote agent does not
   * confirm in time, this disconnects and reports that the task may continue.
   */
  async #cancel(): Promise<void> {
    const limit = AbortSignal.timeout(this.#cancelTimeoutMs);
    const signal = AbortSignal.any([limit, this.#disconnect.signal]);
    try {
      await raceAbort(this.#started, signal);
      const { task } = this.#state;
      if (task !== undefined) await this.#client.cancel(task, { signal });
      // A server may confirm and keep the stream open.
      await raceAbort(this.#ended, signal);
    } catch (error) {
      const { code, message } = DuolaneError.from(error);
      if (code === 'closed') return; // it had ended already
      this.#ctx.logger.warn('the remote task could not be canceled and may continue', {
        task: this.#state.task ?? 'unknown',
        error: message,
      });
      this.#disconnect.abort(this.#ctx.signal.reason);
    }
  }
}

/** Whether the server says that it handles a message that is sent twice once. */
function handlesIdsOnce({ card }: A2AClient): boolean {
  const { extensions } = asObject(card['capabilities']);
  return asObjects(extensions).some(({ uri }) => uri === RESUME_EXTENSION);
}

const baseUrlOf = ({ card }: A2AClient): string => addressOf(card);

async function first(
  values: AsyncIterable<readonly [string, unknown]> | undefined,
): Promise<unknown> {
  if (values) for await (const [, value] of values) return value;
  return undefined;
}
