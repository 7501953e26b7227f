import { randomUUID } from 'node:crypto';
import type { Ask } from '../ask.ts';
import { DuolaneError } from '../errors.ts';
import type { Agent, AgentContext, AgentEvent, Frame, OpenCall, Turn } from '../event/types.ts';
import { openSession, type Session, type SessionOptions } from '../host/index.ts';
import { isObject, type JsonObject } from '../json.ts';
import { parseToolName } from '../mcp/registry/tool-names.ts';
import type { ToolResult, ToolSource } from '../mcp/types.ts';
import { contentBlock } from './shared/content-block.ts';
import { frameReader } from './stream-json/frame-reader.ts';
import { onAbort } from '../stream/abort.ts';
import { callTool, resultEvent, wordsIn } from './shared/tool-call.ts';

export interface CliOptions extends SessionOptions {
  /** Run again what died half-way. Off, since half a shell command may have run. */
  readonly resumable?: boolean;
}

/**
 * An agent CLI as an Agent: one session per run, both lanes in the log. A further message of the
 * task, and a further task of the context, go on in the CLI's own session.
 *
 * Called again after a wait, it first finishes the open calls of our own sources with the id, the
 * arguments and the answers of the log, and then tells the model their results: nothing depends on
 * the model calling again. A cancel interrupts the CLI and waits for its last word. A CLI that dies
 * while a person is asked ends the run as input-required: the question outlives it, too.
 */
export function cli({ resumable = false, ...options }: CliOptions): Agent {
  const agent = async function* (
    turn: Turn,
    ctx: AgentContext,
  ): AsyncGenerator<AgentEvent, void, undefined> {
    const place = await sessionPlace(turn, ctx);
    yield { type: 'run.started', sessionId: place.sessionId };
    yield { type: 'status', message: 'Starting...' };
    const finished = yield* finishCalls(sourcesOf(options), ctx);
    const questions = new Questions(options.ask ?? ctx.ask);
    await using session = await openSession({
      ...options,
      ...traceEnv(options, ctx),
      ...place.options,
      lanes: 'both',
      includePartialMessages: true,
      ask: questions.ask,
      logger: options.logger ?? ctx.logger,
    });
    const interrupt = (): void => {
      const stopped = isAsleep(ctx.signal) ? leaveOpen(session) : session.interrupt();
      stopped.catch((error: unknown) => {
        ctx.logger.warn('the agent CLI could not be interrupted', { error: String(error) });
      });
    };
    let unlisten = (): void => {};
    try {
      ctx.signal.throwIfAborted();
      unlisten = onAbort(ctx.signal, interrupt);
      await session.send(finished.length > 0 ? await report(finished, session) : userMessage(turn));
      const read = frameReader();
      for await (const frame of questions.between(session.frames())) {
        // Put to sleep: what the interrupted CLI says about its open calls must not close them.
        if (isAsleep(ctx.signal)) return;
        for (const event of read(frame)) {
          if (event.type === 'run.started') continue;
          yield event;
          if (event.type === 'tool.called' || event.type === 'frame') questions.told(event.callId);
          if (event.type === 'run.finished') return;
        }
      }
      throw new DuolaneError('peer_exited', 'the agent CLI ended without a result');
    } catch (error) {
      if (questions.open === 0 || !isDeath(error)) throw error;
      throw new DuolaneError('suspended', 'the agent CLI died while a person was asked', {
        cause: error,
      });
    } finally {
      unlisten();
    }
  };
  return Object.assign(agent, { continues: true, resumable });
}

/** The CLI goes on with the trace of the run, which it takes from its environment. */
function traceEnv({ env, inheritEnv }: SessionOptions, { trace }: AgentContext): SessionOptions {
  if (!trace) return {};
  const { traceparent: TRACEPARENT, tracestate: TRACESTATE } = trace;
  return {
    env: { ...env, TRACEPARENT, ...(TRACESTATE !== undefined && { TRACESTATE }) },
    inheritEnv: inheritEnv ?? env === undefined,
  };
}

/**
 * What was asked in a session. Its CLI may withdraw a question, but not by dying. The control lane
 * overtakes the messages, so a question waits until its call has been told, or all that was there to
 * tell: a run that is put to sleep over it would not know the call that it has to finish.
 */
class Questions {
  readonly #ask: Ask;
  /** Not asked yet, with the call that asks. */
  readonly #early = new Map<() => void, string | undefined>();
  #waiting = false;
  open = 0;

  constructor(ask: Ask) {
    this.#ask = ask;
  }

