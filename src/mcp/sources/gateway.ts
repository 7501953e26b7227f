import { DuolaneError, invalid, notFound } from '../../errors.ts';
import { type JsonObject, omitUndefined } from '../../json.ts';
import { settledWithin, sleep } from '../../stream/abort.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import { merge } from '../../stream/merge.ts';
import type { Abortable, Items, ListOptions } from '../../stream/types.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { ChangeFeed } from './change-feed.ts';
import { type ConnectSource, LazyConnection } from './lazy-connection.ts';
import type {
  AskOptions,
  CallOptions,
  SourceListenOptions,
  SourceChange,
  SourceTasks,
  TaskOptions,
  Tool,
  ToolCall,
  ToolEvent,
  ToolSource,
  ToolTask,
} from '../types.ts';

/**
 * A connected source, or a function that dials one. A dialled source is dialled again when its
 * connection is lost.
 */
export type GatewayMember = ToolSource | ConnectSource;

/** How the gateway presents itself, and how long it waits for its members. */
export interface GatewayOptions {
  readonly name?: string;
  readonly version?: string;
  readonly instructions?: string;
  /**
   * How long a list or a read waits for a source that is being dialled. After that the source is
   * omitted while the dial continues. 10 seconds by default.
   */
  readonly dialMs?: number;
}

/** Several sources as one. */
export interface Gateway extends ToolSource, AsyncDisposable {
  /** The sources that cannot be used now, each with the reason. */
  readonly problems: ReadonlyMap<string, DuolaneError>;
}

/** Separates the name of a source from that of its tool. */
const SEPARATOR = '__';
const WAIT_MS = 1_000;
const MAX_WAIT_MS = 30_000;
const DIAL_MS = 10_000;

/**
 * Combines several sources into one. The names of tools and prompts are prefixed with the name of
 * their source (`files__read`), so they never collide; resources keep their URIs and are searched
 * in order. A source that fails is omitted from the lists and named in `problems`; the others stay
 * usable. A dialled source is dialled again until it is connected; `listen` reports its loss and
 * its return as changes. Throws `invalid` for an ambiguous source name. Disposing closes the
 * sources that were dialled here.
 *
 * @example
 * ```ts
 * await using tools = gateway({
 *   files: (options) => dialStdio({ command: 'files', args: [], env, ...options }),
 *   web: (options) => dialHttp({ url: 'https://tools.example/mcp', ...options }),
 * });
 * ```
 */
export function gateway(
  sources: Readonly<Record<string, GatewayMember>>,
  options: GatewayOptions = {},
): Gateway {
  for (const name of Object.keys(sources))
    if (!/^[\w.-]{1,64}$/.test(name) || name.includes(SEPARATOR) || name.endsWith('_'))
      throw invalid(
        `invalid source name ${JSON.stringify(name)}: expected 1 to 64 letters, digits, "_", "-" or ".", without "${SEPARATOR}" and without "_" at the end`,
      );
  return new ManySources(sources, options);
}

/** A task with the name of its source in its id. */
const named = (member: string, task: ToolTask): ToolTask => ({
  ...task,
  taskId: `${member}${SEPARATOR}${task.taskId}`,
});

/** The changes of single resources among the changes of a source. */
async function* ofResources(
  changes: AsyncIterator<SourceChange>,
): AsyncGenerator<SourceChange, void, undefined> {
  try {
    for (let next = await changes.next(); !next.done; next = await changes.next())
      if (next.value.type === 'resource') yield next.value;
  } catch {
    // A source that breaks is reported as a change of the lists by its connection.
  } finally {
    await changes.return?.();
  }
}

class ManySources implements Gateway {
  readonly info: ToolSource['info'];
  readonly problems: Map<string, DuolaneError> = new Map();
  readonly #connections = new Map<string, LazyConnection>();
  /** The sources without a connection, as far as we know. */
  readonly #lost = new Set<string>();
  /** The sources whose dial took longer than `dialMs`. Later lists do not wait for them again. */
  readonly #unresponsive = new Set<string>();
  readonly #dialMs: number;
  readonly #changes = new ChangeFeed();
  readonly #scope = new AbortController();

  constructor(
    sources: Readonly<Record<string, GatewayMember>>,
    { name = 'gateway', version = '1.0.0', instructions, dialMs = DIAL_MS }: GatewayOptions,
  ) {
    this.#dialMs = dialMs;
    this.info = { name, version, ...(instructions !== undefined && { instructions }) };
    for (const [key, member] of Object.entries(sources)) this.#add(key, member);
  }

  listTools(options?: ListOptions): Items<Tool> {
    return this.#list<Tool>((source, at) => source.listTools(at), options, true);
  }

  listPrompts(options?: ListOptions): Items<JsonObject> {
    return this.#list((source, at) => source.listPrompts?.(at), options, true);
  }

