import type { Ask } from '../ask.ts';
import { DuolaneError } from '../errors.ts';
import type { Agent, AgentContext, AgentEvent, Frame, OpenCall, Turn } from '../event/types.ts';
import type { Session, SessionOptions } from '../host/index.ts';
import { isOwnCli } from '../host/launch/cli-launch.ts';
import { startSession } from '../host/session/open-session.ts';
import type { StoreMirror } from '../host/transcripts/store-mirror.ts';
import { asObject, type JsonObject, omitUndefined } from '../json.ts';
import type { ToolResult } from '../mcp/types.ts';
import {
  chooseCliSession,
  type ChosenSession,
  keepsInLog,
  promptId,
} from './choose-cli-session.ts';
import { CliQuestions, isExit } from './cli-questions.ts';
import { effectiveCalls } from './effective-calls.ts';
import { continueCalls, finishCalls, interruptedEvent } from './finish-calls.ts';
import { type CallRecorder, inProcessSources, recordedServers } from './recorded-tools.ts';
import { contentBlock } from './shared/content-block.ts';
import type { TaskSessionStore } from './task-session-store.ts';
import type { TranscriptProgress } from './transcript-progress.ts';
import { frameReader } from './stream-json/frame-reader.ts';
import { onAbort } from '../stream/abort.ts';

