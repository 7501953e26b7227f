import { DuolaneError } from '../../errors.ts';
import { asArray, asObject, asObjects, asString, isObject, type JsonObject } from '../../json.ts';
import { effortOf } from './effort.ts';
import { streamedError } from '../../event/retry/model-error.ts';
import { postForEvents } from './sse.ts';
import {
  type Block,
  blocksOf,
  type ChatMessage,
  type Model,
  type ModelEvent,
  type ModelRequest,
  NO_USAGE,
  type ModelStopReason,
  type TokenUsage,
  usageWithCached,
} from './types.ts';

export interface OpenAiOptions {
  readonly name: string;
  /** The URL up to and including `/v1`. */
  readonly baseUrl: string;
  readonly apiKey?: string | undefined;
}

/** A model behind an OpenAI-compatible `/chat/completions`: Ollama, llama.cpp, vLLM, OpenRouter. */
export function openAiModel({ name, baseUrl, apiKey }: OpenAiOptions): Model {
  const url = `${baseUrl.replace(/\/$/, '')}/chat/completions`;
  const headers = { ...(apiKey && { authorization: `Bearer ${apiKey}` }) };
  let limit: TokenLimit = 'max_tokens';
  async function* post(request: ModelRequest, signal: AbortSignal): AsyncGenerator<string> {
    try {
      yield* postForEvents(url, headers, toBody(request, limit), signal);
    } catch (error) {
      if (!wantsNewLimit(error) || limit === 'max_completion_tokens') throw error;
      limit = 'max_completion_tokens';
      yield* postForEvents(url, headers, toBody(request, limit), signal);
    }
  }
  return {
    name,
    keySource: apiKey ? 'OPENAI_API_KEY' : 'none',
    stream: (request, { signal }) => readChunks(post(request, signal)),
  };
}

/**
 * The member for the largest number of tokens. Most servers know only the first one. The reasoning
 * models of OpenAI refuse it, before they generate anything, and name the second one.
 */
type TokenLimit = 'max_tokens' | 'max_completion_tokens';

const wantsNewLimit = (error: unknown): boolean =>
  error instanceof DuolaneError &&
  error.status === 400 &&
  error.message.includes('max_completion_tokens');

/** These endpoints accept no effort above `high`. */
const HIGHEST: Readonly<Record<string, string>> = { xhigh: 'high', max: 'high' };

function toBody(request: ModelRequest, limit: TokenLimit): JsonObject {
  const { model, system, messages, tools, maxTokens } = request;
  const effort = effortOf(request);
  return {
    model,
    stream: true,
    stream_options: { include_usage: true },
    [limit]: maxTokens,
    ...(effort !== undefined && { reasoning_effort: HIGHEST[effort] ?? effort }),
    messages: [
      ...(system === '' ? [] : [{ role: 'system', content: system }]),
      ...messages.flatMap(toMessages),
    ],
    ...(tools.length > 0 && {
      tools: tools.map(({ name, description, input_schema }) => ({
        type: 'function',
        function: { name, description, parameters: input_schema },
      })),
    }),
  };
}

/** Converts a message. Each tool result becomes a separate message. */
export function toMessages({ role, content }: ChatMessage): JsonObject[] {
  const blocks = blocksOf(content);
  const results = blocks.filter(({ type }) => type === 'tool_result');
  const rest = blocks.filter(({ type }) => type === 'text' || type === 'image');
  const calls = blocks.filter(({ type }) => type === 'tool_use');
  const out = results.map((block): JsonObject => ({
    role: 'tool',
    tool_call_id: block['tool_use_id'],
    content: resultText(block),
  }));
  if (rest.length === 0 && calls.length === 0) return out;
  const isText = rest.every(({ type }) => type === 'text');
  const text = rest.map((block) => asString(block['text'])).join('\n');
  out.push({
    role,
    content: isText ? text : rest.map(toPart),
    ...(calls.length > 0 && {
      tool_calls: calls.map((call) => ({
        id: call['id'],
        type: 'function',
        function: { name: call['name'], arguments: JSON.stringify(call['input'] ?? {}) },
      })),
    }),
  });
  return out;
}

function resultText({ content }: Block): string {
  if (typeof content === 'string') return content;
  return asArray(content)
    .map(asObject)
    .map(({ type, text }) => (type === 'text' ? asString(text) : '[not text]'))
    .join('\n');
}

function toPart(block: Block): JsonObject {
  if (block.type === 'text') return { type: 'text', text: block['text'] };
  const source = asObject(block['source']);
  const url =
    source['type'] === 'url'
      ? source['url']
      : `data:${String(source['media_type'])};base64,${String(source['data'])}`;
  return { type: 'image_url', image_url: { url } };
}