  listResources(options?: ListOptions): Items<JsonObject> {
    return this.#list((source, at) => source.listResources?.(at), options, false);
  }

  listResourceTemplates(options?: ListOptions): Items<JsonObject> {
    return this.#list((source, at) => source.listResourceTemplates?.(at), options, false);
  }

  async *callTool(
    call: ToolCall,
    options?: CallOptions,
  ): AsyncGenerator<ToolEvent, void, undefined> {
    const [source, name] = await this.#find('tool', call.name, options);
    const [member] = call.name.split(SEPARATOR, 1);
    // A source that does not check owners cannot keep their tasks apart behind this gateway, which
    // says that it does.
    const task = options?.task && (options.owner === undefined || source.tasks?.checksOwner);
    for await (const event of source.callTool({ ...call, name }, { ...options, task }))
      yield event.type === 'task' ? { type: 'task', task: named(member!, event.task) } : event;
  }

  /** The tasks of all sources; their ids are prefixed with the name of their source. */
  readonly tasks: SourceTasks = {
    checksOwner: true,
    get: async (id, options) => {
      const [tasks, own, member] = await this.#tasksOf(id, options);
      return named(member, await tasks.get(own, options));
    },
    update: async (id, responses, options) => {
      const [tasks, own] = await this.#tasksOf(id, options);
      await tasks.update(own, responses, options);
    },
    cancel: async (id, options) => {
      const [tasks, own] = await this.#tasksOf(id, options);
      await tasks.cancel(own, options);
    },
    watch: (id, options) => this.#watchTask(id, options),
  };