/** Options of `cli()`: those of a session, and whether a crashed run continues. */
export interface CliOptions extends SessionOptions {
  /**
   * Continue a run after a crash. On by default if the task log keeps the session: then no tool of
   * the CLI that may have had effects is run again. Otherwise the message is sent again, and it is
   * off by default.
   */
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
 * call that was declined, or that was never decided, does not run. A cancel interrupts the CLI and
 * waits for its result. If the CLI exits while a question is open, the run ends as input-required,
 * so that the question stays open. If it exits otherwise, it is started again from the session in
 * the log, at most three times in a row.
 *
 * The task log keeps the transcript, before anything that it describes is done or shown, so any
 * replica can continue the session; no disk is needed. With a `sessionStore` of the options, that
 * store keeps it. If the app starts the CLI itself (`transport`, `spawnClaudeCodeProcess`), perhaps
 * on another machine, the transcript stays where the CLI writes it.
 *
 * @example
 * ```ts
 * import { cli } from 'duolane/adapters';
 * import { serve } from 'duolane/serve';
 *
 * await using served = await serve(cli({ permissionMode: 'default' }));
 * ```
 */
export function cli({ resumable, ...options }: CliOptions): Agent {
  const isResumable = resumable ?? keepsInLog(options);
  const agent = async function* (
    turn: Turn,
    ctx: AgentContext,
  ): AsyncGenerator<AgentEvent, void, undefined> {
    const chosen = await chooseCliSession(turn, ctx, options);
    const run: SessionRun = { isReady: false, hasProgress: false };
    try {
      yield* runSession(turn, ctx, options, chosen, run);
    } catch (error) {
      const { store, sessionId } = chosen;
      if (!store || !isResumable || !mayStartAgain(error, run, ctx)) throw error;
      const exits = await store.countExit(sessionId, run.hasProgress);
      if (exits > MAX_EXITS) throw error;
      ctx.logger.warn('the agent CLI exited and is started again', { exits, error: String(error) });
      throw new DuolaneError('suspended', 'the agent CLI exited', { cause: error });
    }
  };
  return Object.assign(agent, { continues: true, resumable: isResumable });
}

/**
 * How often in a row a CLI may exit, without a finished model step between, and be started again
 * from the session in the log. After that the run fails with the error of the exit.
 */
const MAX_EXITS = 3;

/** How far one process of the CLI has come. */
interface SessionRun {
  /** The CLI has answered `initialize`. */
  isReady: boolean;
  /** The model has finished a step. */
  hasProgress: boolean;
}

/**
 * Whether a CLI that has exited is started again: one that was ready, or that a signal has ended. A
 * CLI that exits by itself before it is ready would do so again, as with a wrong option.
 */
const mayStartAgain = (
  error: unknown,
  { isReady }: SessionRun,
  { signal }: AgentContext,
): boolean =>
  !signal.aborted &&
  isExit(error) &&
  (isReady || asObject((error as DuolaneError).cause)['signal'] !== undefined);

/** Runs one process of the CLI, from its start to the end of the run. */
async function* runSession(
  turn: Turn,
  ctx: AgentContext,
  options: SessionOptions,
  chosen: ChosenSession,
  run: SessionRun,
): AsyncGenerator<AgentEvent, void, undefined> {
  const { sessionId, store, progress } = chosen;
  yield* startRun(turn, ctx, chosen);
  const sources = await inProcessSources(options);
  const known = new Map<string, ToolResult>();
  const lost = new LostCalls(
    store
      ? yield* continueCalls(
          sources,
          ctx,
          options,
          { progress: NO_PROGRESS, ...chosen, store },
          known,
        )
      : [],
  );
  if (progress?.isEnded) {
    const { lastText, output } = progress;
    // The text of a result that has a structured output is its JSON text.
    yield {
      type: 'run.finished',
      outcome: 'completed',
      ...(output
        ? { text: JSON.stringify(output.value), output: output.value }
        : { text: lastText }),
    };
    return;
  }
  const ask = options.ask ?? ctx.ask;
  const questions = new CliQuestions(store ? permittedOnce(ask, store, chosen, ctx) : ask);
  let mirror: StoreMirror | undefined;
  await using session = await startSession(
    {
      ...options,
      ...(store &&
        recordedServers(options, sources, {
          ...recordIn(store, sessionId, options, known),
          before: (callId) => questions.shown(callId, ctx.signal),
        })),
      ...sessionEnv(options, ctx, progress !== undefined),
      ...chosen.options,
      lanes: 'both',
      includePartialMessages: true,
      ask: questions.ask,
      logger: options.logger ?? ctx.logger,
      ...(store && { onFrame: observed(store, options.onFrame) }),
    },
    ctx.signal,
    store && {
      declareServers: progress !== undefined && !isOwnCli(options),
      onMirror: (created) => void (mirror = created),
      beforeRequest: async () => {
        if (!progress) await store.written(promptId(turn), ctx.signal);
        await store.messageComplete(ctx.signal);
        await store.storeAhead(sessionId, { all: true });
      },
    },
  );
  session.initialized.then(
    () => void (run.isReady = true),
    () => {}, // the frames of the session end with the same error
  );
  const interrupt = (): void => {
    // What the CLI writes about its end is not part of the session.
    if (isSuspended(ctx.signal)) mirror?.stop();
    const stopped = isSuspended(ctx.signal) ? suspendSession(session) : session.interrupt();
    stopped.catch((error: unknown) => {
      ctx.logger.warn('cannot interrupt the agent CLI', { error: String(error) });
    });
  };
  let unlisten = (): void => {};
  try {
    ctx.signal.throwIfAborted();
    unlisten = onAbort(ctx.signal, interrupt);
    // A CLI with an unfinished turn continues it without a message.
    const { calls } = ctx.task;
    if (!progress)
      await session.send(
        store || calls.length === 0
          ? userMessage(turn)
          : yield* finishCalls(sources, ctx, options, await resumesOpenCalls(session)),
      );
    const read = frameReader([...calls, ...(progress?.open ?? [])]);
    const toRun = effectiveCalls();
    for await (const frame of questions.between(session.frames())) {
      // The run is suspended: messages of the interrupted CLI must not close its open calls.
      if (isSuspended(ctx.signal)) return;
      // The log is never ahead of the transcript. After the end of the run, its claim is over.
      await mirror?.flush();
      await store?.storeComplete();
      for (const event of read(frame).flatMap(toRun)) {
        if (event.type === 'run.started') continue;
        if (event.type === 'tool.completed' || event.type === 'tool.failed')
          await store?.storeAhead(sessionId);
        if (event.type === 'step.finished') run.hasProgress = true;
        // The CLI has written everything of the turn. What it writes when it exits is not needed.
        if (event.type === 'run.finished') mirror?.stop();
        if (event.type === 'tool.args' && lost.isShown(event.callId)) continue;
        yield* lost.before(event);
        yield event;
        if (event.type === 'tool.called' || event.type === 'frame')
          questions.callYielded(event.callId);
        if (event.type === 'run.finished') return;
      }
    }
    throw new DuolaneError('peer_exited', 'the agent CLI exited without a result: expected one');
  } catch (error) {
    if (!isExit(error)) throw error;
    // Everything that the CLI sent before its exit is part of the session.
    await mirror?.flush();
    await store?.storeAhead(sessionId);
    if (questions.open === 0) throw error;
    throw new DuolaneError('suspended', 'the agent CLI exited while a question was open', {
      cause: error,
    });
  } finally {
    unlisten();
  }
}

/**
 * Calls of an earlier run that the model has to make again. It may use the same ids; a call that it
 * does not make again in its next message has failed.
 */
class LostCalls {
  #calls: readonly OpenCall[];
  readonly #shown: ReadonlySet<string>;

  constructor(calls: readonly OpenCall[]) {
    this.#calls = calls;
    this.#shown = new Set(calls.map(({ callId }) => callId));
  }

