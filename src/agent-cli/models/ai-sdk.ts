import { DuolaneError } from '../../errors.ts';
import { asString, isObject, type JsonObject } from '../../json.ts';
import { effortOf } from './effort.ts';
import { modelError } from '../../event/retry/model-error.ts';
import {
  type Block,
  blocksOf,
  type ChatMessage,
  contentText,
  type Model,
  type ModelEvent,
  type ModelRequest,
  NO_USAGE,
  type ModelStopReason,
  type TokenUsage,
  usageWithCached,
} from './types.ts';

interface LanguageModel {
  doStream(options: JsonObject): PromiseLike<{ readonly stream: AsyncIterable<unknown> }>;
}

/**
 * A provider model of the AI SDK (specification v2, v3 or v4). It is called directly, so only the
 * provider's module is needed, not the package `ai`.
 */
export function aiSdkModel(name: string, exported: unknown): Model {
  if (!isLanguageModel(exported)) {
    throw new DuolaneError(
      'invalid',
      `invalid model "${name}": expected an AI SDK language model, an object with doStream, as default export`,
    );
  }
  return {
    name,
    keySource: 'module',
    async *stream(request, { signal }) {
      const { stream } = await exported.doStream({ ...toOptions(request), abortSignal: signal });
      yield* readParts(stream);
    },
  };
}

const isLanguageModel = (value: unknown): value is LanguageModel =>
  (isObject(value) || typeof value === 'function') &&
  typeof (value as { doStream?: unknown }).doStream === 'function';

function toOptions(request: ModelRequest): JsonObject {
  const { system, messages, tools, maxTokens } = request;
  const reasoning = effortOf(request);
  return {
    prompt: [
      ...(system === '' ? [] : [{ role: 'system', content: system }]),
      ...messages.flatMap(toPrompt),
    ],
    maxOutputTokens: maxTokens,
    // Specification v4 defines it; models of earlier versions ignore it.
    ...(reasoning !== undefined && { reasoning }),
    includeRawChunks: false,
    ...(tools.length > 0 && {
      tools: tools.map(({ name, description, input_schema }) => ({
        type: 'function',
        name,
        description,
        inputSchema: input_schema,
      })),
      toolChoice: { type: 'auto' },
    }),
  };
}

function toPrompt({ role, content }: ChatMessage): JsonObject[] {
  const blocks = blocksOf(content);
  const results = blocks.filter(({ type }) => type === 'tool_result');
  const rest = blocks.filter(({ type }) => type !== 'tool_result').flatMap(toPart);
  return [
    ...(results.length > 0 ? [{ role: 'tool', content: results.map(toResult) }] : []),
    ...(rest.length > 0 ? [{ role, content: rest }] : []),
  ];
}

function toPart(block: Block): JsonObject[] {
  if (block.type === 'text') return [{ type: 'text', text: block['text'] }];
  if (block.type === 'thinking') return [{ type: 'reasoning', text: block['thinking'] }];
  if (block.type === 'tool_use') {
    const { id, name, input } = block;
    return [{ type: 'tool-call', toolCallId: id, toolName: name, input }];
  }
  const source = isObject(block['source']) ? block['source'] : undefined;
  return block.type === 'image' && source
    ? [{ type: 'file', mediaType: source['media_type'], data: source['data'] }]
    : [];
}

function toResult(block: Block): JsonObject {
  return {
    type: 'tool-result',
    toolCallId: block['tool_use_id'],
    toolName: block['tool_name'] ?? '',
    output: {
      type: block['is_error'] === true ? 'error-text' : 'text',
      value: contentText(block['content']),
    },
  };
}

/** Converts the parts of `doStream` to model events. */
export async function* readParts(
  stream: AsyncIterable<unknown>,
): AsyncGenerator<ModelEvent, void, undefined> {
  let called = false;
  let streamed = '';
  for await (const part of stream) {
    if (!isObject(part)) continue;
    switch (part['type']) {
      case 'response-metadata':
        yield { type: 'start', ...(typeof part['id'] === 'string' && { id: part['id'] }) };
        break;
      case 'text-delta':
        yield { type: 'text', text: asString(part['delta']) };
        break;
      case 'reasoning-delta':
        yield { type: 'thinking', text: asString(part['delta']) };
        break;
      case 'text-end':
      case 'reasoning-end':
        yield { type: 'block_end' };
        break;
      case 'tool-input-start':
        called = true;
        streamed = asString(part['id']);
        yield { type: 'tool_use', id: streamed, name: asString(part['toolName']) };
        break;
      case 'tool-input-delta':
        yield { type: 'tool_input', json: asString(part['delta']) };
        break;
      case 'tool-call': {
        called = true;
        // Some providers stream the arguments first and then repeat the call: report it once.
        if (part['toolCallId'] === streamed) break;
        const { input } = part;
        yield {
          type: 'tool_use',
          id: asString(part['toolCallId']),
          name: asString(part['toolName']),
        };
        yield {
          type: 'tool_input',
          json: typeof input === 'string' ? input : JSON.stringify(input),
        };
        break;
      }
      case 'error':
        throw modelError(part['error']);
      case 'finish':
        yield {
          type: 'stop',
          reason: stopReason(part['finishReason'], called),
          usage: toUsage(part['usage']),
        };
        return;
      default: // stream-start, raw, sources and files
    }
  }
  throw new DuolaneError('network', 'the stream of the model ended early: expected a finish part');
}

/** Reads the finish reason: `{unified, raw}` in v4, a string before. */
function stopReason(value: unknown, called: boolean): ModelStopReason {
  const reason = isObject(value) ? value['unified'] : value;
  if (reason === 'error') throw new DuolaneError('server', 'the model ended with an error');
  if (reason === 'length') return 'max_tokens';
  if (called) return 'tool_use';
  return reason === 'content-filter' ? 'refusal' : 'end_turn';
}

/** Reads the token counts: numbers in v2, objects with totals in v3 and v4. */
function toUsage(value: unknown): TokenUsage {
  if (!isObject(value)) return NO_USAGE;
  const total = (entry: unknown): number => Number((isObject(entry) ? entry['total'] : entry) ?? 0);
  const input = value['inputTokens'];
  const cached = Number((isObject(input) ? input['cacheRead'] : value['cachedInputTokens']) ?? 0);
  return usageWithCached(total(input), total(value['outputTokens']), cached);
}
