import { randomUUID } from 'node:crypto';
import { DuolaneError, invalid, notFound } from '../../errors.ts';
import { isFinal } from '../../event/index.ts';
import type { Entry, Snapshot, Turn } from '../../event/types.ts';
import { asString, type JsonObject, omitUndefined } from '../../json.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { createRunner, type Runner, type RunnerOptions, type TaskLog } from '../../task/index.ts';
import { longOf, repeatable } from '../registry/registry.ts';
import { TaskWanted } from '../registry/run-tool.ts';
import { keyOf, toAnswer } from '../sources/input-codec.ts';
import { taskSupportRequired } from '../sources/task-codec.ts';
import type {
  CallOptions,
  SourceTasks,
  TaskOptions,
  ToolCall,
  ToolEvent,
  ToolSource,
  ToolTask,
} from '../types.ts';
import { callAgent, callOf, toTurnPart } from './call-agent.ts';
import { isExpired, type TaskTimes, toTask } from './task-state.ts';

const TTL_MS = 24 * 60 * 60 * 1000;
const POLL_MS = 1_000;
/** How often expired tasks that still wait for input are ended. */
const SWEEP_MS = 60_000;
/** How often a watcher gets another message about the progress of a task. */
const PROGRESS_MS = 500;

/** The options of `withTasks`. */
export interface WithTasksOptions extends Pick<
  RunnerOptions,
  'maxRuns' | 'maxRunsPerOwner' | 'graceMs' | 'logger' | 'observer'
> {
  /** Where the tasks are kept. It stays open; delete ended tasks with its `prune`. */
  readonly log: TaskLog;
  /** The name of the tasks in the log, as their agent; `mcp/<name of the source>` by default. */
  readonly agent?: string;
  /**
   * Which tools may take long. By default those of a registry that say so (`long`); set it for a
   * dialled server that has no tasks itself.
   */
  readonly long?: (tool: string) => boolean | 'required';
  /** How long a task is kept, from its creation; a day by default, null without a limit. */
  readonly ttlMs?: number | null;
  /** How often clients should ask for the state of a task; a second by default. */
  readonly pollIntervalMs?: number;
}

/** A source whose long calls become tasks. */
export interface TaskSource extends ToolSource, AsyncDisposable {
  readonly tasks: SourceTasks;
}

/**
 * Makes long calls of a source into tasks of a durable log (`io.modelcontextprotocol/tasks`): they
 * go on when the client, a bridge or this server goes away. A tool says that it is `long`; a client
 * that does not support tasks gets its result as ever. If the process is killed, a task of a tool
 * with `idempotentHint` or `readOnlyHint` runs again, any other fails as interrupted, and one that
 * waits for input goes on waiting. Several processes may share the log. Disposing ends the runs
 * here, not the source and the log.
 *
 * @example
 * ```ts
 * await using log = await sqliteLog({ file: 'tasks.db' });
 * await using tools = withTasks(source, { log });
 * await using offered = await offerHttp(tools);
 * ```
 */
export function withTasks(source: ToolSource, options: WithTasksOptions): TaskSource {
  if (source.tasks)
    throw invalid('cannot add tasks: the source has tasks already; offer it as it is');
  const { long = (name) => longOf(source, name) } = options;
  const tasks = new LogTasks(source, options);
  return {
    info: source.info,
    listTools: (listing) => source.listTools(listing),
    callTool: (call, calling) => callTool(source, tasks, long(call.name), call, calling),
    ...(source.listResources && { listResources: (listing) => source.listResources!(listing) }),
    ...(source.listResourceTemplates && {
      listResourceTemplates: (listing) => source.listResourceTemplates!(listing),
    }),
    ...(source.listPrompts && { listPrompts: (listing) => source.listPrompts!(listing) }),
    ...(source.readResource && {
      readResource: (uri, reading) => source.readResource!(uri, reading),
    }),
    ...(source.getPrompt && {
      getPrompt: (name, args, asking) => source.getPrompt!(name, args, asking),
    }),
    ...(source.complete && { complete: (request, asking) => source.complete!(request, asking) }),
    ...(source.listen && { listen: (listening) => source.listen!(listening) }),
    tasks,
    [Symbol.asyncDispose]: () => tasks[Symbol.asyncDispose](),
  };
}

async function* callTool(
  source: ToolSource,
  tasks: LogTasks,
  long: boolean | 'required',
  call: ToolCall,
  options: CallOptions = {},
): AsyncGenerator<ToolEvent, void, undefined> {
  if (!options.task && long === 'required') throw taskSupportRequired();
  if (!options.task || long === false) {
    try {
      return yield* source.callTool(call, options);
    } catch (error) {
      if (!(error instanceof TaskWanted)) throw error;
    }
  }
  options.signal?.throwIfAborted();
  yield { type: 'task', task: await tasks.create(call, options.owner) };
}

/** The tasks of a source, in a log. */
class LogTasks implements SourceTasks, AsyncDisposable {
  readonly checksOwner = true;
  readonly #log: TaskLog;
  readonly #agent: string;
  readonly #source: ToolSource;
  readonly #times: TaskTimes;
  readonly #runner: Runner;
  readonly #sweeper: NodeJS.Timeout;

