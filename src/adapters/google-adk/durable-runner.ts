import { createHash, randomUUID } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import type { AgentContext } from '../../event/types.ts';
import { asObject, asObjects, isObject, type JsonObject } from '../../json.ts';
import { type BegunCall, beginCall } from '../shared/durable-call.ts';
import { decodeValue, encodeValue } from '../shared/value-codec.ts';
import type { AdkRunner, AdkSessionKey } from './google-adk-agent.ts';

/** What a tool did, as the log keeps it: its result, and what it changed besides. */
interface StoredResult {
  readonly result: unknown;
  readonly actions: unknown;
}

/** The part of ADK's context of a tool that the plugin uses. */
interface ToolContext {
  readonly invocationContext: { readonly session: unknown };
  readonly actions: object;
  readonly functionCallId?: string;
}

const LAST = new DuolaneError('canceled', 'the last message need not be stored');
const UNREAD = new DuolaneError('canceled', 'the responses of the model are no longer read');
const ASKS = new DuolaneError('canceled', 'the tool waits for a person');
const MAX_ID_CHARS = 200;

/** What a tool has requested of a person: it runs again with the answer. */
const REQUESTS = ['requestedToolConfirmations', 'requestedAuthConfigs'];

/**
 * Whether the calls of the runner can be made durable. A workflow, which is not a tree of agents,
 * cannot be entered again.
 */
export const isExtensible = ({ pluginManager, agent }: AdkRunner): boolean =>
  isObject(pluginManager) &&
  'plugins' in pluginManager &&
  isObject(agent) &&
  'subAgents' in agent &&
  'runAsync' in agent;

/**
 * A copy of the runner for one run, whose model calls and tool calls are durable steps. It works on
 * a copy of the session, which starts as the session of the runner was before the turn.
 */
export async function durableRunner(
  runner: AdkRunner,
  key: AdkSessionKey,
  ctx: AgentContext,
): Promise<{ readonly runner: AdkRunner; readonly commit: () => Promise<void> }> {
  const copy = await copySession(runner, key, ctx);
  const manager = runner.pluginManager as { readonly plugins: Iterable<unknown> };
  const Manager = manager.constructor as new (plugins: readonly unknown[]) => object;
  const own = Object.create(runner, {
    agent: { value: new DurableModels(ctx).agent(runner.agent as AdkAgent) },
    sessionService: { value: copy.service },
    // The first plugin that returns a value decides.
    pluginManager: { value: new Manager([toolPlugin(ctx, copy.session), ...manager.plugins]) },
  }) as AdkRunner;
  return { runner: own, commit: copy.commit };
}

/** An agent of ADK, as far as it is copied. */
interface AdkAgent {
  readonly name: string;
  readonly subAgents: readonly AdkAgent[];
  readonly parentAgent?: AdkAgent;
  readonly canonicalModel?: AdkModel;
}

interface AdkModel {
  generateContentAsync(...request: unknown[]): AsyncIterable<JsonObject>;
}

/** The agents of a run, whose models store each message that calls tools. */
class DurableModels {
  readonly #ctx: AgentContext;
  readonly #agents = new Map<AdkAgent, AdkAgent>();
  /** By agent, how many model calls have ended: parallel agents call in any order. */
  readonly #calls = new Map<string, number>();

  constructor(ctx: AgentContext) {
    this.#ctx = ctx;
  }