  /** Whether readers have seen the arguments of the call. */
  isShown(callId: string): boolean {
    return this.#shown.has(callId);
  }

  *before(event: AgentEvent): Generator<AgentEvent, void, undefined> {
    if (this.#calls.length === 0 || event.path?.length) return;
    if (event.type === 'tool.started' || event.type === 'tool.called')
      this.#calls = this.#calls.filter(({ callId }) => callId !== event.callId);
    if (event.type !== 'step.finished' && event.type !== 'run.finished') return;
    yield* this.#calls.map(interruptedEvent);
    this.#calls = [];
  }
}

const NO_PROGRESS: TranscriptProgress = {
  text: '',
  open: [],
  results: new Map(),
  outputs: new Map(),
  isEnded: false,
  lastText: '',
};

/**
 * The beginning of a run. If the log shows a message that the transcript lacks, which the model
 * writes again, what was shown is replaced.
 */
function* startRun(
  turn: Turn,
  { task }: AgentContext,
  { sessionId, store, progress }: ChosenSession,
): Generator<AgentEvent, void, undefined> {
  const isAgain = task.current?.messageId === turn.messageId;
  const text = progress?.text ?? '';
  const inTranscript = ({ callId }: OpenCall): boolean =>
    progress !== undefined &&
    (progress.results.has(callId) || progress.open.some((call) => call.callId === callId));
  const isShownAgain =
    text !== task.text || task.mark?.unfinished === true || !task.calls.every(inTranscript);
  const discard = store !== undefined && isAgain && isShownAgain;
  yield { type: 'run.started', sessionId, ...(discard && { discard }) };
  yield { type: 'status', message: 'Starting...' };
  if (discard && text !== '') yield { type: 'text.delta', id: 'earlier', delta: text };
}

/**
 * Records the calls of a session. The start of a call says that it was allowed, for a CLI that does
 * not repeat its open calls itself.
 */
const recordIn = (
  store: TaskSessionStore,
  sessionId: string,
  options: SessionOptions,
  known: Map<string, ToolResult>,
): CallRecorder => ({
  known,
  result: (callId, result) => store.recordResult(sessionId, callId, result),
  ...(!isOwnCli(options) && {
    start: (callId: string, args: JsonObject) => store.recordStart(sessionId, callId, args),
  }),
});

/**
 * Stores that a call was permitted before the CLI gets to know it: the CLI makes the call then, and
 * a later run must not make it again with the same answer.
 */
const permittedOnce =
  (ask: Ask, store: TaskSessionStore, { sessionId }: ChosenSession, ctx: AgentContext): Ask =>
  async (request, given) => {
    const answer = await ask(request, given);
    const { id, callId } = request;
    if (answer.action !== 'accept' || callId === undefined || id !== `${callId}/permission`)
      return answer;
    ctx.signal.throwIfAborted();
    await store.recordPermit(sessionId, callId);
    return answer;
  };

const observed =
  (store: TaskSessionStore, onFrame: SessionOptions['onFrame']) =>
  (frame: Frame): void => {
    store.observe(frame);
    onFrame?.(frame);
  };

/**
 * Makes a CLI continue the last turn of its transcript, however old it is. The vendor's CLI adds a
 * prompt to the results of tools, and this is the shortest one that says nothing of a restart.
 */
const CONTINUE = {
  CLAUDE_CODE_RESUME_INTERRUPTED_TURN: '1',
  CLAUDE_CODE_RESUME_INTERRUPTED_TURN_MAX_AGE_MS: '0',
  CLAUDE_CODE_RESUME_PROMPT: 'Continue.',
};

/**
 * The environment of the CLI: that of the options, the trace context of the run, and whether the
 * CLI continues the last turn of its transcript without a message.
 */
function sessionEnv(
  { env, inheritEnv }: SessionOptions,
  { trace }: AgentContext,
  continues: boolean,
): SessionOptions {
  if (!trace && !continues) return {};
  const { traceparent: TRACEPARENT, tracestate: TRACESTATE } = trace ?? {};
  return {
    env: {
      ...(continues && CONTINUE),
      ...env,
      ...omitUndefined({ TRACEPARENT, TRACESTATE }),
    },
    inheritEnv: inheritEnv ?? env === undefined,
  };
}

/**
 * Whether the run ends without ending the task: it is suspended, or another runner has the claim.
 */
const isSuspended = ({ aborted, reason }: AbortSignal): boolean =>
  aborted &&
  reason instanceof DuolaneError &&
  (reason.code === 'suspended' || reason.code === 'fenced');

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

function userMessage(turn: Turn): JsonObject {
  const content = turn.parts.map(contentBlock);
  return { type: 'user', uuid: promptId(turn), message: { role: 'user', content } };
}
