import { AsyncLocalStorage } from 'node:async_hooks';
import { DuolaneError } from '../../errors.ts';
import type { AgentContext } from '../../event/types.ts';
import { asObject, asObjects, asString, isObject, type JsonObject } from '../../json.ts';
import { beginCall, type BegunCall } from '../shared/durable-call.ts';
import { DurableTools } from '../shared/durable-tools.ts';
import { decodeValue, encodeValue } from '../shared/value-codec.ts';
import { mergeParts, type ProviderPart, providerParts, STORED_PARTS } from './provider-parts.ts';
import type { NestedRuns } from './nested-runs.ts';

/** The part of an `Agent` of the OpenAI Agents SDK that is made durable. */
export interface OpenAiAgent {
  readonly name: string;
  readonly model: unknown;
  readonly tools: readonly unknown[];
  readonly handoffs: readonly unknown[];
  getAllTools(...context: never[]): Promise<unknown[]>;
  getEnabledHandoffs(...context: never[]): Promise<unknown[]>;
}

/** The part of a `Runner` of the OpenAI Agents SDK that is made durable. */
export interface OpenAiRunner {
  readonly config: { readonly model?: unknown; readonly modelProvider: unknown };
}

/** A model of the SDK. */
interface StreamingModel {
  getStreamedResponse(request: unknown): AsyncIterable<JsonObject>;
}

interface InvokableTool {
  readonly name: string;
  invoke(context: unknown, input: unknown, details?: unknown): Promise<unknown>;
}

interface ClonableHandoff {
  readonly agent: OpenAiAgent;
  clone(change: { readonly agent: unknown }): unknown;
}

const LAST = new DuolaneError('canceled', 'the last message need not be stored');
const UNREAD = new DuolaneError('canceled', 'the stream of the model is no longer read');

/** Tools that the provider runs: their calls are part of the model call. */
const OWN_TYPES = new Set(['function', 'hosted_tool']);
/** Parts of a response after which the run may end. */
const WORDS = new Set(['message', 'reasoning']);

/**
 * Set while a tool runs. A model that the tool calls, such as that of an agent which is called as a
 * tool, belongs to the call of the tool: it has no place in the order of the run's model calls.
 */
const insideTool = new AsyncLocalStorage<true>();

/**
 * Refuses what cannot be made durable: a model by name without the runner that finds it, and tools
 * that the SDK runs on this machine in another way than by `invoke`.
 */
export function checkDurable(agent: OpenAiAgent, hasRunner: boolean): void {
  const seen = new Set<OpenAiAgent>();
  const visit = (each: OpenAiAgent): void => {
    if (seen.has(each)) return;
    seen.add(each);
    if (!isModel(each.model) && !hasRunner)
      throw new DuolaneError(
        'invalid',
        `invalid model of agent "${each.name}": expected a model object; pass one, or also pass \`runner\`, which finds a model by its name`,
      );
    for (const tool of each.tools) {
      const { type, name } = asObject(tool);
      if (!OWN_TYPES.has(asString(type)))
        throw new DuolaneError(
          'unsupported',
          `cannot make tool "${asString(name)}" of agent "${each.name}" durable: its type is "${asString(type)}"; write it as a function tool, or leave out \`agent\``,
        );
    }
    for (const handoff of each.handoffs)
      visit(isHandoff(handoff) ? handoff.agent : (handoff as OpenAiAgent));
  };
  visit(agent);
}

/** The agents of one run, whose model calls and tool calls are durable steps. */
export class DurableAgents {
  readonly #ctx: AgentContext;
  readonly #nested: NestedRuns;
  readonly #tools: DurableTools;
  /** How many model calls have ended. */
  #models = 0;
  readonly #agents = new Map<OpenAiAgent, OpenAiAgent>();
  readonly #wrapped = new Map<unknown, unknown>();

  constructor(ctx: AgentContext, nested: NestedRuns) {
    this.#ctx = ctx;
    this.#nested = nested;
    this.#tools = new DurableTools(ctx);
  }

