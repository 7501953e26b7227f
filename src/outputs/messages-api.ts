import type { ErrorCode } from '../errors.ts';
import type { FinishReason, Usage } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import { toolOutputText } from './encode-parts.ts';

// The words of the model's API, which stream-json carries.

export const toolBlock = ({ callId, name }: { callId: string; name: string }): JsonObject => ({
  type: 'tool_use',
  id: callId,
  name,
  input: {},
});

/** A result's content: blocks where the tool gave such, else text. */
export const toolResultContent = (output: unknown): unknown => {
  const blocks = Array.isArray(output) && output.length > 0 && output.every(isBlock);
  return blocks ? output : toolOutputText(output);
};

const isBlock = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'type' in value;

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

export const STOP: Readonly<Record<FinishReason, string>> = {
  stop: 'end_turn',
  'tool-calls': 'tool_use',
  length: 'max_tokens',
  'content-filter': 'refusal',
  error: 'end_turn',
  other: 'end_turn',
};

export const RETRY_REASONS: Partial<Readonly<Record<ErrorCode, string>>> = {
  rate_limited: 'rate_limit',
  overloaded: 'overloaded',
  unauthorized: 'authentication_failed',
  server: 'server_error',
};
