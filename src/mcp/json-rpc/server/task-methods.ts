import { DuolaneError, invalid, notFound } from '../../../errors.ts';
import { asObject, asStrings, isObject, type JsonObject } from '../../../json.ts';
import { disposeOnce } from '../../../stream/dispose-once.ts';
import type { Abortable } from '../../../stream/types.ts';
import {
  createTaskResult,
  declaresTasks,
  isEnded,
  taskSupportRequired,
} from '../../sources/task-codec.ts';
import type { TokenSigner } from '../../sources/signed-token.ts';
import type { SourceTasks, TaskOptions, ToolSource, ToolTask } from '../../types.ts';
import { META, metaOf } from '../protocol-versions.ts';
import type { MethodHandler, RequestContext } from './methods.ts';

/** How many tasks one `subscriptions/listen` may name, and one session is notified of. */
const MAX_WATCHED = 100;

export const TASK_NOTIFICATION = 'notifications/tasks';

/** Whether the client of a request supports tasks: by its session, or by the request itself. */
export const supportsTasks = (params: JsonObject, { client }: RequestContext): boolean =>
  declaresTasks(client.capabilities) || declaresTasks(metaOf(params)[META.capabilities]);

/**
 * Creates the handlers of the methods for tasks, if the source has tasks. A client that does not
 * declare the extension is refused.
 */
export function taskMethods({ tasks }: ToolSource): ReadonlyMap<string, MethodHandler> {
  const table = new Map<string, MethodHandler>();
  if (!tasks) return table;
  const method = (
    name: string,
    handle: (id: string, params: JsonObject, options: TaskOptions) => Promise<ToolTask | void>,
  ): void => {
    table.set(name, async (params, context) => {
      if (!supportsTasks(params, context)) throw taskSupportRequired();
      const { taskId } = params;
      if (typeof taskId !== 'string') throw invalid('invalid params: taskId must be a string');
      const task = await handle(readTaskId(taskId, tasks, context), params, optionsOf(context));
      return { ...(task && { ...task, taskId }), resultType: 'complete' };
    });
  };
  method('tasks/get', (id, _, options) => tasks.get(id, options));
  method('tasks/cancel', (id, _, options) => tasks.cancel(id, options));
  method('tasks/update', (id, { inputResponses }, options) => {
    if (!isObject(inputResponses))
      throw invalid('invalid params: inputResponses must be an object');
    return tasks.update(id, inputResponses, options);
  });
  return table;
}

const optionsOf = ({ cancellation, owner, caller }: RequestContext): TaskOptions => ({
  signal: cancellation.signal,
  caller,
  owner,
});

/** What binds the id of a task to its owner. */
type Binding = Pick<RequestContext, 'owner'> & { readonly signer: TokenSigner };

const kindFor = (owner: string): string => `task of ${owner}`;

/**
 * The id of a task as the client gets it. If the source does not check owners, the id is bound to
 * its owner by a signature: another owner with the same id does not find the task.
 */
export const toTaskId = (
  taskId: string,
  { checksOwner }: SourceTasks,
  { owner, signer }: Binding,
): string =>
  checksOwner || owner === undefined ? taskId : signer.sign(kindFor(owner), { taskId });

function readTaskId(given: string, { checksOwner }: SourceTasks, context: Binding): string {
  const { owner, signer } = context;
  if (checksOwner || owner === undefined) return given;
  try {
    return String(signer.verify(kindFor(owner), given, 'task id')['taskId']);
  } catch (error) {
    throw notFound(`task "${given}" not found; it may have expired`, error);
  }
}

/** The result of a call that became a task. In a session, its client is notified of its changes. */
export function startedTask(
  task: ToolTask,
  tasks: SourceTasks,
  context: RequestContext,
): JsonObject {
  const taskId = toTaskId(task.taskId, tasks, context);
  const { owner } = context;
  context.client.tasks?.add(task.taskId, taskId, { owner });
  return createTaskResult({ ...task, taskId });
}