  /** The agent with durable calls, and so are those that it may hand over to. */
  agent<A extends OpenAiAgent>(agent: A): A {
    const known = this.#agents.get(agent) as A | undefined;
    if (known) return known;
    const own = Object.create(agent) as A;
    this.#agents.set(agent, own);
    const getAllTools: OpenAiAgent['getAllTools'] = async (...context) =>
      (await agent.getAllTools.apply(own, context)).map((tool) => this.#tool(tool));
    const getEnabledHandoffs: OpenAiAgent['getEnabledHandoffs'] = async (...context) =>
      (await agent.getEnabledHandoffs.apply(own, context)).map((each) =>
        isHandoff(each) ? each.clone({ agent: this.agent(each.agent) }) : each,
      );
    const model = isModel(agent.model) ? this.#model(agent.model) : agent.model;
    return Object.assign(own, { getAllTools, getEnabledHandoffs, model });
  }

  /** A runner whose models by name are durable, too. */
  runner<R extends OpenAiRunner>(runner: R): R {
    const { model, modelProvider } = runner.config;
    const provider = modelProvider as { getModel(name?: string): unknown };
    const Runner = runner.constructor as new (config: object) => R;
    return new Runner({
      ...runner.config,
      ...(isModel(model) && { model: this.#model(model) }),
      modelProvider: withMember(provider, 'getModel', async (name?: string) =>
        this.#model((await provider.getModel(name)) as StreamingModel),
      ),
    });
  }

  #model(model: StreamingModel): StreamingModel {
    const known = this.#wrapped.get(model) as StreamingModel | undefined;
    if (known) return known;
    const own = withMember(model, 'getStreamedResponse', (request: unknown) =>
      insideTool.getStore() ? model.getStreamedResponse(request) : this.#stream(model, request),
    );
    this.#wrapped.set(model, own);
    return own;
  }

  async *#stream(
    model: StreamingModel,
    request: unknown,
  ): AsyncGenerator<JsonObject, void, undefined> {
    // A call that fails does not count, since the SDK may retry it.
    const call = beginCall<readonly unknown[]>(this.#ctx, `model ${this.#models + 1}`);
    const known = await call.known;
    try {
      if (known) yield* (await known()).map((event) => decodeValue(event) as JsonObject);
      else yield* storing(model.getStreamedResponse(request), call);
      this.#models += 1;
    } catch (error) {
      await call.abandon(error);
      throw error;
    } finally {
      await call.abandon(UNREAD);
    }
  }

  #tool(tool: unknown): unknown {
    const { type, invoke } = asObject(tool);
    if (!isObject(tool) || type !== 'function' || typeof invoke !== 'function') return tool;
    const known = this.#wrapped.get(tool);
    if (known) return known;
    const source = tool as unknown as InvokableTool;
    const own: unknown = Object.create(Object.getPrototypeOf(tool) as object | null, {
      ...Object.getOwnPropertyDescriptors(tool),
      invoke: {
        enumerable: true,
        value: (context: unknown, input: unknown, details: unknown) =>
          this.#invoke(source, context, input, details),
      },
    });
    this.#wrapped.set(tool, own);
    return own;
  }

  async #invoke(
    tool: InvokableTool,
    context: unknown,
    input: unknown,
    details: unknown,
  ): Promise<unknown> {
    const callId = asString(asObject(asObject(details)['toolCall'])['callId']);
    const run = (): Promise<unknown> =>
      insideTool.run(true, () => tool.invoke(context, input, details));
    if (callId === '') return run();
    let isNew = false;
    const end = await this.#tools.call(
      callId,
      async () => {
        isNew = true;
        const output = await run();
        const events = this.#nested.take(callId);
        return { output, ...(events.length > 0 && { events }) };
      },
      // An agent that is called as a tool, and waits for a person itself, returns no text yet.
      (given) => !('on' in tool && asObject(given)['output'] === ''),
    );
    const { output, events } = asObject(end);
    if (!isNew) await this.#nested.repeat(callId, asObjects(events));
    return output;
  }
}

/**
 * Passes the events of a model message on. A message with calls is stored before the SDK gets its
 * end, which is when it makes the calls; one without is the last of the run, and is not stored.
 */
async function* storing(
  events: AsyncIterable<JsonObject>,
  call: BegunCall<readonly unknown[]>,
): AsyncGenerator<JsonObject, void, undefined> {
  const stored: JsonObject[] = [];
  for await (const event of events) {
    addEvent(stored, event);
    const output = asObjects(asObject(event['response'])['output']);
    if (event['type'] === 'response_done')
      if (output.every(({ type }) => WORDS.has(asString(type)))) await call.abandon(LAST);
      else await call.store(stored.map(encodeValue));
    yield event;
  }
}

/** Adds an event to a stored message, with the deltas of one block joined. */
function addEvent(stored: JsonObject[], event: JsonObject): void {
  const last = stored.at(-1);
  const { type } = event;
  if (type === 'model') {
    const parts = providerParts(asObject(event['event']));
    if (parts.length === 0) return;
    const before = partsOf(last);
    if (before) stored.pop();
    stored.push({
      type,
      event: { type: STORED_PARTS, parts: mergeParts([...(before ?? []), ...parts]) },
    });
  } else if (type === 'output_text_delta' && last?.['type'] === type)
    stored[stored.length - 1] = {
      ...last,
      delta: asString(last['delta']) + asString(event['delta']),
    };
  else stored.push(event);
}

function partsOf(event: JsonObject | undefined): readonly ProviderPart[] | undefined {
  const { type, parts } = asObject(event?.['event']);
  return type === STORED_PARTS ? (parts as readonly ProviderPart[]) : undefined;
}

const isModel = (model: unknown): model is StreamingModel =>
  typeof model === 'object' && model !== null && 'getStreamedResponse' in model;

const isHandoff = (value: unknown): value is ClonableHandoff =>
  isObject(value) && 'onInvokeHandoff' in value;

/** The object with another member. It may have private members, which exist only in itself. */
function withMember<T extends object>(source: T, name: string, member: unknown): T {
  return new Proxy(source, {
    get: (target, wanted) => {
      if (wanted === name) return member;
      const value: unknown = Reflect.get(target, wanted, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}