  /** The run knows this call. */
  told(callId: string | undefined): void {
    for (const [start, asker] of this.#early)
      if (asker !== undefined && asker === callId) this.#start(start);
  }

  /** The same frames; where none is at hand, and where they break off, questions are asked. */
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
      const withdrawn = new AbortController();
      let unlisten = (): void => {};
      const start = (): void => {
        this.open += 1;
        // An `ask` of the app may throw at once, or give no promise: that is its answer, too.
        (async () => this.#ask(request, { signal: withdrawn.signal }))()
          .finally(() => {
            this.open -= 1;
            unlisten();
          })
          .then(resolve, reject);
      };
      this.#early.set(start, request.callId);
      unlisten = onAbort(signal, (reason) => {
        // The session need not wait for a handler whose answer cannot be delivered any more.
        if (isDeath(reason)) return reject(reason);
        withdrawn.abort(reason);
        if (this.#early.delete(start)) reject(reason);
      });
      setImmediate(this.#whenWaiting);
    });

  // What has come before is read in a microtask, so who still waits here has told all of it.
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

const isDeath = (reason: unknown): boolean =>
  reason instanceof DuolaneError &&
  (reason.code === 'peer_exited' || reason.code === 'response_lost');

const isAsleep = ({ aborted, reason }: AbortSignal): boolean =>
  aborted &&
  reason instanceof DuolaneError &&
  (reason.code === 'suspended' || reason.code === 'fenced');

/** Which session of the CLI the run is in: the task's own, a fork of the context's last, a new one. */
async function sessionPlace(
  turn: Turn,
  ctx: AgentContext,
): Promise<{ readonly sessionId: string; readonly options: Partial<SessionOptions> }> {
  const own = ctx.task.sessionId;
  // The first attempt at the first turn may have died before the CLI wrote anything.
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

/** A call that an earlier run left open, closed in the log; without `result` it is not ours to finish. */
interface FinishedCall {
  readonly call: OpenCall;
  readonly result?: ToolResult;
}

/** Closes what an earlier run left open. */
async function* finishCalls(
  sources: ReadonlyMap<string, ToolSource>,
  ctx: AgentContext,
): AsyncGenerator<AgentEvent, readonly FinishedCall[], undefined> {
  const finished: FinishedCall[] = [];
  for (const call of ctx.task.calls) {
    const { server, tool } = parseToolName(call.name) ?? {};
    const source = server === undefined ? undefined : sources.get(server);
    if (!source || tool === undefined) {
      const message = `${call.name} was interrupted before it answered`;
      yield {
        type: 'tool.failed',
        callId: call.callId,
        name: call.name,
        error: { code: 'interrupted', message, retryable: true },
      };
      finished.push({ call });
      continue;
    }
    const result = yield* callTool(source, { ...call, name: tool }, ctx);
    yield resultEvent(call, result);
    finished.push({ call, result });
  }
  return finished;
}

/** CLIs that take the result of an open call from us when they resume, as ours does. */
const TAKES_RESULTS = 'duolane_resume_open_calls_v1';

async function takesResults(session: Session): Promise<boolean> {
  const { capabilities } = await session.initialized;
  return Array.isArray(capabilities) && capabilities.includes(TAKES_RESULTS);
}

/**
 * Stops the CLI of a run that is put to sleep. An interrupt would close its open calls with "the user
 * interrupted", and the model would get that beside the real result: two results for one call. A CLI
 * that takes results later is ended instead, and leaves them open.
 */
async function leaveOpen(session: Session): Promise<unknown> {
  return (await takesResults(session)) ? session.request('end_session') : session.interrupt();
}

/** What the model is told: the results in their place where the CLI can put them there, else in words. */
async function report(finished: readonly FinishedCall[], session: Session): Promise<JsonObject> {
  const inPlace = await takesResults(session);
  const content = finished.map(({ call, result }): JsonObject => {
    if (inPlace && result) {
      const { content: blocks, isError = false } = result;
      return { type: 'tool_result', tool_use_id: call.callId, content: blocks, is_error: isError };
    }
    return { type: 'text', text: resultAsText(call, result) };
  });
  return { type: 'user', message: { role: 'user', content } };
}

function resultAsText({ callId, name }: OpenCall, result: ToolResult | undefined): string {
  if (!result)
    return `${name} was interrupted. It has been approved meanwhile: call it again if it is still needed.`;
  return `The call ${name} (${callId}) has now ${result.isError ? 'failed' : 'finished'}:\n${wordsIn(result)}`;
}

function userMessage(turn: Turn): JsonObject {
  return { type: 'user', message: { role: 'user', content: turn.parts.map(contentBlock) } };
}
