import { DuolaneError } from '../../../errors.ts';
import type { JsonObject } from '../../../json.ts';
import { onAbort } from '../../../stream/abort.ts';
import { abortAtDeadline } from '../../registry/tool-events.ts';
import type { CallOptions, ToolCall, ToolEvent, ToolResult } from '../../types.ts';
import { CallEvents } from './call-events.ts';
import type { McpClient } from './mcp-client.ts';
import { bare, CALL_ID, META } from '../protocol-versions.ts';
import { withPartial } from '../partial-results.ts';
import { ServerQuestions } from './server-questions.ts';
import { toToolTask } from '../../sources/task-codec.ts';
import { NO_LIMITS, RequestTimer } from '../../sources/request-timer.ts';
import { taskMeta } from './client-tasks.ts';
import { askedIn, inRounds, toInput, withAnswers } from './input-rounds.ts';

/** A marker in the events of a call. The reader replaces it by the questions that are open then. */
const ASKED: ToolEvent = { type: 'input', requests: [] };

/**
 * One call on the wire. It outlives its reader only while it waits for answers: a server of the
 * session protocol asks in the middle of a call and continues from there, so the call stays open
 * under the state of its `input` event, and the call with the answers reads on.
 */
export class PendingCall {
  /** Who called, on a connection that several callers share. */
  readonly caller: string | undefined;
  readonly #client: McpClient;
  readonly #events = new CallEvents();
  readonly #reader = this.#events[Symbol.asyncIterator]();
  readonly #scope = new AbortController();
  readonly #questions: ServerQuestions;
  readonly #settled: Promise<void>;
  #over = false;

  readonly #mayBeTask: boolean;

  private constructor(
    client: McpClient,
    call: ToolCall,
    { caller, mayBeTask }: { caller: string | undefined; mayBeTask: boolean },
  ) {
    this.caller = caller;
    this.#mayBeTask = mayBeTask;
    this.#client = client;
    this.#questions = new ServerQuestions(call.id, () => this.#events.insist(ASKED));
    this.#settled = this.#run(call, client.callers.enter(caller));
  }

  /**
   * Makes a call, or continues the one that waits for these answers. Yields the events up to the
   * next `input` or the result. Breaking out before either cancels the call.
   */
  static async *read(
    client: McpClient,
    call: ToolCall,
    { signal, deadline, caller }: CallOptions = {},
    mayBeTask = false,
  ): AsyncGenerator<ToolEvent, void, undefined> {
    signal?.throwIfAborted();
    const pending =
      client.waitingCalls.take(call.state) ?? new PendingCall(client, call, { caller, mayBeTask });
    pending.#questions.give(call.answers ?? []);
    const abort = (reason: unknown): void => pending.#scope.abort(reason);
    const unlisten = onAbort(signal, abort);
    const timer = deadline === undefined ? undefined : abortAtDeadline(deadline, call.name, abort);
    const used = deadline === undefined ? client.limits : NO_LIMITS;
    const what = `call of tool "${call.name}"`;
    using limit = new RequestTimer(used, { what, end: abort, isOurTurn: client.isOurTurn });
    let kept = false;
    try {
      for (;;) {
        limit.wait();
        const { done, value } = await pending.#reader.next();
        limit.pause();
        if (done) return;
        if (value !== ASKED) yield value;
        else if (pending.#questions.open.length > 0 && !pending.#scope.signal.aborted) {
          kept = true;
          const state = client.waitingCalls.keep(pending);
          return yield { type: 'input', requests: pending.#questions.open, state };
        }
      }
    } finally {
      unlisten();
      clearTimeout(timer);
      if (!kept) await pending.cancel();
    }
  }

  /** Cancels the call unless it has ended, and waits until the cancellation was sent. */
  async cancel(): Promise<void> {
    if (!this.#over)
      this.#scope.abort(new DuolaneError('canceled', 'the reader cancelled the call'));
    await this.#settled;
    await this.#reader.return?.();
  }

  /** Runs the call. Never rejects: a failure ends the events. */
  async #run(
    { id, name, args, meta, clientCapabilities, answers = [], state }: ToolCall,
    caller: JsonObject,
  ): Promise<void> {
    const client = this.#client;
    const token = client.requests.nextId;
    const envelope = client.envelope && envelopeOf(client, clientCapabilities);
    const params = {
      name,
      arguments: args,
      ...(client.envelope && withAnswers(id, answers, state)),
      _meta: {
        [CALL_ID]: id,
        ...meta,
        ...caller,
        progressToken: token,
        // Request all levels: the reader of the events decides what to drop, and the session
        // protocol sends all levels anyway.
        ...envelope,
        ...(this.#mayBeTask && taskMeta(client, envelope?.[META.capabilities])),
      },
    };
    let current = token;
    // Runs immediately when the request settles: progress after the response belongs to no call.
    const settle = (): void => {
      for (const key of [token, current]) client.calls.delete(key);
      client.askers.delete(current);
    };
    try {
      const result = await inRounds(client, 'tools/call', params, {
        signal: this.#scope.signal,
        mayBeTask: this.#mayBeTask,
        onMessage: (message) => client.take(message, this.#events),
        begin: () => {
          // Each round is a request of its own, with the progress token of the first.
          current = client.requests.nextId;
          for (const key of [token, current]) client.calls.set(key, this.#events);
          client.askers.set(current, this.#questions.answer);
        },
        onSettled: settle,
      });
      this.#events.finish(lastOf(client, id, result, this.#mayBeTask));
    } catch (error) {
      this.#events.fail(error);
    } finally {
      settle(); // a request that could not be sent is never settled
      this.#over = true;
    }
  }
}

/**
 * The envelope of one call. Questions pass on to the client of the call, unless the program answers
 * them, so its capabilities count.
 */
function envelopeOf(client: McpClient, capabilities: JsonObject | undefined): JsonObject {
  const logLevel = { [META.logLevel]: 'debug' };
  if (!capabilities || client.canAnswer) return logLevel;
  return { ...logLevel, [META.capabilities]: withPartial(capabilities, 'extensions') };
}

function lastOf(
  client: McpClient,
  callId: string,
  result: JsonObject,
  mayBeTask: boolean,
): ToolEvent {
  const asked = askedIn(result, mayBeTask);
  if (asked) return { type: 'input', ...toInput(callId, asked) };
  if (mayBeTask && result['resultType'] === 'task')
    return { type: 'task', task: toToolTask(bare(result)) };
  return { type: 'result', result: toResult(client.envelope ? bare(result) : result) };
}

const toResult = (result: JsonObject): ToolResult =>
  Array.isArray(result['content']) ? (result as ToolResult) : { ...result, content: [] };
