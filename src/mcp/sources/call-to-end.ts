import { DuolaneError, invalid } from '../../errors.ts';
import { asArray, asObject, asString, type JsonObject, tryParse } from '../../json.ts';
import type { Abortable } from '../../stream/types.ts';
import { fromRpcError } from '../../wire/json-rpc-errors.ts';
import type {
  CallOptions,
  SourceTasks,
  ToolCall,
  ToolEvent,
  ToolResult,
  ToolSource,
  ToolTask,
} from '../types.ts';
import { fromWire, keyOf, toResponse, type WireInput } from './input-codec.ts';
import { requiresTaskSupport } from './task-codec.ts';

/** How long the cancellation of a task may take when its reader has gone. */
const CANCEL_MS = 5_000;

/** Marks the `state` of an `input` event that a task has asked. */
const STATE = 'task:';

/** The options of `callToEnd`. */
export interface CallToEndOptions extends CallOptions {
  /** Answers the questions of the task, instead of an `input` event. */
  readonly answer?: (method: string, params: JsonObject, options: Abortable) => Promise<JsonObject>;
}

/**
 * Calls a tool of a dialled server, for a caller that may not expect a task. Some tools have
 * nothing else: then the call follows the task, and its events are those of any other call. A
 * caller that decided (`task`), such as a bridge for its client, gets what the server answers.
 */
export async function* callOrFollow(
  source: Pick<ToolSource, 'callTool' | 'tasks'>,
  call: ToolCall,
  options: CallToEndOptions = {},
): AsyncGenerator<ToolEvent, void, undefined> {
  const { answer: _, ...once } = options;
  if (!source.tasks || options.task !== undefined) return yield* source.callTool(call, once);
  try {
    if (!continuesTask(call)) return yield* source.callTool(call, once);
  } catch (error) {
    if (!requiresTaskSupport(error)) throw error;
  }
  for await (const event of callToEnd(source, call, options))
    if (event.type !== 'task') yield event;
}

/** Whether a call continues a task that asked. */
const continuesTask = ({ state }: ToolCall): boolean => state?.startsWith(STATE) ?? false;

/**
 * Calls a tool and waits for its end, also if the call becomes a task: the events are those of a
 * call that does not. The event `task` is yielded too, so that a log can name the task; it is not
 * the last event here. Breaking out of the loop, or an abort, cancels the task, unless the reason
 * of the abort is `suspended` or `fenced`: then another process follows it on, by `taskState`.
 */
export async function* callToEnd(
  source: Pick<ToolSource, 'callTool' | 'tasks'>,
  call: ToolCall,
  { answer, ...options }: CallToEndOptions = {},
): AsyncGenerator<ToolEvent, void, undefined> {
  const { tasks } = source;
  if (!tasks) return yield* source.callTool(call, options);
  if (continuesTask(call)) {
    const { taskId, methods } = readState(call);
    const responses = responsesOf(call, methods);
    if (methods.size > 0) await tasks.update(taskId, responses, options);
    const given = new Set(Object.keys(responses));
    return yield* follow(tasks, taskId, call.id, { ...options, answer, answered: given });
  }
  const answered = new Set<string>();
  for await (const event of source.callTool(call, { ...options, task: true })) {
    if (event.type !== 'task') yield event;
    else {
      const { taskId } = event.task;
      const following = { ...options, answer, answered, started: event };
      return yield* follow(tasks, taskId, call.id, following);
    }
  }
}

interface FollowOptions extends CallOptions {
  readonly answer: CallToEndOptions['answer'];
  /** The keys of questions that were answered: a server may show them for a while. */
  readonly answered: Set<string>;
  /** The event to yield first: a reader that leaves after it cancels the task, too. */
  readonly started?: ToolEvent;
}

