import type { Turn } from '../../event/types.ts';

/**
 * The key under which a framework with its own memory stores the conversation of a turn. Callers
 * choose the context, so the context alone would let one caller continue the conversation of
 * another. Without owner and tenant all callers are one, and the key is the context.
 */
export const conversationKey = ({ context, ...turn }: Turn): string => {
  const caller = callerKey(turn);
  return caller === undefined && !context.startsWith('[')
    ? context
    : JSON.stringify([caller ?? null, context]);
};

/** The key of the caller alone, for a framework that keeps users apart itself. */
export const callerKey = ({ owner, tenant }: Pick<Turn, 'owner' | 'tenant'>): string | undefined =>
  tenant === undefined && !owner?.startsWith('[')
    ? owner
    : JSON.stringify([owner ?? null, tenant ?? null]);
