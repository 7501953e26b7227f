import type { Answer, Ask, InputRequest } from '../ask.ts';
import { DuolaneError } from '../errors.ts';
import { Channel } from '../stream/channel.ts';
import { errorResult, toResult } from './result.ts';
import type { Slots } from './slots.ts';
import type {
  CallOptions,
  Returned,
  ToolCall,
  ToolContext,
  ToolEvent,
  ToolHandler,
} from './types.ts';

/** How long a cancelled call waits for its handler to tidy up; a deaf one is then left behind. */
const GRACE_MS = 1_000;

/** A longer timer would fire at once. */
export const MAX_TIMER_MS = 2_147_483_647;

/** Calls back with `timeout` at a Unix time in ms, if the timer is not cleared. */
export const atDeadline = (
  deadline: number,
  name: string,
  end: (reason: DuolaneError) => void,
): NodeJS.Timeout =>
  setTimeout(
    () => end(new DuolaneError('timeout', `the call of ${name} passed its deadline`)),
    Math.min(Math.max(deadline - Date.now(), 0), MAX_TIMER_MS),
  );

export interface Runnable {
  readonly handler: ToolHandler<unknown>;
  readonly deadlineMs?: number;
  readonly slots?: Slots;
}

/**
 * One run of a handler as the events of its call. Whatever the handler does, this ends with one
 * `result` or `input`, or throws the reason of the caller's abort or deadline. Leaving the loop
 * aborts the handler's signal and waits for it to settle, at most a second.
 */
export async function* runTool(
  tool: Runnable,
  call: ToolCall,
  args: unknown,
  { signal, deadline }: CallOptions = {},
): AsyncGenerator<ToolEvent, void, undefined> {
  signal?.throwIfAborted();
  const scope = new AbortController();
  const events = new Channel<ToolEvent>({ capacity: 1 });
  const end = (reason: unknown): void => {
    events.fail(reason);
    scope.abort(reason);
  };
  const onAbort = (): void => end(signal?.reason);
  signal?.addEventListener('abort', onAbort, { once: true });
  const timer = deadline === undefined ? undefined : atDeadline(deadline, call.name, end);
  let over = false;
  const handled = handle(tool, call, args, events, scope).then(() => {
    over = true;
  });
  try {
    yield* events;
  } finally {
    signal?.removeEventListener('abort', onAbort);
    clearTimeout(timer);
    if (!over) {
      scope.abort(new DuolaneError('canceled', `the call of ${call.name} was left`));
      await atMost(GRACE_MS, handled);
    }
  }
}

/** Never rejects: what goes wrong becomes the last event, if anyone still listens. */
async function handle(
  { handler, deadlineMs, slots }: Runnable,
  call: ToolCall,
  args: unknown,
  events: Channel<ToolEvent>,
  scope: AbortController,
): Promise<void> {
  const asked = new Map<string, InputRequest>();
  // One after the other, so that progress nobody awaited still comes in order and before the end.
  let told = Promise.resolve();
  const emit = (event: ToolEvent): Promise<void> => {
    told = told.then(() => events.push(event)).catch(() => {});
    return told;
  };
  const context: ToolContext = {
    id: call.id,
    signal: scope.signal,
    ask: askWith(call, asked),
    progress: (progress, total, message) =>
      emit({
        type: 'progress',
        progress,
        ...(total !== undefined && { total }),
        ...(message !== undefined && { message }),
      }),
    ...(call.meta && { meta: call.meta }),
  };
  let last: ToolEvent;
  try {
    const release = await slots?.take(scope.signal);
    const run = async (): Promise<ToolEvent> => {
      try {
        return await outcome(handler(args, context), emit, scope.signal);
      } finally {
        release?.();
      }
    };
    last = await (deadlineMs === undefined ? run() : within(deadlineMs, run(), call.name, scope));
  } catch (error) {
    const suspended = error instanceof DuolaneError && error.code === 'suspended';
    last =
      suspended && asked.size > 0
        ? { type: 'input', requests: [...asked.values()] }
        : { type: 'result', result: errorResult(error) };
  }
  await told;
  if (!events.ended) events.offer(last);
  events.close();
}

/** A handler that is late is told by its signal and not waited for; its slot stays taken until it ends. */
async function within<T>(
  ms: number,
  work: Promise<T>,
  name: string,
  scope: AbortController,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const error = new DuolaneError('timeout', `${name} took longer than its ${ms} ms`);
      reject(error);
      scope.abort(error);
    }, ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Passes on what a streaming handler yields and gives the last event, whichever way it is said. */
async function outcome(
  answer: ReturnType<ToolHandler<unknown>>,
  emit: (event: ToolEvent) => Promise<void>,
  signal: AbortSignal,
): Promise<ToolEvent> {
  if (!isStream(answer)) return { type: 'result', result: toResult(await answer) };
  const iterator = answer[Symbol.asyncIterator]();
  for (;;) {
    const step = await iterator.next();
    if (step.done) return { type: 'result', result: toResult(step.value) };
    const last = step.value.type === 'result' || step.value.type === 'input';
    if (!last) await emit(step.value);
    if (last || signal.aborted) {
      await iterator.return?.();
      return step.value.type === 'result'
        ? { type: 'result', result: toResult(step.value.result) }
        : step.value;
    }
  }
}

const isStream = (
  answer: ReturnType<ToolHandler<unknown>>,
): answer is AsyncIterable<ToolEvent, Returned | void> =>
  typeof answer === 'object' && answer !== null && Symbol.asyncIterator in answer;

/** Answered: resolves at once. Not yet: notes the question and rejects with `suspended`. */
function askWith(call: ToolCall, asked: Map<string, InputRequest>): Ask {
  const answers = new Map<string, Answer>(call.answers?.map((answer) => [answer.id, answer]));
  const prefix = `${call.id}/`;
  return async (request) => {
    const id = request.id.startsWith(prefix) ? request.id : prefix + request.id;
    const answer = answers.get(id);
    if (answer) return answer;
    asked.set(id, { ...request, id, callId: call.id });
    throw new DuolaneError('suspended', `waiting for an answer to ${id}; let this error pass`);
  };
}

async function atMost(ms: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)));
  await Promise.race([work, limit]);
  clearTimeout(timer);
}
