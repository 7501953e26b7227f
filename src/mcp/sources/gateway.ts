import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { settledWithin, sleep } from '../../stream/abort.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import { merge } from '../../stream/merge.ts';
import type { Abortable, Items, ListOptions } from '../../stream/types.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { ChangeFeed } from './change-feed.ts';
import { type ConnectSource, LazyConnection, dialling } from './lazy-connection.ts';
import type {
  AskOptions,
  CallOptions,
  SourceListenOptions,
  SourceChange,
  Tool,
  ToolCall,
  ToolEvent,
  ToolSource,
} from '../types.ts';

/** A source that is there, or how to dial one: then it is dialled again when it is lost. */
export type GatewayMember = ToolSource | ConnectSource;

export interface GatewayOptions {
  readonly name?: string;
  readonly version?: string;
  readonly instructions?: string;
  /**
   * How long a list or a read waits for a source that is being dialled; then the source is left out
   * and dialled on. 10 seconds by default.
   */
  readonly dialMs?: number;
}

/** Many sources as one. */
export interface Gateway extends ToolSource, AsyncDisposable {
  /** Sources that cannot be used now, each with the reason. */
  readonly problems: ReadonlyMap<string, DuolaneError>;
}

/** Between the name of a source and that of its tool. */
const MARK = '__';
const WAIT_MS = 1_000;
const MAX_WAIT_MS = 30_000;
const DIAL_MS = 10_000;

/**
 * Many sources behind one: tools and prompts get the name of their source in front (`files__read`),
 * so that equal names never meet; resources keep their URIs and are looked for in order. A source
 * that fails is left out of the lists and named in `problems`; the others go on. One that was
 * dialled here is dialled again until it is back, and `listen` tells both. Throws `invalid` for
 * names that could be mistaken for each other. Disposing closes what was dialled here.
 */
export function gateway(
  sources: Readonly<Record<string, GatewayMember>>,
  options: GatewayOptions = {},
): Gateway {
  for (const name of Object.keys(sources))
    if (!/^[\w.-]{1,64}$/.test(name) || name.includes(MARK) || name.endsWith('_'))
      throw new DuolaneError(
        'invalid',
        `${JSON.stringify(name)} cannot name a source: use letters, digits, - and ., with no ${MARK} inside and no _ at the end`,
      );
  return new ManySources(sources, options);
}

async function* ofResources(
  changes: AsyncIterator<SourceChange>,
): AsyncGenerator<SourceChange, void, undefined> {
  try {
    for (let next = await changes.next(); !next.done; next = await changes.next())
      if (next.value.type === 'resource') yield next.value;
  } catch {
    // One that breaks is told of as a change of the lists, as ever.
  } finally {
    await changes.return?.();
  }
}