/** The tasks of a `subscriptions/listen` request that its client watches. */
export class ListenedTasks implements AsyncDisposable {
  /** By the id that the client has. */
  readonly #found: ReadonlyMap<string, string>;
  readonly #watch: (id: string, options: Abortable) => AsyncIterable<ToolTask>;
  readonly #send: (task: JsonObject) => Promise<void>;
  readonly #scope = new AbortController();
  #running: ReadonlyArray<Promise<void>> = [];

  constructor(
    found: ReadonlyMap<string, string>,
    watch: (id: string, options: Abortable) => AsyncIterable<ToolTask>,
    send: (task: JsonObject) => Promise<void>,
  ) {
    this.#found = found;
    this.#watch = watch;
    this.#send = send;
  }

  get taskIds(): readonly string[] {
    return [...this.#found.keys()];
  }

  /** Begins to notify the client of all changes of these tasks. */
  notify(): void {
    const { signal } = this.#scope;
    const follow = async ([taskId, id]: readonly [string, string]): Promise<void> => {
      for await (const task of this.#watch(id, { signal })) await this.#send({ ...task, taskId });
    };
    // A task that expires meanwhile has no further changes; `tasks/get` reports it.
    this.#running = [...this.#found].map((each) => follow(each).catch(() => {}));
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(async () => {
    this.#scope.abort(new DuolaneError('closed', 'the subscription has ended'));
    await Promise.all(this.#running);
  });
}

/**
 * Reads which tasks a `subscriptions/listen` request names. Tasks that the client cannot find are
 * omitted. Throws for a client that does not support tasks.
 */
export async function listenedTasks(
  { tasks }: ToolSource,
  params: JsonObject,
  context: RequestContext,
): Promise<ListenedTasks> {
  const wanted = asStrings(asObject(params['notifications'])['taskIds']);
  if (wanted.length > 0 && !supportsTasks(params, context)) throw taskSupportRequired();
  const options = optionsOf(context);
  const found = new Map<string, string>();
  // The limit counts what is read, not what is found: each id costs a look at the store.
  for (const given of [...new Set(wanted)].slice(0, MAX_WATCHED)) {
    if (!tasks) break;
    try {
      const id = readTaskId(given, tasks, context);
      await tasks.get(id, options);
      found.set(given, id);
    } catch (error) {
      if (!isUnknown(error)) throw error;
    }
  }
  const _meta = { [META.subscription]: context.id };
  return new ListenedTasks(
    found,
    (id, abortable) => tasks!.watch(id, { ...options, ...abortable }),
    (task) => context.notify(TASK_NOTIFICATION, { ...task, _meta }),
  );
}

/** Whether a task is not found; a server beyond a bridge reports that as invalid parameters. */
function isUnknown(error: unknown): boolean {
  const { code } = DuolaneError.from(error);
  return code === 'not_found' || code === 'invalid';
}

/** The tasks that a client of a session has started: the session notifies it of their changes. */
export class SessionTasks implements AsyncDisposable {
  readonly #tasks: SourceTasks | undefined;
  readonly #notify: (params: JsonObject) => Promise<void>;
  readonly #scope = new AbortController();
  readonly #running = new Map<string, Promise<void>>();

  constructor({ tasks }: ToolSource, notify: (params: JsonObject) => Promise<void>) {
    this.#tasks = tasks;
    this.#notify = notify;
  }

  /** Watches a task. `shown` is its id for the client. Beyond the limit, the client polls. */
  add(taskId: string, shown: string, options: TaskOptions): void {
    if (this.#running.has(taskId) || this.#running.size >= MAX_WATCHED) return;
    const watching = this.#watch(taskId, shown, options)
      // `tasks/get` reports what ended the watch.
      .catch(() => {})
      .finally(() => this.#running.delete(taskId));
    this.#running.set(taskId, watching);
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(async () => {
    this.#scope.abort(new DuolaneError('closed', 'the session of the client has ended'));
    await Promise.all(this.#running.values());
  });

  async #watch(taskId: string, shown: string, options: TaskOptions): Promise<void> {
    const { signal } = this.#scope;
    let isFirst = true;
    for await (const task of this.#tasks?.watch(taskId, { ...options, signal }) ?? []) {
      // The client got the first state as the result of its call.
      if (!isFirst || isEnded(task)) await this.#notify({ ...task, taskId: shown });
      isFirst = false;
    }
  }
}