  /** A copy of the agent, and of those above and below it. */
  agent(source: AdkAgent): AdkAgent {
    const known = this.#agents.get(source);
    if (known) return known;
    const own = Object.create(source) as AdkAgent;
    this.#agents.set(source, own);
    const define = (name: string, get: () => unknown): void => {
      Object.defineProperty(own, name, { get, configurable: true });
    };
    const subAgents = source.subAgents.map((each) => this.agent(each));
    define('subAgents', () => subAgents);
    define('parentAgent', () => source.parentAgent && this.agent(source.parentAgent));
    if ('canonicalModel' in source)
      define('canonicalModel', () => this.#model(Reflect.get(source, 'canonicalModel'), own.name));
    return own;
  }

  #model(model: AdkModel | undefined, agent: string): AdkModel | undefined {
    if (!model) return undefined;
    const member = (...request: unknown[]): AsyncIterable<JsonObject> =>
      this.#generate(agent, () => model.generateContentAsync(...request));
    return new Proxy(model, {
      get: (target, name) => {
        if (name === 'generateContentAsync') return member;
        // A model may have private members, which exist only in the model itself.
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
  }

  async *#generate(
    agent: string,
    generate: () => AsyncIterable<JsonObject>,
  ): AsyncGenerator<JsonObject, void, undefined> {
    const count = (this.#calls.get(agent) ?? 0) + 1;
    const call = beginCall<readonly unknown[]>(this.#ctx, `model ${short(agent)} ${count}`);
    const known = await call.known;
    try {
      if (known) yield* (await known()).map((each) => decodeValue(each) as JsonObject);
      else yield* storing(generate(), call);
      this.#calls.set(agent, count);
    } catch (error) {
      await call.abandon(error);
      throw error;
    } finally {
      await call.abandon(UNREAD);
    }
  }
}

/**
 * Passes the responses of a model on. From the first call on they are held back until all of them
 * are stored, since ADK makes a call as soon as it gets it. A message without calls is the last one
 * of a run, and is not stored.
 */
async function* storing(
  responses: AsyncIterable<JsonObject>,
  call: BegunCall<readonly unknown[]>,
): AsyncGenerator<JsonObject, void, undefined> {
  const stored: JsonObject[] = [];
  const waiting: JsonObject[] = [];
  let hasFailed = false;
  for await (const response of responses) {
    const calls = functionCalls(response);
    // ADK gives a call without an id another one in each run.
    for (const each of calls) if (!each['id']) Object.assign(each, { id: `adk-${randomUUID()}` });
    hasFailed ||= response['errorCode'] !== undefined;
    // The complete response repeats the partial ones.
    if (response['partial'] !== true) stored.push(response);
    if (waiting.length > 0 || calls.length > 0) waiting.push(response);
    else yield response;
  }
  if (waiting.length === 0 || hasFailed) await call.abandon(LAST);
  else await call.store(stored.map(encodeValue));
  yield* waiting;
}

interface Session {
  readonly events: readonly JsonObject[];
}

interface SessionService {
  getSession(key: unknown): PromiseLike<unknown>;
  createSession(key: unknown): PromiseLike<unknown>;
  appendEvent(change: { readonly session: unknown; readonly event: unknown }): Promise<unknown>;
}

async function copySession(
  { appName, sessionService }: AdkRunner,
  key: AdkSessionKey,
  ctx: AgentContext,
): Promise<{
  readonly session: Session;
  readonly service: object;
  readonly commit: () => Promise<void>;
}> {
  const service = sessionService as object as SessionService;
  const request = { appName, ...key };
  const open = async (): Promise<Session> =>
    ((await service.getSession(request)) ?? (await service.createSession(request))) as Session;
  const real = await open();
  // A run that died while it wrote its events to the session has left some of them there.
  const before = await ctx.step('session', () => real.events.length);
  const session = structuredClone({ ...real, events: real.events.slice(0, before) }) as Session;
  const append = baseMethod(service, 'appendEvent');
  const own: object = Object.create(service, {
    getSession: { value: async () => session },
    // That of the base class changes the session that it is given, and stores nothing.
    appendEvent: {
      value: (change: { readonly event: unknown }) =>
        Reflect.apply(append, service, [{ ...change, session }]) as unknown,
    },
  }) as object;
  return {
    session,
    service: own,
    commit: async () => {
      const call = beginCall<readonly unknown[]>(ctx, 'session events');
      const known = await call.known;
      // Stored first: by their ids an earlier attempt's appended events are found.
      const events = known
        ? await known()
        : await call.store(session.events.slice(before).map(encodeValue));
      const target = await open();
      const ids = new Set(target.events.map(({ id }) => id));
      for (const event of events.map((each) => decodeValue(each) as JsonObject))
        if (!ids.has(event['id'])) await service.appendEvent({ session: target, event });
    },
  };
}

/** The method of the class from which all session services are derived. */
function baseMethod(object: object, name: string): (...args: never[]) => unknown {
  let found: unknown;
  for (let each: object | null = object; each; each = Object.getPrototypeOf(each) as object | null)
    if (Object.hasOwn(each, name)) found = Reflect.get(each, name);
  if (typeof found === 'function') return found as (...args: never[]) => unknown;
  throw new DuolaneError('unsupported', `cannot use the session service: it has no ${name}()`);
}

/** A plugin of ADK that answers finished tool calls from the log. */
function toolPlugin(ctx: AgentContext, session: unknown): object {
  const calls = new DurableToolCalls(ctx, session);
  const members: JsonObject = {
    name: 'duolane',
    beforeToolCallback: ({ toolContext }: ToolCallback) => calls.begin(toolContext),
    onToolErrorCallback: ({ toolContext, error }: ToolCallback & { readonly error: Error }) =>
      calls.failed(toolContext, error),
    afterToolCallback: ({ toolContext, result }: ToolCallback & { readonly result: unknown }) =>
      calls.end(toolContext, result),
  };
  // A manager calls all callbacks of a plugin.
  return new Proxy(members, {
    get: (target, name) =>
      Reflect.get(target, name) ?? (CALLBACK.test(String(name)) ? nothing : undefined),
  });
}

const CALLBACK = /^(?:before|after|on)[A-Z]/;

interface ToolCallback {
  readonly toolContext: ToolContext;
}

/** The tool calls of a run. Those inside of an agent that is a tool belong to the call of that. */
class DurableToolCalls {
  readonly #ctx: AgentContext;
  readonly #session: unknown;
  readonly #uses = new Map<string, number>();
  readonly #begun = new Map<ToolContext, BegunCall<StoredResult>>();

  constructor(ctx: AgentContext, session: unknown) {
    this.#ctx = ctx;
    this.#session = session;
  }

  /** Returns the stored result; undefined if the call must be made. */
  async begin(context: ToolContext): Promise<unknown> {
    const { invocationContext, functionCallId } = context;
    if (invocationContext.session !== this.#session || !functionCallId) return undefined;
    const call = beginCall<StoredResult>(this.#ctx, this.#step(short(functionCallId)));
    const known = await call.known;
    if (!known) {
      this.#begun.set(context, call);
      return undefined;
    }
    const { result, actions } = await known();
    Object.assign(context.actions, decodeValue(actions));
    return decodeValue(result);
  }

  /** Returns what ADK makes of an error, so that it is stored like a result. */
  async failed(context: ToolContext, { message }: Error): Promise<unknown> {
    return this.#begun.has(context) && !this.#ctx.signal.aborted ? { error: message } : undefined;
  }

  async end(context: ToolContext, result: unknown): Promise<undefined> {
    const call = this.#begun.get(context);
    this.#begun.delete(context);
    if (!call) return undefined;
    const { signal } = this.#ctx;
    const { actions } = context;
    const asks = REQUESTS.some((name) => Object.keys(asObject(asObject(actions)[name])).length > 0);
    // A result that is missing may come later, from a person.
    if (signal.aborted) await call.abandon(signal.reason);
    else if (asks || result === undefined || result === null) await call.abandon(ASKS);
    else await call.store({ result: encodeValue(result), actions: encodeValue(actions) });
    return undefined;
  }

  /** The step of a call. It is made again after a confirmation, and a provider may repeat ids. */
  #step(id: string): string {
    const uses = (this.#uses.get(id) ?? 0) + 1;
    this.#uses.set(id, uses);
    return uses === 1 ? `tool ${id}` : `tool ${id} ${uses}`;
  }
}

const nothing = async (): Promise<undefined> => undefined;

const short = (id: string): string =>
  id.length > MAX_ID_CHARS ? createHash('sha256').update(id).digest('hex') : id;

const functionCalls = (response: JsonObject): readonly JsonObject[] =>
  asObjects(asObject(response['content'])['parts'])
    .map((part) => part['functionCall'])
    .filter(isObject);
