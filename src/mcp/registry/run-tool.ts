import type { Answer, InputRequest } from '../../ask.ts';
import { DuolaneError, unsupported } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { settledWithin, withTimeout } from '../../stream/abort.ts';
import { Cancellation } from '../../stream/cancellation.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { fromWire, toResponse } from '../sources/input-codec.ts';
import { toLogLine, toProgress } from '../sources/notification-events.ts';
import { errorResult, toResult } from './tool-result.ts';
import type { ConcurrencySlots } from './concurrency-slots.ts';
import type { ToolReturn, ToolCall, ToolContext, ToolEvent, ToolHandler } from '../types.ts';

/**
 * How long a cancelled call waits for its handler. A handler that ignores its signal is abandoned
 * after this.
 */
const GRACE_MS = 1_000;

/** The longest delay of `setTimeout`; a longer one would fire immediately. */
export const MAX_TIMER_MS = 2_147_483_647;

/** A handler and its limits. */
export interface Runnable {
  readonly handler: ToolHandler<unknown>;
  readonly deadlineMs?: number;
  readonly slots?: ConcurrencySlots;
}

/** The last event of a call. */
export type LastEvent = Extract<ToolEvent, { type: 'result' | 'input' }>;

/** Thrown by a call whose handler wants to continue as a task, to the source that has the tasks. */
export class TaskWanted extends DuolaneError {
  constructor(name: string) {
    super('suspended', `tool "${name}" continues as a task; rethrow this error`);
  }
}

/** Takes an event before the last one; resolves when the caller has taken it, and never rejects. */
export type Emit = (event: ToolEvent) => Promise<void>;

/**
 * Runs a handler once. It resolves with one `result` or `input`, after every event that the handler
 * emitted. It rejects only with the reason of the caller's cancellation, when the handler has
 * settled or one second has passed, and with `TaskWanted` if it may. `caller` belongs to this call
 * alone.
 */
export function runTool(
  tool: Runnable,
  call: ToolCall,
  args: unknown,
  caller: Cancellation,
  emit: Emit,
  mayBeTask = false,
): Promise<LastEvent> {
  if (caller.aborted) return Promise.reject(caller.reason);
  const run = new HandlerRun(call, scopeOf(tool, caller), emit, mayBeTask);
  const handled = handle(tool, args, run);
  return new Promise((resolve, reject) => {
    const unlisten = caller.onAbort((reason) => {
      settledWithin(handled, GRACE_MS).then(() => reject(reason), reject);
    });
    handled.then((last) => {
      unlisten();
      if (!caller.aborted) resolve(last);
    }, reject);
  });
}

/**
 * The cancellation that the handler sees. A handler with a deadline needs its own, since the
 * deadline must not cancel the caller.
 */
function scopeOf({ deadlineMs }: Runnable, caller: Cancellation): Cancellation {
  if (deadlineMs === undefined) return caller;
  const scope = new Cancellation();
  scope.follow(caller);
  return scope;
}

/** An error becomes the last event; only `TaskWanted` is thrown. */
async function handle(tool: Runnable, args: unknown, run: HandlerRun): Promise<LastEvent> {
  let last: LastEvent;
  try {
    const limited = tool.slots !== undefined || tool.deadlineMs !== undefined;
    last = await (limited ? withinLimits(tool, args, run) : outcome(tool, args, run));
  } catch (error) {
    const suspended = error instanceof DuolaneError && error.code === 'suspended';
    last =
      suspended && run.questions
        ? { type: 'input', requests: [...run.questions.values()] }
        : { type: 'result', result: errorResult(error) };
  }
  if (run.emitted) await run.emitted;
  // A question comes first: the task begins when everything before it is answered.
  if (run.wantsTask && !run.questions) throw new TaskWanted(run.call.name);
  return last;
}

/** Waits for a concurrency slot, then runs the handler within its deadline. */
async function withinLimits(tool: Runnable, args: unknown, run: HandlerRun): Promise<LastEvent> {
  const release = await tool.slots?.take(run.scope.signal);
  const work = Promise.resolve()
    .then(() => outcome(tool, args, run))
    .finally(release);
  return tool.deadlineMs === undefined ? work : within(tool.deadlineMs, work, run);
}

/**
 * Fails with `timeout` after `ms` and aborts the handler's signal. The handler is not awaited; its
 * concurrency slot stays in use until it ends.
 */
function within<T>(ms: number, work: Promise<T>, { call, scope }: HandlerRun): Promise<T> {
  return withTimeout(work, ms, () => {
    const message = `tool "${call.name}" timed out after ${ms} ms (deadlineMs)`;
    const error = new DuolaneError('timeout', message);
    scope.abort(error);
    return error;
  });
}

/**
 * Calls the handler and returns its last event, for a value, a promise or a stream. Throws what the
 * handler throws.
 */
function outcome({ handler }: Runnable, args: unknown, run: HandlerRun): Promise<LastEvent> {
  const answer = handler(args, new HandlerContext(run));
  return isStream(answer) ? streamed(answer, run) : Promise.resolve(answer).then(resultOf);
}

const resultOf = (returned: unknown): LastEvent => ({ type: 'result', result: toResult(returned) });

