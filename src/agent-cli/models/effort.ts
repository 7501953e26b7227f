import type { ModelRequest } from './types.ts';

/** The reasoning effort of a request: `none` if thinking is off, undefined if the model decides. */
export const effortOf = ({
  effort,
  thinkingTokens,
}: Pick<ModelRequest, 'effort' | 'thinkingTokens'>): string | undefined =>
  thinkingTokens === 0 ? 'none' : effort;