  constructor(source: ToolSource, options: WithTasksOptions) {
    const { log, agent = `mcp/${source.info.name}`, long: _, ...rest } = options;
    const { ttlMs = TTL_MS, pollIntervalMs = POLL_MS, ...running } = rest;
    for (const [name, value] of Object.entries({ ttlMs, pollIntervalMs }))
      if (value !== null && !(Number.isInteger(value) && value > 0))
        throw invalid(`invalid ${name} "${value}": expected a positive integer, in ms`);
    this.#log = log;
    this.#agent = agent;
    this.#source = source;
    this.#times = { ttlMs, pollIntervalMs };
    const agents = {
      [agent]: callAgent(source, false),
      [repeated(agent)]: callAgent(source, true),
    };
    this.#runner = createRunner({ ...running, log, agents });
    this.#sweeper = setInterval(() => {
      this.#sweep().catch(reportUnexpected);
    }, SWEEP_MS).unref();
  }

  /** Creates the task of a call. It is durable when this resolves. */
  async create(call: ToolCall, owner: string | undefined): Promise<ToolTask> {
    const task = randomUUID();
    const turn = {
      agent: repeatable(this.#source, call.name) ? repeated(this.#agent) : this.#agent,
      task,
      context: task,
      messageId: task,
      owner,
      metadata: { ...this.#times },
      parts: [toTurnPart(call)],
    };
    await this.#runner.submit(omitUndefined<Turn>(turn));
    return toTask(await this.#own(task, owner));
  }

  async get(taskId: string, { owner }: TaskOptions = {}): Promise<ToolTask> {
    return toTask(await this.#own(taskId, owner));
  }

  async update(taskId: string, responses: JsonObject, { owner }: TaskOptions = {}): Promise<void> {
    const { agent, context, pending, turns } = await this.#own(taskId, owner);
    const callId = turns[0] ? callOf(turns[0]).id : '';
    const answers = pending.flatMap((request) => {
      const key = keyOf(callId, request);
      return Object.hasOwn(responses, key) ? [toAnswer(request.id, responses[key])] : [];
    });
    if (answers.length === 0) return;
    const messageId = randomUUID();
    const turn = { agent, task: taskId, context, messageId, owner, parts: [], answers };
    try {
      await this.#runner.submit(omitUndefined<Turn>(turn));
    } catch (error) {
      // Another client has answered first, or the task has ended: the answer comes too late, and
      // the protocol ignores it.
      const { code } = DuolaneError.from(error);
      if (code !== 'conflict' && code !== 'closed') throw error;
    }
  }

  async cancel(taskId: string, { owner }: TaskOptions = {}): Promise<void> {
    const { state } = await this.#own(taskId, owner);
    if (!isFinal(state)) await this.#cancel(taskId, 'the client cancelled the task');
  }

  async *watch(
    taskId: string,
    { owner, signal }: TaskOptions = {},
  ): AsyncGenerator<ToolTask, void, undefined> {
    let snapshot = await this.#own(taskId, owner);
    yield toTask(snapshot);
    if (isFinal(snapshot.state)) return;
    const reading = this.#log.read(taskId, snapshot.seq, signal ? { signal } : {});
    let shown = JSON.stringify(toTask(snapshot));
    let shownAt = 0;
    for await (const first of reading) {
      let message: string | undefined;
      let changed = false;
      for (let entry: Entry | undefined = first; entry; entry = reading.take()) {
        if (entry.type === 'tool.progress') message = asString(entry.message, '');
        else changed ||= CHANGES.has(entry.type);
      }
      if (!changed && (message === undefined || Date.now() - shownAt < PROGRESS_MS)) continue;
      shownAt = Date.now();
      snapshot = await this.#own(taskId, owner);
      const task = toTask(snapshot, message === '' ? undefined : message);
      const text = JSON.stringify(task);
      if (text !== shown) yield task;
      shown = text;
      if (isFinal(snapshot.state)) return;
    }
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(async () => {
    clearInterval(this.#sweeper);
    await this.#runner[Symbol.asyncDispose]();
  });

  /** Returns a task of the owner. Throws `not_found` for any other, as if it did not exist. */
  async #own(taskId: string, owner: string | undefined): Promise<Snapshot> {
    const found = await this.#log.get(taskId);
    if (!found || found.owner !== owner || !this.#isOurs(found))
      throw notFound(`task "${taskId}" not found; it may have expired`);
    if (!isExpired(found)) return found;
    if (!isFinal(found.state)) await this.#cancel(taskId, EXPIRED);
    throw notFound(`task "${taskId}" not found; it has expired`);
  }

  #isOurs({ agent }: Snapshot): boolean {
    return agent === this.#agent || agent === repeated(this.#agent);
  }

  async #cancel(taskId: string, reason: string): Promise<void> {
    await this.#log.requestCancel(taskId, reason).catch((error: unknown) => {
      // The task has ended meanwhile: there is nothing to cancel.
      if (DuolaneError.from(error).code !== 'closed') throw error;
    });
  }

  /** Ends expired tasks that wait for input; a run that is busy ends by its deadline. */
  async #sweep(): Promise<void> {
    for (const agent of [this.#agent, repeated(this.#agent)])
      for (const state of ['input-required', 'auth-required'] as const)
        for await (const snapshot of this.#log.list({ agent, state }))
          if (isExpired(snapshot)) await this.#cancel(snapshot.task, EXPIRED);
  }
}

const EXPIRED = 'the time to live of the task has passed';

/** The agent of tools that may run twice. */
const repeated = (agent: string): string => `${agent}/repeatable`;

/** The entries that change a task as its client sees it. */
const CHANGES: ReadonlySet<Entry['type']> = new Set<Entry['type']>([
  'turn.submitted',
  'cancel.requested',
  'run.started',
  'run.suspended',
  'run.finished',
  'input.required',
]);