/**
 * Converts chat completion chunks to model events. Servers differ in several ways: the member for
 * reasoning has two names; parallel calls may have the same index, no ids, or arguments as objects;
 * `finish_reason` may be `stop` although there are calls; an error may arrive with status 200.
 * Throws if the stream ends without `finish_reason` and `[DONE]`: the message is incomplete then.
 */
export async function* readChunks(
  data: AsyncIterable<string>,
): AsyncGenerator<ModelEvent, void, undefined> {
  const calls = new Calls();
  let usage: TokenUsage = NO_USAGE;
  let reason: string | undefined;
  let done = false;
  for await (const text of data) {
    if (text === '[DONE]') {
      done = true;
      continue; // read the body to its end, so that the connection can be reused
    }
    const chunk: unknown = JSON.parse(text);
    if (!isObject(chunk)) continue;
    if (chunk['error']) throw streamedError(chunk['error']);
    if (isObject(chunk['usage'])) usage = toUsage(chunk['usage']);
    const choice = asObject(asArray(chunk['choices'])[0]);
    const delta = asObject(choice['delta']);
    const thought = asString(delta['reasoning_content'] ?? delta['reasoning']);
    if (thought !== '') yield { type: 'thinking', text: thought };
    const content = asString(delta['content']);
    if (content !== '') yield { type: 'text', text: content };
    for (const call of asObjects(delta['tool_calls'])) yield* calls.receive(call);
    if (typeof choice['finish_reason'] === 'string') reason = choice['finish_reason'];
  }
  if (reason === undefined && !done) {
    throw new DuolaneError(
      'network',
      'the stream of the model ended early: expected finish_reason or [DONE]',
    );
  }
  yield* calls.rest();
  yield { type: 'stop', reason: stopReason(reason, calls.count > 0), usage };
}

/**
 * Converts parallel calls to a sequence of blocks, in which `tool_input` belongs to the last
 * `tool_use`. A call is streamed if the call before it is complete. A call that arrives while
 * another is incomplete is kept and emitted at the end (`rest`). A call without any arguments so
 * far counts as incomplete: some servers send the names of all parallel calls first.
 */
class Calls {
  readonly #byKey = new Map<string, { id: string; name: string; json: string; emitted: boolean }>();
  #open: string | undefined;

  get count(): number {
    return this.#byKey.size;
  }

  *receive(call: JsonObject): Generator<ModelEvent> {
    const fn = asObject(call['function']);
    const name = asString(fn['name']) || undefined;
    const id = asString(call['id']) || undefined;
    const { arguments: args } = fn;
    const json = typeof args === 'string' ? args : isObject(args) ? JSON.stringify(args) : '';
    const key = this.#keyOf(call['index'], id, name);
    let known = this.#byKey.get(key);
    if (!known) {
      known = {
        id: id ?? `call_${this.#byKey.size}_${Date.now()}`,
        name: name ?? '',
        json: '',
        emitted: false,
      };
      this.#byKey.set(key, known);
      if (this.#open === undefined || this.#isComplete(this.#open)) {
        known.emitted = true;
        this.#open = key;
        yield { type: 'tool_use', id: known.id, name: known.name };
      }
    }
    known.json += json;
    if (key === this.#open && json !== '') yield { type: 'tool_input', json };
  }

  /** The calls that were kept. */
  *rest(): Generator<ModelEvent> {
    for (const call of this.#byKey.values()) {
      if (call.emitted) continue;
      yield { type: 'tool_use', id: call.id, name: call.name };
      if (call.json !== '') yield { type: 'tool_input', json: call.json };
    }
  }

  /** A new id, or a name without an id, under an index that is in use belongs to a new call. */
  #keyOf(index: unknown, id: string | undefined, name: string | undefined): string {
    const slot = typeof index === 'number' ? String(index) : '0';
    const candidates = [...this.#byKey.keys()].filter((key) => key.split('#')[0] === slot);
    const last = candidates.at(-1);
    if (last === undefined) return slot;
    const known = this.#byKey.get(last);
    const fresh = id !== undefined ? id !== known?.id : name !== undefined && known?.json !== '';
    return fresh ? `${slot}#${candidates.length}` : last;
  }

  #isComplete(key: string): boolean {
    try {
      JSON.parse(this.#byKey.get(key)?.json ?? '');
      return true;
    } catch {
      // The arguments are not complete yet.
      return false;
    }
  }
}

function stopReason(reason: string | undefined, called: boolean): ModelStopReason {
  if (reason === 'length') return 'max_tokens';
  if (called) return 'tool_use';
  return reason === 'content_filter' ? 'refusal' : 'end_turn';
}

function toUsage(usage: JsonObject): TokenUsage {
  const cached = Number(asObject(usage['prompt_tokens_details'])['cached_tokens'] ?? 0);
  const { prompt_tokens: input, completion_tokens: output } = usage;
  return usageWithCached(Number(input ?? 0), Number(output ?? 0), cached);
}
