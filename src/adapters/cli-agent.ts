import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { type Ask, approvedArgs, type InputRequest } from '../ask.ts';
import { DuolaneError } from '../errors.ts';
import type { Agent, AgentContext, AgentEvent, Frame, OpenCall, Turn } from '../event/types.ts';
import { openSession, type Session, type SessionOptions } from '../host/index.ts';
import { asObject, isObject, type JsonObject, omitUndefined } from '../json.ts';
import { parseToolName } from '../mcp/registry/tool-names.ts';
import type { ToolResult, ToolSource } from '../mcp/types.ts';
import { contentBlock } from './shared/content-block.ts';
import { frameReader } from './stream-json/frame-reader.ts';
import { onAbort } from '../stream/abort.ts';
import { callTool, resultEvent, resultText } from './shared/tool-call.ts';

/** Options of `cli()`: those of a session, and whether runs may be repeated. */
export interface CliOptions extends SessionOptions {
  /** Repeat a run after a crash. Off by default, since part of a shell command may have run. */
  readonly resumable?: boolean;
}

/**
 * Runs an agent CLI as an agent: one session per run, with both lanes in the log. A further message
 * of the task, and a further task of the context, continue the CLI's own session.
 *
 * A run that resumes after a question first finishes the open calls of our own tool sources, with
 * their ids and the answers of the log, and then sends their results to the model: nothing depends
 * on the model calling again. `duolane-agent` makes these calls itself, so that its rules and hooks
 * decide about each of them. For another CLI the adapter makes those that were allowed before: a
 * call that was declined, or that was never decided, does not run. A cancel interrupts the
 * CLI and waits for its result. If the CLI exits while a question is open, the run ends as
 * input-required, so that the question stays open.
 *
 * @example
 * ```ts
 * import { cli } from 'duolane/adapters';
 * import { serve } from 'duolane/serve';
 *
 * await using served = await serve(cli({ permissionMode: 'default' }));
 * ```
 */
export function cli({ resumable = false, ...options }: CliOptions): Agent {
  const agent = async function* (
    turn: Turn,
    ctx: AgentContext,
  ): AsyncGenerator<AgentEvent, void, undefined> {
    const chosen = await chooseSession(turn, ctx);
    yield { type: 'run.started', sessionId: chosen.sessionId };
    yield { type: 'status', message: 'Starting...' };
    const questions = new Questions(options.ask ?? ctx.ask);
    await using session = await openSession({
      ...options,
      ...traceEnv(options, ctx),
      ...chosen.options,
      lanes: 'both',
      includePartialMessages: true,
      ask: questions.ask,
      logger: options.logger ?? ctx.logger,
    });
    const interrupt = (): void => {
      const stopped = isSuspended(ctx.signal) ? suspendSession(session) : session.interrupt();
      stopped.catch((error: unknown) => {
        ctx.logger.warn('cannot interrupt the agent CLI', { error: String(error) });
      });
    };
    let unlisten = (): void => {};
    try {
      ctx.signal.throwIfAborted();
      unlisten = onAbort(ctx.signal, interrupt);
      const { calls } = ctx.task;
      await session.send(
        calls.length > 0 ? yield* finishCalls(session, options, ctx) : userMessage(turn),
      );
      const read = frameReader(calls);
      const toRun = effectiveCalls();
      for await (const frame of questions.between(session.frames())) {
        // The run is suspended: messages of the interrupted CLI must not close its open calls.
        if (isSuspended(ctx.signal)) return;
        for (const event of read(frame).flatMap(toRun)) {
          if (event.type === 'run.started') continue;
          yield event;
          if (event.type === 'tool.called' || event.type === 'frame')
            questions.callYielded(event.callId);
          if (event.type === 'run.finished') return;
        }
      }
      throw new DuolaneError('peer_exited', 'the agent CLI exited without a result: expected one');
    } catch (error) {
      if (questions.open === 0 || !isExit(error)) throw error;
      throw new DuolaneError('suspended', 'the agent CLI exited while a question was open', {
        cause: error,
      });
    } finally {
      unlisten();
    }
  };
  return Object.assign(agent, { continues: true, resumable });
}