async function* follow(
  tasks: SourceTasks,
  taskId: string,
  callId: string,
  { answer, answered, started, ...options }: FollowOptions,
): AsyncGenerator<ToolEvent, void, undefined> {
  let mustCancel = true;
  try {
    if (started) yield started;
    for await (const task of tasks.watch(taskId, options)) {
      const open = Object.entries(asObject(task.inputRequests)).filter(
        ([key]) => !answered.has(key),
      );
      if (task.status === 'completed') mustCancel = false;
      if (task.status === 'completed') return yield { type: 'result', result: resultOf(task) };
      if (task.status === 'failed' || task.status === 'cancelled') {
        mustCancel = false;
        throw failureOf(task);
      }
      if (task.status !== 'input_required' || open.length === 0) continue;
      if (!answer) {
        mustCancel = false;
        return yield toInput(taskId, callId, open);
      }
      const { signal } = options;
      const given = open.map(async ([key, value]) => {
        const { method, params } = fromWire(callId, key, value).data as WireInput;
        return [key, await answer(method, params, signal ? { signal } : {})] as const;
      });
      const responses = Object.fromEntries(await Promise.all(given));
      for (const [key] of open) answered.add(key);
      await tasks.update(taskId, responses, options);
    }
    throw new DuolaneError('malformed', `the server ended task "${taskId}" without a result`);
  } finally {
    if (mustCancel && !isHandedOn(options)) await cancel(tasks, taskId, options);
  }
}

/** Whether the reader stops because another process goes on with its work. */
function isHandedOn({ signal }: CallOptions): boolean {
  const reason: unknown = signal?.reason;
  const { code } = reason instanceof DuolaneError ? reason : { code: undefined };
  return signal?.aborted === true && (code === 'suspended' || code === 'fenced');
}

/** The `state` of a call that follows a task which an earlier call started. */
export const taskState = (taskId: string): string => STATE + JSON.stringify({ taskId });

/** Cancels a task whose reader has gone. A server that cannot be reached lets it expire. */
async function cancel(tasks: SourceTasks, taskId: string, options: CallOptions): Promise<void> {
  const { caller, owner } = options;
  const signal = AbortSignal.timeout(CANCEL_MS);
  // The reader has gone, so nothing could handle this error; the task ends by its ttlMs.
  await tasks.cancel(taskId, { caller, owner, signal }).catch(() => {});
}

const resultOf = ({ result = {} }: ToolTask): ToolResult =>
  Array.isArray(result['content']) ? (result as ToolResult) : { ...result, content: [] };

function failureOf({ status, taskId, error }: ToolTask): DuolaneError {
  return status === 'failed'
    ? fromRpcError(error)
    : new DuolaneError('canceled', `task "${taskId}" was cancelled`);
}

function toInput(
  taskId: string,
  callId: string,
  open: readonly (readonly [string, unknown])[],
): ToolEvent {
  const requests = open.map(([key, value]) => fromWire(callId, key, value));
  const methods = requests.map((request) => [
    keyOf(callId, request),
    (request.data as WireInput).method,
  ]);
  return { type: 'input', requests, state: STATE + JSON.stringify({ taskId, methods }) };
}

interface TaskQuestions {
  readonly taskId: string;
  /** The method of each question, by its key. */
  readonly methods: ReadonlyMap<string, string>;
}

function readState({ state = '' }: ToolCall): TaskQuestions {
  const { taskId, methods } = asObject(tryParse(state.slice(STATE.length)));
  if (typeof taskId !== 'string')
    throw invalid('invalid state of the call: expected the state of its input event');
  const entries = asArray(methods).map((each) => {
    const [key, method] = asArray(each);
    return [asString(key, ''), asString(method, '')] as const;
  });
  return { taskId, methods: new Map(entries) };
}

/** The answers of a call to the questions of its task, by the keys of the questions. */
function responsesOf(
  { id, answers = [] }: ToolCall,
  methods: ReadonlyMap<string, string>,
): JsonObject {
  const given = answers.flatMap((answer) => {
    const key = keyOf(id, answer);
    const method = methods.get(key);
    return method === undefined ? [] : [[key, toResponse(answer, method)] as const];
  });
  return Object.fromEntries(given);
}