class ManySources implements Gateway {
  readonly info: ToolSource['info'];
  readonly problems: Map<string, DuolaneError> = new Map();
  readonly #connections = new Map<string, LazyConnection>();
  /** Without a connection, as far as we know. */
  readonly #lost = new Set<string>();
  /** Being dialled for longer than `dialMs`: nothing waits for these a second time. */
  readonly #silent = new Set<string>();
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
    yield* source.callTool({ ...call, name }, options);
  }

  async getPrompt(name: string, args: JsonObject, options?: AskOptions): Promise<JsonObject> {
    const [source, own] = await this.#find('prompt', name, options);
    if (!source.getPrompt) throw new DuolaneError('not_found', `Unknown prompt: ${name}`);
    return source.getPrompt(own, args, options);
  }

  async *readResource(
    uri: string,
    options?: AskOptions & { readonly offset?: number },
  ): AsyncGenerator<JsonObject, void, undefined> {
    let reason: unknown = new DuolaneError('not_found', `Unknown resource: ${uri}`);
    for (const name of this.#connections.keys()) {
      // A member that is away cannot have the resource; its problem is in the lists.
      const source = await this.#openSoon(name, options).catch(() => undefined);
      const parts = source?.readResource?.(uri, options)[Symbol.asyncIterator]();
      if (!parts) continue;
      let first: IteratorResult<JsonObject>;
      try {
        first = await parts.next();
      } catch (error) {
        options?.signal?.throwIfAborted();
        if (error instanceof DuolaneError && error.code === 'suspended') throw error;
        reason = error; // another may have it
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

  /** Nobody knows whose a resource is, so all that are there are asked to tell of it. */
  async *#watch(options: SourceListenOptions): AsyncGenerator<SourceChange, void, undefined> {
    const watches = await Promise.all(
      [...this.#connections.keys()].map(async (name) => {
        try {
          const source = await this.#openSoon(name, options);
          const changes = source.listen?.(options)[Symbol.asyncIterator]();
          return (await changes?.next())?.done === false ? ofResources(changes!) : undefined;
        } catch {
          options.signal?.throwIfAborted();
          return undefined; // it has no such resource, or is away
        }
      }),
    );
    const there = watches.filter((watch) => watch !== undefined);
    yield* merge(this.#changes.listen(options), ...there);
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    const closed = new DuolaneError('closed', 'the gateway was closed');
    this.#scope.abort(closed);
    this.#changes.fail(closed);
    const closing = [...this.#connections.values()].map((each) => each[Symbol.asyncDispose]());
    await Promise.all(closing);
  }

  #add(name: string, member: GatewayMember): void {
    const dialled = typeof member === 'function';
    const open = dialled
      ? dialling(member)
      : async () => ({ source: member, close: async () => {} });
    const connection = new LazyConnection(open, {
      changed: (change) => this.#changes.tell(change),
      lost: (reason) => {
        this.#down(name, reason);
        if (dialled) this.#keepTrying(name).catch(reportUnexpected);
      },
    });
    this.#connections.set(name, connection);
    if (dialled) this.#keepTrying(name).catch(reportUnexpected);
    else void this.#open(name).catch(() => {}); // the lists show what is wrong with it
  }

  /** Until it is connected; its return is a change. Never rejects. */
  async #keepTrying(name: string): Promise<void> {
    for (let tries = 0; !this.#scope.signal.aborted; tries += 1) {
      try {
        await this.#open(name);
        return;
      } catch {
        // The lists report the problem of a member; it is dialled again after a wait.
        const wait = Math.min(WAIT_MS * 2 ** tries, MAX_WAIT_MS);
        // An abort ends the wait; the loop looks at the signal.
        await sleep(wait, this.#scope.signal).catch(() => {});
      }
    }
  }

  async #open(name: string, options?: Abortable): Promise<ToolSource> {
    try {
      const source = await this.#connections.get(name)!.open(options);
      this.#silent.delete(name);
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
        `the tool server ${name} is not connected: ${message}`,
        { cause: error },
      );
      this.#silent.delete(name);
      this.#lost.add(name);
      this.problems.set(name, reason);
      throw reason;
    }
  }

  /** For what asks all members: one that accepts the connection and says nothing delays no other. */
  async #openSoon(name: string, options?: Abortable): Promise<ToolSource> {
    const opening = this.#open(name, options);
    const waitMs = this.#silent.has(name) ? 0 : this.#dialMs;
    if (await settledWithin(opening, waitMs)) return opening;
    const reason = new DuolaneError(
      'timeout',
      `the tool server ${name} timed out after ${this.#dialMs} ms (dialMs): it is still being dialled`,
    );
    this.#silent.add(name);
    this.#lost.add(name);
    this.problems.set(name, reason);
    throw reason;
  }

  #down(name: string, reason: DuolaneError): void {
    this.#lost.add(name);
    this.problems.set(name, reason);
    this.#announce();
  }

  #announce(): void {
    for (const type of ['tools', 'resources', 'prompts'] as const) this.#changes.tell({ type });
  }

  async #find(kind: string, name: string, options?: Abortable): Promise<[ToolSource, string]> {
    const at = name.indexOf(MARK);
    const owner = name.slice(0, Math.max(at, 0));
    if (!this.#connections.has(owner))
      throw new DuolaneError('not_found', `Unknown ${kind}: ${name}`);
    return [await this.#open(owner, options), name.slice(at + MARK.length)];
  }

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
      throw new DuolaneError('invalid', `Unknown cursor: ${after}`);
    async function* walk(self: ManySources): AsyncGenerator<T, void, undefined> {
      const names = [...self.#connections.keys()];
      for (const name of names.slice(Math.max(0, names.indexOf(first)))) {
        signal?.throwIfAborted();
        try {
          const source = await self.#openSoon(name, signal ? { signal } : {});
          const own = list(source, {
            ...(signal && { signal }),
            ...(name === first && inner ? { after: inner } : {}),
          });
          for await (const item of own ?? []) {
            const at = own?.checkpoint;
            items.checkpoint = at === undefined ? undefined : `${name}:${at}`;
            yield named ? { ...item, name: `${name}${MARK}${String(item['name'])}` } : item;
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
