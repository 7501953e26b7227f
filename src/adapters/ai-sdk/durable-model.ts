import { DuolaneError } from '../../errors.ts';
import type { AgentContext } from '../../event/types.ts';
import { asObject, asString, isObject, type JsonObject } from '../../json.ts';
import { type BegunCall, beginCall } from '../shared/durable-call.ts';
import { DurableTools } from '../shared/durable-tools.ts';
import { decodeValue, encodeValue } from '../shared/value-codec.ts';

interface ModelStream {
  readonly stream: ReadableStream<JsonObject>;
}

/** The part of a language model, in the AI SDK 5 to 7, that is made durable. */
interface StreamingModel {
  doStream(options: unknown): PromiseLike<ModelStream>;
}

const LAST = new DuolaneError('canceled', 'the last message need not be stored');
const UNREAD = new DuolaneError('canceled', 'the stream of the model is no longer read');

/** Whether the object is a language model whose calls can be made durable, and not its name. */
export const isStreamingModel = (model: unknown): boolean =>
  typeof model === 'object' && model !== null && 'doStream' in model;

/**
 * Makes the calls of a model and its tools durable for one run: what has finished is answered from
 * the log when the agent is called again, so the SDK comes to where it was without a request.
 */
export class DurableCalls {
  readonly #ctx: AgentContext;
  #models = 0;
  readonly #tools: DurableTools;

  constructor(ctx: AgentContext) {
    this.#ctx = ctx;
    this.#tools = new DurableTools(ctx);
  }

  /** A model that stores each of its messages that calls tools, before the SDK gets the calls. */
  model<Model>(model: Model): Model {
    const source = model as Model & StreamingModel & object;
    const doStream: StreamingModel['doStream'] = (options) => this.#stream(source, options);
    return new Proxy(source, {
      get: (target, name) => {
        if (name === 'doStream') return doStream;
        // A model may have private members, which exist only in the model itself.
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
  }

  /** Tools that store what they return or throw. */
  tools<Tools>(tools: Tools): Tools {
    if (!isObject(tools)) return tools;
    const entries = Object.entries(tools).map(([name, tool]) => [name, this.#tool(tool)] as const);
    return Object.fromEntries(entries) as Tools;
  }

  async #stream(model: StreamingModel, options: unknown): Promise<ModelStream> {
    const call = beginCall<readonly unknown[]>(this.#ctx, `model ${++this.#models}`);
    const known = await call.known;
    if (known) return { stream: streamOf((await known()).map(decodeValue) as JsonObject[]) };
    try {
      const result = await model.doStream(options);
      return { ...result, stream: storing(result.stream, call) };
    } catch (error) {
      // A call that fails does not count, since the SDK may retry it.
      this.#models -= 1;
      await call.abandon(error);
      throw error;
    }
  }

  #tool(tool: unknown): unknown {
    const { execute } = asObject(tool);
    if (!isObject(tool) || typeof execute !== 'function') return tool;
    const run = (input: unknown, options: unknown): unknown =>
      execute.call(tool, input, options) as unknown;
    const own = Object.create(Object.getPrototypeOf(tool) as object | null) as object;
    const yields = Object.prototype.toString.call(execute) === '[object AsyncGeneratorFunction]';
    return Object.assign(own, tool, {
      execute: (input: unknown, options: unknown) => {
        const callId = asString(asObject(options)['toolCallId']);
        return yields
          ? this.#tools.iterate(callId, () => run(input, options) as AsyncIterable<unknown>)
          : this.#tools.call(callId, () => lastOf(run(input, options)));
      },
    });
  }
}

/** A tool may also return a promise of an iterable, or one of another kind than a generator. */
async function lastOf(result: unknown): Promise<unknown> {
  const value = await result;
  if (typeof value !== 'object' || value === null || !(Symbol.asyncIterator in value)) return value;
  let last: unknown;
  for await (const each of value as AsyncIterable<unknown>) last = each;
  return last;
}

/**
 * Passes a stream on, and stores it if it calls tools of the app. From the first of these calls on
 * it is held back until it is durable, since the SDK runs a tool as soon as it gets the call. A
 * message without such a call is the last one, and is not stored.
 */
function storing(
  stream: ReadableStream<JsonObject>,
  call: BegunCall<readonly unknown[]>,
): ReadableStream<JsonObject> {
  const reader = stream.getReader();
  const parts = new StoredParts();
  const waiting: JsonObject[] = [];
  const read = async (controller: ReadableStreamDefaultController<JsonObject>): Promise<void> => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.add(value);
      if (waiting.length === 0 && !isOwnCall(value)) return controller.enqueue(value);
      waiting.push(value);
    }
    if (waiting.length === 0 || parts.hasFailed) await call.abandon(LAST);
    else await call.store(parts.encoded);
    for (const part of waiting) controller.enqueue(part);
    controller.close();
  };
  return new ReadableStream<JsonObject>({
    async pull(controller) {
      try {
        await read(controller);
      } catch (error) {
        await call.abandon(error);
        throw error;
      }
    },
    async cancel(reason) {
      await call.abandon(UNREAD);
      await reader.cancel(reason);
    },
  });
}

// Mastra may run a tool as soon as its arguments are complete.
const isOwnCall = ({ type, providerExecuted }: JsonObject): boolean =>
  type === 'tool-input-end' || (type === 'tool-call' && providerExecuted !== true);

const streamOf = (parts: readonly JsonObject[]): ReadableStream<JsonObject> =>
  new ReadableStream<JsonObject>({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });

/** The parts of a message, with the deltas of a block joined. */
class StoredParts {
  readonly #parts: JsonObject[] = [];
  hasFailed = false;

  add(part: JsonObject): void {
    if (part['type'] === 'error') this.hasFailed = true;
    if (part['type'] === 'raw') return;
    const last = this.#parts.at(-1);
    if (last && isMergeable(last) && isMergeable(part) && isSameBlock(last, part))
      this.#parts[this.#parts.length - 1] = {
        ...last,
        delta: asString(last['delta']) + asString(part['delta']),
      };
    else this.#parts.push(part);
  }

  get encoded(): readonly unknown[] {
    return this.#parts.map(encodeValue);
  }
}

const isMergeable = ({ delta, providerMetadata }: JsonObject): boolean =>
  typeof delta === 'string' && providerMetadata === undefined;

const isSameBlock = (one: JsonObject, other: JsonObject): boolean =>
  one['type'] === other['type'] && one['id'] === other['id'];
