import type { ErrorCode } from '../errors.ts';
import type { FinishReason, Usage } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import { toolOutputText } from './encode-parts.ts';

// The vocabulary of the Messages API, which stream-json contains.

/** A `tool_use` block without its input, as `content_block_start` sends it. */
export const toolBlock = ({ callId, name }: { callId: string; name: string }): JsonObject => ({
  type: 'tool_use',
  id: callId,
  name,
  input: {},
});

/** The content of a tool result: content blocks if the tool returned some, else text. */
export const toolResultContent = (output: unknown): unknown => {
  const blocks = Array.isArray(output) && output.length > 0 && output.every(isBlock);
  return blocks ? output : toolOutputText(output);
};

const isBlock = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'type' in value;

/** Token counts; 0 for those that are unknown, since readers expect numbers. */
export const usageOf = ({
  inputTokens = 0,
  outputTokens = 0,
  cacheReadTokens = 0,
  cacheWriteTokens = 0,
}: Usage = {}): JsonObject => ({
  input_tokens: inputTokens,
  output_tokens: outputTokens,
  cache_read_input_tokens: cacheReadTokens,
  cache_creation_input_tokens: cacheWriteTokens,
});

/** The `stop_reason` for each reason of ours. */
export const STOP: Readonly<Record<FinishReason, string>> = {
  stop: 'end_turn',
  'tool-calls': 'tool_use',
  length: 'max_tokens',
  'content-filter': 'refusal',
  error: 'end_turn',
  other: 'end_turn',
};

/** The error names of `api_retry` lines, by our code. */
export const RETRY_REASONS: Partial<Readonly<Record<ErrorCode, string>>> = {
  rate_limited: 'rate_limit',
  overloaded: 'overloaded',
  unauthorized: 'authentication_failed',
  server: 'server_error',
};