/** Emits what a handler yields before its last event. */
async function streamed(
  events: AsyncIterable<ToolEvent, ToolReturn | void>,
  run: HandlerRun,
): Promise<LastEvent> {
  const iterator = events[Symbol.asyncIterator]();
  for (;;) {
    const { done, value } = await iterator.next();
    if (done) return resultOf(value);
    const last = value.type === 'result' || value.type === 'input';
    if (!last) await run.emit(value);
    if (!last && !run.scope.aborted) continue;
    await iterator.return?.();
    if (!last) throw run.scope.reason;
    return value.type === 'input' ? value : resultOf(value.result);
  }
}

const isStream = (
  answer: ReturnType<ToolHandler<unknown>>,
): answer is AsyncIterable<ToolEvent, ToolReturn | void> =>
  typeof answer === 'object' && answer !== null && Symbol.asyncIterator in answer;

/** The state of one run of a handler. */
class HandlerRun {
  readonly call: ToolCall;
  readonly scope: Cancellation;
  readonly #emit: Emit;
  /**
   * The emission that was started last. Emissions run one after the other, so progress that the
   * handler does not await stays in order.
   */
  emitted: Promise<void> | undefined;
  questions: Map<string, InputRequest> | undefined;
  readonly #mayBeTask: boolean;
  wantsTask = false;
  #requests = 0;

  constructor(call: ToolCall, scope: Cancellation, emit: Emit, mayBeTask: boolean) {
    this.#mayBeTask = mayBeTask;
    this.call = call;
    this.scope = scope;
    this.#emit = emit;
  }

  emit(event: ToolEvent): Promise<void> {
    // A handler need not await its events, so a rejection here would be unhandled.
    const emit = (): Promise<void> => this.#emit(event).catch(reportUnexpected);
    this.emitted = this.emitted ? this.emitted.then(emit) : emit();
    return this.emitted;
  }

  async continueAsTask(): Promise<void> {
    if (!this.#mayBeTask) return;
    this.wantsTask = true;
    throw new TaskWanted(this.call.name);
  }

  /**
   * Asks by a request in the form of the protocol. Its id is its number in the run: a handler that
   * sends the same requests in the same order finds its answers.
   */
  async request(method: string, params: JsonObject): Promise<JsonObject> {
    const key = `${method}-${++this.#requests}`;
    return toResponse(await this.ask(fromWire(this.call.id, key, { method, params })), method);
  }

  /**
   * Resolves with the answer if the call has one. Otherwise it records the question and rejects
   * with `suspended`.
   */
  async ask(request: InputRequest): Promise<Answer> {
    const { id: callId, answers } = this.call;
    const prefix = `${callId}/`;
    const id = request.id.startsWith(prefix) ? request.id : prefix + request.id;
    const answer = answers?.findLast((each) => each.id === id);
    if (answer) return answer;
    (this.questions ??= new Map()).set(id, { ...request, id, callId });
    throw new DuolaneError(
      'suspended',
      `waiting for the answer to question "${id}"; rethrow this error so that the call can be repeated`,
    );
  }
}

/**
 * A symbol instead of a private member, which is not found through a Proxy or an object that
 * inherits.
 */
const RUN = Symbol('run');

/** An own enumerable property, so that a copy by spread has it. */
const SIGNAL: PropertyDescriptor = {
  enumerable: true,
  get(this: HandlerContext): AbortSignal {
    return this[RUN].scope.signal;
  },
};

const NO_META: JsonObject = Object.freeze({});

/**
 * The context that the handler gets. It creates its signal on first access: most handlers never
 * read it, and it is the most expensive part of a short call. A copy by spread, `Object.create` or
 * a Proxy works like the original.
 */
class HandlerContext implements ToolContext {
  readonly [RUN]: HandlerRun;
  readonly id: string;
  readonly requestId: string;
  declare readonly signal: AbortSignal;
  declare readonly meta?: JsonObject;
  readonly _meta: JsonObject;
  readonly ask: ToolContext['ask'];
  readonly progress: ToolContext['progress'];
  readonly continueAsTask: ToolContext['continueAsTask'];
  readonly sendNotification: ToolContext['sendNotification'];
  readonly sendRequest: ToolContext['sendRequest'];

  constructor(run: HandlerRun) {
    const { id, meta } = run.call;
    this[RUN] = run;
    this.id = id;
    this.requestId = id;
    this._meta = meta ?? NO_META;
    this.ask = (request) => run.ask(request);
    this.progress = (progress, total, message) =>
      run.emit({
        type: 'progress',
        progress,
        ...(total !== undefined && { total }),
        ...(message !== undefined && { message }),
      });
    this.continueAsTask = () => run.continueAsTask();
    this.sendNotification = async ({ method, params = {} }) => run.emit(toEvent(method, params));
    this.sendRequest = ({ method, params = {} }) => run.request(method, params);
    if (meta) this.meta = meta;
    Object.defineProperty(this, 'signal', SIGNAL);
  }
}

/** Translates a notification of a handler into an event. Throws `unsupported` for others. */
function toEvent(method: string, params: JsonObject): ToolEvent {
  if (method === 'notifications/progress') return toProgress(params);
  if (method === 'notifications/message') return toLogLine(params);
  throw unsupported(
    `cannot send ${method} from a tool: expected notifications/progress or notifications/message`,
  );
}