  async *#watchTask(id: string, options?: TaskOptions): AsyncGenerator<ToolTask, void, undefined> {
    const [tasks, own, member] = await this.#tasksOf(id, options);
    for await (const task of tasks.watch(own, options)) yield named(member, task);
  }

  /** Returns the tasks of the source of an id, the id without the prefix, and the prefix. */
  async #tasksOf(id: string, options?: TaskOptions): Promise<[SourceTasks, string, string]> {
    const unknown = notFound(`task "${id}" not found; it may have expired`);
    const at = id.indexOf(SEPARATOR);
    const member = id.slice(0, Math.max(at, 0));
    if (!this.#connections.has(member)) throw unknown;
    const { tasks } = await this.#open(member, options);
    if (!tasks || (options?.owner !== undefined && !tasks.checksOwner)) throw unknown;
    return [tasks, id.slice(at + SEPARATOR.length), member];
  }

  async getPrompt(name: string, args: JsonObject, options?: AskOptions): Promise<JsonObject> {
    const [source, own] = await this.#find('prompt', name, options);
    if (!source.getPrompt)
      throw notFound(`unknown prompt "${name}"; list the prompts for their names`);
    return source.getPrompt(own, args, options);
  }

  async *readResource(
    uri: string,
    options?: AskOptions & { readonly offset?: number },
  ): AsyncGenerator<JsonObject, void, undefined> {
    let reason: unknown = notFound(`unknown resource "${uri}"; list the resources for their URIs`);
    for (const name of this.#connections.keys()) {
      // A source without a connection cannot have the resource; `problems` has its error.
      const source = await this.#openSoon(name, options).catch(() => undefined);
      const parts = source?.readResource?.(uri, options)[Symbol.asyncIterator]();
      if (!parts) continue;
      let first: IteratorResult<JsonObject>;
      try {
        first = await parts.next();
      } catch (error) {
        options?.signal?.throwIfAborted();
        if (error instanceof DuolaneError && error.code === 'suspended') throw error;
        reason = error; // another source may have the resource
        continue;
      }
      if (!first.done) yield first.value;
      return yield* { [Symbol.asyncIterator]: () => parts };
    }
    throw reason;
  }

  listen(options: SourceListenOptions = {}): AsyncIterable<SourceChange> {
    const { resources = [] } = options;
    return resources.length === 0 ? this.#changes.listen(options) : this.#watch(options);
  }

  /**
   * Watches single resources. The gateway does not know which source has a resource, so it
   * subscribes at all of them.
   */
  async *#watch(options: SourceListenOptions): AsyncGenerator<SourceChange, void, undefined> {
    const watches = await Promise.all(
      [...this.#connections.keys()].map(async (name) => {
        try {
          const source = await this.#openSoon(name, options);
          const changes = source.listen?.(options)[Symbol.asyncIterator]();
          return (await changes?.next())?.done === false ? ofResources(changes!) : undefined;
        } catch {
          options.signal?.throwIfAborted();
          return undefined; // the source has no such resource, or no connection
        }
      }),
    );
    const there = watches.filter((watch) => watch !== undefined);
    yield* merge(this.#changes.listen(options), ...there);
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    const closed = new DuolaneError('closed', 'the gateway was disposed');
    this.#scope.abort(closed);
    this.#changes.fail(closed);
    const closing = [...this.#connections.values()].map((each) => each[Symbol.asyncDispose]());
    await Promise.all(closing);
  }

  #add(name: string, member: GatewayMember): void {
    const dialled = typeof member === 'function';
    const connection = new LazyConnection(member, {
      changed: (change) => this.#changes.notify(change),
      lost: (reason) => {
        this.#down(name, reason);
        this.#announce();
        if (dialled) this.#keepTrying(name).catch(reportUnexpected);
      },
    });
    this.#connections.set(name, connection);
    if (dialled) this.#keepTrying(name).catch(reportUnexpected);
    else void this.#open(name).catch(() => {}); // `problems` has the error
  }

  /** Dials until the source is connected, which is announced as a change. Never rejects. */
  async #keepTrying(name: string): Promise<void> {
    for (let tries = 0; !this.#scope.signal.aborted; tries += 1) {
      try {
        await this.#open(name);
        return;
      } catch {
        // `problems` has the error; the source is dialled again after a wait.
        const wait = Math.min(WAIT_MS * 2 ** tries, MAX_WAIT_MS);
        // An abort ends the wait; the loop checks the signal.
        await sleep(wait, this.#scope.signal).catch(() => {});
      }
    }
  }

  async #open(name: string, options?: Abortable): Promise<ToolSource> {
    try {
      const source = await this.#connections.get(name)!.open(options);
      this.#unresponsive.delete(name);
      if (this.#lost.delete(name)) {
        this.problems.delete(name);
        this.#announce();
      }
      return source;
    } catch (error) {
      options?.signal?.throwIfAborted();
      const { message } = DuolaneError.from(error);
      const reason = new DuolaneError(
        'network',
        `tool server "${name}" is not connected: ${message}`,
        { cause: error },
      );
      this.#unresponsive.delete(name);
      throw this.#down(name, reason);
    }
  }

  /**
   * Opens a source for an operation that asks all of them: a source that accepts the connection but
   * does not respond must not delay the others.
   */
  async #openSoon(name: string, options?: Abortable): Promise<ToolSource> {
    const opening = this.#open(name, options);
    const waitMs = this.#unresponsive.has(name) ? 0 : this.#dialMs;
    if (await settledWithin(opening, waitMs)) return opening;
    const reason = new DuolaneError(
      'timeout',
      `tool server "${name}" timed out after ${this.#dialMs} ms (dialMs): the dial has not completed`,
    );
    this.#unresponsive.add(name);
    throw this.#down(name, reason);
  }

  /** Records that a source has no connection. Returns the reason. */
  #down(name: string, reason: DuolaneError): DuolaneError {
    this.#lost.add(name);
    this.problems.set(name, reason);
    return reason;
  }

  #announce(): void {
    for (const type of ['tools', 'resources', 'prompts'] as const) this.#changes.notify({ type });
  }

  /** Returns the source of a prefixed name, and the name without the prefix. */
  async #find(kind: string, name: string, options?: Abortable): Promise<[ToolSource, string]> {
    const at = name.indexOf(SEPARATOR);
    const owner = name.slice(0, Math.max(at, 0));
    if (!this.#connections.has(owner))
      throw notFound(`unknown ${kind} "${name}"; list the ${kind}s for their names`);
    return [await this.#open(owner, options), name.slice(at + SEPARATOR.length)];
  }

  /**
   * Lists the sources one after the other. The checkpoint is that of a source, prefixed with its
   * name.
   */
  #list<T extends JsonObject>(
    list: (source: ToolSource, options: ListOptions) => Items<T> | undefined,
    { after, signal }: ListOptions = {},
    named: boolean,
  ): Items<T> {
    const items: Items<T> & { checkpoint: string | undefined } = {
      checkpoint: after,
      [Symbol.asyncIterator]: () => walk(this),
    };
    const [, first = '', inner] =
      after === undefined ? [] : (/^([\w.-]+):(.*)$/s.exec(after) ?? []);
    if (after !== undefined && !this.#connections.has(first))
      throw invalid(`unknown cursor "${after}"; use one that this list returned`);
    async function* walk(self: ManySources): AsyncGenerator<T, void, undefined> {
      const names = [...self.#connections.keys()];
      for (const name of names.slice(Math.max(0, names.indexOf(first)))) {
        signal?.throwIfAborted();
        try {
          const at = { signal, after: (name === first && inner) || undefined };
          const options = omitUndefined<ListOptions>(at);
          const own = list(await self.#openSoon(name, options), options);
          for await (const item of own ?? []) {
            const checkpoint = own?.checkpoint;
            items.checkpoint = checkpoint === undefined ? undefined : `${name}:${checkpoint}`;
            yield named ? { ...item, name: `${name}${SEPARATOR}${String(item['name'])}` } : item;
          }
          self.problems.delete(name);
        } catch (error) {
          signal?.throwIfAborted();
          self.problems.set(name, DuolaneError.from(error, 'network'));
        }
      }
    }
    return items;
  }
}
