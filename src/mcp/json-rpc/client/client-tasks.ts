import { DuolaneError, type ErrorCode } from '../../../errors.ts';
import { asObject, type JsonObject } from '../../../json.ts';
import { onAbort, sleep } from '../../../stream/abort.ts';
import { isEnded, toToolTask, withTaskCapability } from '../../sources/task-codec.ts';
import type { SourceTasks, TaskOptions, ToolTask } from '../../types.ts';
import { bare, META } from '../protocol-versions.ts';
import type { McpClient } from './mcp-client.ts';

/** The limits of the time between two requests for a task, whatever the server suggests. */
const MIN_POLL_MS = 50;
const MAX_POLL_MS = 60_000;
/** The time between two requests for a task whose changes the server announces. */
const ANNOUNCED_POLL_MS = 10_000;
const DEFAULT_POLL_MS = 1_000;
/** How long a watcher goes on asking a server that cannot be reached: it may be restarting. */
const UNREACHABLE_MS = 60_000;

/** Failures after which the next request may succeed. */
const PASSING: ReadonlySet<ErrorCode> = new Set([
  'network',
  'response_lost',
  'server',
  'overloaded',
  'rate_limited',
  'timeout',
]);

/** The `_meta` members by which a request declares that its client supports tasks. */
export const taskMeta = (client: McpClient): JsonObject => ({
  [META.capabilities]: withTaskCapability(asObject(client.envelope?.[META.capabilities])),
});

/** The tasks of a dialled server, which sees one client for all callers, and checks no owner. */
export function clientTasks(client: McpClient): SourceTasks {
  const request = (
    method: string,
    params: JsonObject,
    { signal, caller }: TaskOptions = {},
  ): Promise<JsonObject> => {
    const _meta = { ...client.callers.enter(caller), ...taskMeta(client) };
    return client.request(method, { ...params, _meta }, signal && { signal });
  };
  const get = async (taskId: string, options?: TaskOptions): Promise<ToolTask> =>
    toToolTask(bare(await request('tasks/get', { taskId }, options)));
  return {
    checksOwner: false,
    get,
    async update(taskId, inputResponses, options) {
      await request('tasks/update', { taskId, inputResponses }, options);
    },
    async cancel(taskId, options) {
      await request('tasks/cancel', { taskId }, options);
    },
    watch: (taskId, options) => new TaskWatch(client, taskId, get, options).read(),
  };
}

/**
 * Follows one task of a server: by its notifications, and by requests in case they do not come. A
 * stateless server is asked to send them; a server of a session sends them by itself, or not.
 */
class TaskWatch {
  readonly #client: McpClient;
  readonly #taskId: string;
  readonly #get: SourceTasks['get'];
  readonly #options: TaskOptions;
  #announced = false;
  #news: ToolTask | undefined;
  #wake = (): void => {};

  constructor(
    client: McpClient,
    taskId: string,
    get: SourceTasks['get'],
    options: TaskOptions = {},
  ) {
    this.#client = client;
    this.#taskId = taskId;
    this.#get = get;
    this.#options = options;
  }

  async *read(): AsyncGenerator<ToolTask, void, undefined> {
    const scope = new AbortController();
    const unlisten = onAbort(this.#options.signal, (reason) => scope.abort(reason));
    const unsubscribe = this.#client.onTask(this.#taskId, (task) => this.#take(task));
    let listening: Promise<void> | undefined;
    try {
      let task = await this.#get(this.#taskId, this.#options);
      yield task;
      if (isEnded(task)) return;
      if (this.#client.envelope) listening = this.#listen(scope.signal);
      for (let shown = JSON.stringify(task); !isEnded(task);) {
        task = await this.#next(task, scope.signal);
        const text = JSON.stringify(task);
        if (text !== shown) yield task;
        shown = text;
      }
    } finally {
      unlisten();
      unsubscribe();
      scope.abort(new DuolaneError('closed', 'the watcher of the task has ended'));
      await listening;
    }
  }

  #take(task: JsonObject): void {
    try {
      const { _meta: _, ...state } = task;
      this.#news = toToolTask(state);
      this.#announced = true;
      this.#wake();
    } catch {
      // A malformed notification is ignored: the next request gets the task.
    }
  }

  /** Waits for a notification, or asks for the task after a time. */
  async #next(
    { pollIntervalMs = DEFAULT_POLL_MS }: ToolTask,
    signal: AbortSignal,
  ): Promise<ToolTask> {
    const often = Math.min(Math.max(pollIntervalMs, MIN_POLL_MS), MAX_POLL_MS);
    if (!this.#news) await this.#wait(this.#announced ? ANNOUNCED_POLL_MS : often, signal);
    signal.throwIfAborted();
    const news = this.#news;
    this.#news = undefined;
    return news ?? this.#ask(often, signal);
  }

  async #wait(ms: number, signal: AbortSignal): Promise<void> {
    const stop = new AbortController();
    const unlisten = onAbort(signal, () => stop.abort());
    this.#wake = () => stop.abort();
    // The wait ends early: by a notification, or by the signal, which the caller checks.
    await sleep(ms, stop.signal).catch(() => {});
    unlisten();
  }

  async #ask(pollMs: number, signal: AbortSignal): Promise<ToolTask> {
    const until = Date.now() + UNREACHABLE_MS;
    for (;;) {
      try {
        return await this.#get(this.#taskId, this.#options);
      } catch (error) {
        const { code } = DuolaneError.from(error);
        if (signal.aborted || !PASSING.has(code) || Date.now() > until) throw error;
      }
      await sleep(pollMs, signal);
    }
  }

  /** Subscribes the notifications of the task. Never rejects: without them, requests are enough. */
  async #listen(signal: AbortSignal): Promise<void> {
    const { acknowledged, requests } = this.#client;
    const id = requests.nextId;
    acknowledged.set(id, () => (this.#announced = true));
    const params = { notifications: { taskIds: [this.#taskId] }, _meta: taskMeta(this.#client) };
    try {
      await this.#client.request('subscriptions/listen', params, { signal });
    } catch {
      // The server does not announce tasks, or the connection was lost.
    } finally {
      acknowledged.delete(id);
      this.#announced = false;
    }
  }
}