/** Passes the trace context of the run to the CLI, which reads it from its environment. */
function traceEnv({ env, inheritEnv }: SessionOptions, { trace }: AgentContext): SessionOptions {
  if (!trace) return {};
  const { traceparent: TRACEPARENT, tracestate: TRACESTATE } = trace;
  return {
    env: { ...env, TRACEPARENT, ...(TRACESTATE !== undefined && { TRACESTATE }) },
    inheritEnv: inheritEnv ?? env === undefined,
  };
}

/**
 * The open questions of a session. The CLI may cancel a question, but its exit does not. The
 * control lane overtakes the message lane, so a question waits until the run has yielded its call,
 * or all frames that have arrived. Otherwise a run that is suspended by the question would not have
 * in its log the call that it must finish later.
 */
class Questions {
  readonly #ask: Ask;
  /** Questions that were not asked yet, with the call that asks. */
  readonly #early = new Map<() => void, string | undefined>();
  #waiting = false;
  open = 0;

  constructor(ask: Ask) {
    this.#ask = ask;
  }

  /** The run has yielded this call. */
  callYielded(callId: string | undefined): void {
    for (const [start, asker] of this.#early)
      if (asker !== undefined && asker === callId) this.#start(start);
  }

  /** Passes the frames on, and asks the waiting questions when no frame is ready or they fail. */
  async *between(frames: AsyncIterable<Frame>): AsyncGenerator<Frame, void, undefined> {
    const iterator = frames[Symbol.asyncIterator]();
    try {
      for (;;) {
        this.#waiting = true;
        if (this.#early.size > 0) setImmediate(this.#whenWaiting);
        const { done, value } = await iterator.next();
        this.#waiting = false;
        if (done) return;
        yield value;
      }
    } catch (error) {
      this.#startAll();
      throw error;
    } finally {
      await iterator.return?.();
    }
  }

  readonly ask: Ask = (request, { signal } = {}) =>
    new Promise((resolve, reject) => {
      const canceled = new AbortController();
      let unlisten = (): void => {};
      const start = (): void => {
        this.open += 1;
        // An async function, because an `ask` of the app may throw, or return without a promise.
        (async () => this.#ask(request, { signal: canceled.signal }))()
          .finally(() => {
            this.open -= 1;
            unlisten();
          })
          .then(resolve, reject);
      };
      this.#early.set(start, request.callId);
      unlisten = onAbort(signal, (reason) => {
        // After an exit the answer cannot be delivered to the session, so do not make it wait.
        if (isExit(reason)) return reject(reason);
        canceled.abort(reason);
        if (this.#early.delete(start)) reject(reason);
      });
      setImmediate(this.#whenWaiting);
    });

  // Frames that have arrived are read in microtasks. If `between` still waits here, it has yielded
  // all.
  readonly #whenWaiting = (): void => {
    if (this.#waiting) this.#startAll();
  };

  #startAll(): void {
    for (const start of this.#early.keys()) this.#start(start);
  }

  #start(start: () => void): void {
    this.#early.delete(start);
    start();
  }
}

/** Whether the CLI exited, or its response was lost. */
const isExit = (reason: unknown): boolean =>
  reason instanceof DuolaneError &&
  (reason.code === 'peer_exited' || reason.code === 'response_lost');

/**
 * Whether the run ends without ending the task: it is suspended, or another runner has the claim.
 */
const isSuspended = ({ aborted, reason }: AbortSignal): boolean =>
  aborted &&
  reason instanceof DuolaneError &&
  (reason.code === 'suspended' || reason.code === 'fenced');

/**
 * The CLI session of the run: that of the task, a fork of the last one of the context, or a new
 * one.
 */
async function chooseSession(
  turn: Turn,
  ctx: AgentContext,
): Promise<{ readonly sessionId: string; readonly options: Partial<SessionOptions> }> {
  const own = ctx.task.sessionId;
  // The first attempt at the first turn may have crashed before the CLI wrote its transcript.
  if (own !== undefined && ctx.task.attempt > 0 && began(ctx))
    return { sessionId: own, options: { resume: own } };
  const sessionId = randomUUID();
  for await (const earlier of ctx.history()) {
    if (earlier.task === turn.task || earlier.sessionId === undefined) continue;
    return { sessionId, options: { resume: earlier.sessionId, forkSession: true, sessionId } };
  }
  return { sessionId, options: { sessionId } };
}

const began = ({ task }: AgentContext): boolean =>
  task.turns.length > 1 || task.text !== '' || task.calls.length > 0 || task.pending.length > 0;

function sourcesOf({ mcpServers = {} }: SessionOptions): ReadonlyMap<string, ToolSource> {
  const sources = new Map<string, ToolSource>();
  for (const [name, config] of Object.entries(mcpServers)) {
    const source = 'instance' in config ? config.instance : config;
    if (isSource(source)) sources.set(name, source);
  }
  return sources;
}

const isSource = (value: unknown): value is ToolSource =>
  isObject(value) &&
  typeof value['callTool'] === 'function' &&
  typeof value['listTools'] === 'function';

/**
 * Makes the calls in the log those that run: a person, a callback or a hook may have changed the
 * input of the model. A later run that finishes the call must use the changed one.
 */
function effectiveCalls(): (event: AgentEvent) => readonly AgentEvent[] {
  const called = new Map<string, Extract<AgentEvent, { readonly type: 'tool.called' }>>();
  const changed = new Map<string, unknown>();
  return (event) => {
    if (event.type === 'tool.called') {
      const { callId, args } = event;
      // The control lane may overtake the message lane.
      const real = { ...event, args: changed.get(callId) ?? args };
      called.set(callId, real);
      return [real];
    }
    if (event.type !== 'frame' || event.callId === undefined) return [event];
    const args = argsIn(event.frame);
    if (args === undefined) return [event];
    changed.set(event.callId, args);
    const known = called.get(event.callId);
    if (!known || isDeepStrictEqual(known.args, args)) return [event];
    const real = { ...known, args };
    called.set(event.callId, real);
    return [event, real];
  };
}

/** The arguments in a request of the CLI to call one of our tools. */
function argsIn({ direction, data }: Frame): JsonObject | undefined {
  if (direction !== 'in') return undefined;
  const { method, params } = asObject(asObject(data['request'])['message']);
  if (method !== 'tools/call') return undefined;
  return asObject(asObject(params)['arguments']);
}

/**
 * A call of an earlier run that is closed now. Without `result` it did not run here, and `why` is
 * for the model.
 */
interface FinishedCall {
  readonly call: OpenCall;
  readonly result?: ToolResult;
  readonly why?: string;
  readonly approved?: boolean;
}

/**
 * Closes the calls that an earlier run left open, and returns the message with their results. Calls
 * that the CLI repeats stay open: it asks for their permission again, and the log has the answer.
 */
async function* finishCalls(
  session: Session,
  options: SessionOptions,
  ctx: AgentContext,
): AsyncGenerator<AgentEvent, JsonObject, undefined> {
  const sources = sourcesOf(options);
  const repeats = await resumesOpenCalls(session);
  const content: JsonObject[] = [];
  for (const call of ctx.task.calls) {
    const { server, tool } = parseToolName(call.name) ?? {};
    const source = server === undefined ? undefined : sources.get(server);
    const isOurs = source !== undefined && tool !== undefined && !call.partial;
    if (isOurs && repeats) continue;
    const decision = decisionAbout(call, ctx, options);
    if (isOurs && decision.allowed) {
      const known = { ...call, args: decision.args, name: tool };
      const result = yield* callTool(source, known, ctx, ctx.task.answers);
      yield resultEvent(call, result);
      content.push({ type: 'text', text: resultAsText({ call, result }) });
      continue;
    }
    const { why } = decision;
    const message = `the call of ${call.name} ${why ?? 'was interrupted before it returned a result'}`;
    yield {
      type: 'tool.failed',
      callId: call.callId,
      name: call.name,
      error:
        why === undefined
          ? { code: 'interrupted', message, retryable: true }
          : { code: 'tool', message, retryable: false },
    };
    content.push({
      type: 'text',
      text: resultAsText(omitUndefined<FinishedCall>({ call, why, approved: decision.allowed })),
    });
  }
  return { type: 'user', message: { role: 'user', content } };
}

/** What the log says about an open call: whether it was allowed, and with which arguments. */
type LoggedDecision =
  | { readonly allowed: true; readonly args: unknown; readonly why?: undefined }
  | { readonly allowed: false; readonly why?: string };

/**
 * Reads the decision about an open call from the questions of the log. A call that has asked a
 * question of its own was allowed, since it ran. Otherwise a person must have allowed it: a call
 * without any question may have waited behind another one, and no rule has decided about it yet.
 */
function decisionAbout(
  { callId, name, args }: OpenCall,
  { task: { answers, answered = [], pending } }: AgentContext,
  { approvalEdits = true }: SessionOptions,
): LoggedDecision {
  const asked = [...answered, ...pending].filter(
    (request) => request.callId === callId || request.id.startsWith(`${callId}/`),
  );
  const isPermission = ({ id, data }: InputRequest): boolean =>
    id.startsWith(`${callId}/permission`) && asObject(data)['toolName'] === name;
  if (asked.some((request) => !isPermission(request))) return { allowed: true, args };
  const question = asked.findLast(isPermission);
  const answer = answers.find(({ id }) => id === question?.id);
  if (!question || !answer) return { allowed: false };
  if (answer.action !== 'accept') {
    const reason = typeof answer.content === 'string' ? `: ${answer.content}` : '';
    return { allowed: false, why: `was declined by a person${reason}` };
  }
  const approved = approvedArgs(answer.content, asObject(question.data), 'input');
  if (!approved) return { allowed: false, why: 'was approved with an invalid change' };
  if (!approved.changed || approvalEdits) return { allowed: true, args: approved.args };
  return { allowed: false, why: 'was approved with changes, which are not accepted' };
}

/** The capability of CLIs that accept the result of an open call when they resume, as ours does. */
const RESUMES_OPEN_CALLS = 'duolane_resume_open_calls_v1';

async function resumesOpenCalls(session: Session): Promise<boolean> {
  const { capabilities } = await session.initialized;
  return Array.isArray(capabilities) && capabilities.includes(RESUMES_OPEN_CALLS);
}

/**
 * Stops the CLI of a run that is suspended. An interrupt would close its open calls with "the user
 * interrupted", and the model would get that besides the real result: two results for one call. A
 * CLI that accepts results later is ended instead, which keeps its calls open.
 */
async function suspendSession(session: Session): Promise<unknown> {
  return (await resumesOpenCalls(session)) ? session.request('end_session') : session.interrupt();
}

function resultAsText({ call, result, why, approved }: FinishedCall): string {
  const { callId, name } = call;
  if (result)
    return `The call ${name} (${callId}) has now ${result.isError ? 'failed' : 'finished'}:\n${resultText(result)}`;
  if (why !== undefined) return `The call ${name} (${callId}) did not run: it ${why}.`;
  const since = approved ? ' and has been approved since' : '';
  return `${name} was interrupted${since}. Call it again if it is still needed.`;
}

function userMessage(turn: Turn): JsonObject {
  return { type: 'user', message: { role: 'user', content: turn.parts.map(contentBlock) } };
}
