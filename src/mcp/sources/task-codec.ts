import { type DuolaneError, malformed } from '../../errors.ts';
import { asObject, isObject, type JsonObject } from '../../json.ts';
import { fromRpcError } from '../../wire/json-rpc-errors.ts';
import type { ToolTask } from '../types.ts';

/** The extension by which a call becomes a task (SEP-2663). */
const EXTENSION = 'io.modelcontextprotocol/tasks';
const MISSING_CAPABILITY = -32021;

/** What a client or a server declares to support tasks. */
export const TASK_CAPABILITY: JsonObject = { extensions: { [EXTENSION]: {} } };

/** Whether capabilities declare support of tasks. */
export const declaresTasks = (capabilities: unknown): boolean =>
  isObject(asObject(asObject(capabilities)['extensions'])[EXTENSION]);

/** Adds support of tasks to capabilities. */
export const withTaskCapability = (capabilities: JsonObject): JsonObject => ({
  ...capabilities,
  extensions: { ...asObject(capabilities['extensions']), [EXTENSION]: {} },
});

/** The error for a client that does not support tasks, which the request needs. */
export const taskSupportRequired = (): DuolaneError =>
  fromRpcError({
    code: MISSING_CAPABILITY,
    message: `the request needs a client with the extension ${EXTENSION}; declare it in the capabilities`,
    data: { requiredCapabilities: TASK_CAPABILITY },
  });

/** Whether a server refused a request because it needs a client that supports tasks. */
export function requiresTaskSupport(reason: unknown): boolean {
  const { code, data } = asObject(asObject(asObject(reason)['cause'])['error']);
  return code === MISSING_CAPABILITY && declaresTasks(asObject(data)['requiredCapabilities']);
}

const STATUSES = ['working', 'input_required', 'completed', 'failed', 'cancelled'] as const;

/** Whether a task has ended: it does not change any more. */
export const isEnded = ({ status }: Pick<ToolTask, 'status'>): boolean =>
  status !== 'working' && status !== 'input_required';

/** Checks a task that a server sent. Throws `malformed` if it is not one. */
export function toToolTask(value: JsonObject): ToolTask {
  const { taskId, status, createdAt, lastUpdatedAt, ttlMs = null } = value;
  const known = STATUSES.find((each) => each === status);
  if (typeof taskId !== 'string' || taskId === '' || !known)
    throw malformed('the server sent a task without an id or status: expected both');
  if (typeof createdAt !== 'string' || typeof lastUpdatedAt !== 'string')
    throw malformed(`the server sent task "${taskId}" without its times: expected ISO 8601`);
  if (ttlMs !== null && typeof ttlMs !== 'number')
    throw malformed(`the server sent task "${taskId}" with an invalid ttlMs: expected a number`);
  return { ...value, taskId, status: known, createdAt, lastUpdatedAt, ttlMs };
}

/** The result of a call that became a task: the task without what only `tasks/get` returns. */
export function createTaskResult(task: ToolTask): JsonObject {
  const { result: _, error: __, inputRequests: ___, resultType: ____, ...created } = task;
  return { resultType: 'task', ...created };
}
