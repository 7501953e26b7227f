import { DuolaneError } from '../../errors.ts';
import {
  asObject,
  asObjects,
  asString,
  isObject,
  type JsonObject,
  omitUndefined,
} from '../../json.ts';
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
} from './types.ts';

export interface AnthropicModelOptions {
  readonly name: string;
  readonly baseUrl: string;
  readonly apiKey?: string | undefined;
  readonly authToken?: string | undefined;
}

/** A model of the Messages API, streamed over fetch. */
export function anthropicModel({ name, baseUrl, apiKey, authToken }: AnthropicModelOptions): Model {
  const url = `${baseUrl.replace(/\/$/, '')}/v1/messages`;
  const headers = omitUndefined<Record<string, string>>({
    'anthropic-version': '2023-06-01',
    'x-api-key': apiKey || undefined,
    authorization: authToken ? `Bearer ${authToken}` : undefined,
  });
  return {
    name,
    keySource: apiKey ? 'ANTHROPIC_API_KEY' : authToken ? 'ANTHROPIC_AUTH_TOKEN' : 'none',
    stream: (request, { signal }) =>
      readEvents(postForEvents(url, headers, toBody(request), signal)),
  };
}

function toBody(request: ModelRequest): JsonObject {
  const { model, system, messages, tools, maxTokens, thinkingTokens, effort } = request;
  const thinking = thinkingTokens
    ? { type: 'enabled', budget_tokens: thinkingTokens }
    : { type: 'disabled' };
  return omitUndefined<JsonObject>({
    model,
    stream: true,
    max_tokens: thinkingTokens ? maxTokens + thinkingTokens : maxTokens,
    messages: cacheLast(messages.map(withoutBlanks)),
    system: system === '' ? undefined : [{ type: 'text', text: system, ...CACHED }],
    tools: tools.length > 0 ? tools : undefined,
    thinking: thinkingTokens === undefined ? undefined : thinking,
    output_config: effort === undefined ? undefined : { effort },
  });
}

const NO_TEXT = '(no text)';

const isBlank = ({ type, text }: Block): boolean => type === 'text' && asString(text).trim() === '';

/**
 * Omits texts without a visible character. The API refuses the complete history for one of them,
 * and models and tools send some: a turn that got one could never be continued.
 */
function withoutBlanks({ role, content }: ChatMessage): ChatMessage {
  if (typeof content === 'string')
    return { role, content: content.trim() === '' ? NO_TEXT : content };
  return { role, content: visible(content).map(visibleResult) };
}

function visible(blocks: readonly Block[]): readonly Block[] {
  const kept = blocks.filter((block) => !isBlank(block));
  return kept.length > 0 ? kept : [{ type: 'text', text: NO_TEXT }];
}

function visibleResult(block: Block): Block {
  if (block.type !== 'tool_result') return block;
  const { content = '' } = block;
  if (typeof content === 'string')
    return content.trim() === '' ? { ...block, content: NO_TEXT } : block;
  return { ...block, content: visible(asObjects(content) as readonly Block[]) };
}

/** Ends a prefix of the request that the provider may keep for the next one. */
const CACHED = { cache_control: { type: 'ephemeral' } };

/**
 * Marks the end of the last message. With the mark behind the system prompt, which includes the
 * tools, the next request of a turn pays only for what is new. Blocks that the API does not let end
 * a prefix stay as they are.
 */
function cacheLast(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const last = messages.at(-1);
  if (last === undefined) return messages;
  const blocks = blocksOf(last.content);
  const end = blocks.at(-1);
  if (end === undefined || !mayEndPrefix(end)) return messages;
  const content = [...blocks.slice(0, -1), { ...end, ...CACHED }];
  return [...messages.slice(0, -1), { ...last, content }];
}

const mayEndPrefix = (block: Block): boolean =>
  ['text', 'tool_result', 'image', 'document'].includes(block.type);

/**
 * Converts a stream of the Messages API to model events. Throws if it ends without `message_stop`.
 */
export async function* readEvents(
  data: AsyncIterable<string>,
): AsyncGenerator<ModelEvent, void, undefined> {
  let usage: TokenUsage = NO_USAGE;
  let reason: ModelStopReason = 'end_turn';
  let stopped = false;
  for await (const text of data) {
    const event: unknown = JSON.parse(text);
    if (!isObject(event)) continue;
    switch (event['type']) {
      case 'message_start': {
        const message = asObject(event['message']);
        usage = mergeUsage(usage, message['usage']);
        yield {
          type: 'start',
          id: asString(message['id']),
          model: asString(message['model']),
          usage,
        };
        break;
      }
      case 'content_block_start':
        yield* blockStart(asObject(event['content_block']));
        break;
      case 'content_block_delta':
        yield* blockDelta(asObject(event['delta']));
        break;
      case 'content_block_stop':
        yield { type: 'block_end' };
        break;
      case 'message_delta': {
        usage = mergeUsage(usage, event['usage']);
        reason = asString(asObject(event['delta'])['stop_reason'], reason) as ModelStopReason;
        break;
      }
      case 'message_stop':
        stopped = true;
        yield { type: 'stop', reason, usage };
        break;
      case 'error':
        throw streamedError(event['error']);
      default: // ping, and event types of later versions
    }
  }
  if (!stopped)
    throw new DuolaneError('network', 'the stream of the model ended early: expected message_stop');
}

function* blockStart(block: JsonObject): Generator<ModelEvent> {
  if (block['type'] === 'tool_use') {
    yield { type: 'tool_use', id: asString(block['id']), name: asString(block['name']) };
  } else if (block['type'] === 'text') {
    yield { type: 'text', text: asString(block['text']) };
  } else if (block['type'] === 'thinking') {
    yield { type: 'thinking', text: asString(block['thinking']) };
  } else if (block['type'] === 'redacted_thinking') {
    yield { type: 'redacted_thinking', data: asString(block['data']) };
  }
}

function* blockDelta(delta: JsonObject): Generator<ModelEvent> {
  switch (delta['type']) {
    case 'text_delta':
      yield { type: 'text', text: asString(delta['text']) };
      break;
    case 'thinking_delta':
      yield { type: 'thinking', text: asString(delta['thinking']) };
      break;
    case 'signature_delta':
      yield { type: 'signature', signature: asString(delta['signature']) };
      break;
    case 'input_json_delta':
      yield { type: 'tool_input', json: asString(delta['partial_json']) };
      break;
    default: // deltas of block types that this driver does not use, such as server tools
  }
}

function mergeUsage(usage: TokenUsage, value: unknown): TokenUsage {
  const seen = asObject(value);
  const pick = (key: keyof TokenUsage): number =>
    typeof seen[key] === 'number' ? seen[key] : usage[key];
  return {
    input_tokens: pick('input_tokens'),
    output_tokens: pick('output_tokens'),
    cache_creation_input_tokens: pick('cache_creation_input_tokens'),
    cache_read_input_tokens: pick('cache_read_input_tokens'),
  };
}
