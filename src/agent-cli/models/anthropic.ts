import { DuolaneError } from '../../errors.ts';
import { asString, isObject, type JsonObject } from '../../json.ts';
import { httpStatusError, streamedError } from '../../event/retry/model-error.ts';
import { sseData } from './sse.ts';
import {
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
  const headers = {
    'content-type': 'application/json',
    'anthropic-version': '2023-06-01',
    ...(apiKey && { 'x-api-key': apiKey }),
    ...(authToken && { authorization: `Bearer ${authToken}` }),
  };
  return {
    name,
    keySource: apiKey ? 'ANTHROPIC_API_KEY' : authToken ? 'ANTHROPIC_AUTH_TOKEN' : 'none',
    async *stream(request, { signal }) {
      const body = JSON.stringify(toBody(request));
      const response = await fetch(url, { method: 'POST', headers, body, signal });
      if (!response.ok || !response.body) {
        throw httpStatusError(response.status, await response.text(), {
          retryAfter: response.headers.get('retry-after'),
        });
      }
      yield* readEvents(sseData(response.body as unknown as AsyncIterable<Uint8Array>));
    },
  };
}

function toBody({
  model,
  system,
  messages,
  tools,
  maxTokens,
  thinkingTokens,
  effort,
}: ModelRequest): JsonObject {
  const thinking = thinkingTokens
    ? { type: 'enabled', budget_tokens: thinkingTokens }
    : { type: 'disabled' };
  return {
    model,
    stream: true,
    max_tokens: thinkingTokens ? maxTokens + thinkingTokens : maxTokens,
    messages,
    ...(system !== '' && { system }),
    ...(tools.length > 0 && { tools }),
    ...(thinkingTokens !== undefined && { thinking }),
    ...(effort !== undefined && { output_config: { effort } }),
  };
}

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
        const message = isObject(event['message']) ? event['message'] : {};
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
        yield* blockStart(event['content_block']);
        break;
      case 'content_block_delta':
        yield* blockDelta(event['delta']);
        break;
      case 'content_block_stop':
        yield { type: 'block_end' };
        break;
      case 'message_delta': {
        usage = mergeUsage(usage, event['usage']);
        const delta = isObject(event['delta']) ? event['delta'] : {};
        if (typeof delta['stop_reason'] === 'string')
          reason = delta['stop_reason'] as ModelStopReason;
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

function* blockStart(value: unknown): Generator<ModelEvent> {
  const block = isObject(value) ? value : {};
  if (block['type'] === 'tool_use') {
    yield { type: 'tool_use', id: asString(block['id']), name: asString(block['name']) };
  } else if (block['type'] === 'text') {
    yield { type: 'text', text: asString(block['text']) };
  } else if (block['type'] === 'thinking') {
    yield { type: 'thinking', text: asString(block['thinking']) };
  }
}

function* blockDelta(value: unknown): Generator<ModelEvent> {
  const delta = isObject(value) ? value : {};
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
  const seen = isObject(value) ? value : {};
  const pick = (key: keyof TokenUsage): number =>
    typeof seen[key] === 'number' ? seen[key] : usage[key];
  return {
    input_tokens: pick('input_tokens'),
    output_tokens: pick('output_tokens'),
    cache_creation_input_tokens: pick('cache_creation_input_tokens'),
    cache_read_input_tokens: pick('cache_read_input_tokens'),
  };
}
