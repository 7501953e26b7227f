import type { ModelRequest } from './types.ts';

/** How hard the model shall think, as a word: `none` when thinking is off, undefined when it decides. */
export const effortOf = ({
  effort,
  thinkingTokens,
}: Pick<ModelRequest, 'effort' | 'thinkingTokens'>): string | undefined =>
  thinkingTokens === 0 ? 'none' : effort;
