import type { Usage } from '../event/types.ts';

/** Token counts under the names of the GenAI conventions. */
export function usageAttributes(usage: Usage = {}): Readonly<Record<string, number>> {
  const { inputTokens, outputTokens, reasoningTokens, cacheReadTokens } = usage;
  return {
    ...(inputTokens !== undefined && { 'gen_ai.usage.input_tokens': inputTokens }),
    ...(outputTokens !== undefined && { 'gen_ai.usage.output_tokens': outputTokens }),
    ...(reasoningTokens !== undefined && {
      'gen_ai.usage.reasoning.output_tokens': reasoningTokens,
    }),
    ...(cacheReadTokens !== undefined && {
      'gen_ai.usage.cache_read.input_tokens': cacheReadTokens,
    }),
  };
}
