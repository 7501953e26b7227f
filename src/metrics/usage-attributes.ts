import { omitUndefined } from '../json.ts';
import type { Usage } from '../event/types.ts';

/** Token counts under the names of the GenAI conventions. */
export function usageAttributes(usage: Usage = {}): Readonly<Record<string, number>> {
  const { inputTokens, outputTokens, reasoningTokens, cacheReadTokens } = usage;
  return omitUndefined<Readonly<Record<string, number>>>({
    'gen_ai.usage.input_tokens': inputTokens,
    'gen_ai.usage.output_tokens': outputTokens,
    'gen_ai.usage.reasoning.output_tokens': reasoningTokens,
    'gen_ai.usage.cache_read.input_tokens': cacheReadTokens,
  });
}
