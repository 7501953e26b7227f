import type { Turn } from '../../event/types.ts';

/**
 * Under which a framework with a memory of its own keeps the conversation of a turn. Callers choose the
 * name of a context, so the context alone would let one caller go on in the conversation of another.
 * Without owner and tenant everyone is one caller, and the key is the context.
 */
export const conversationKey = ({ context, ...turn }: Turn): string => {
  const caller = callerKey(turn);
  return caller === undefined && !context.startsWith('[')
    ? context
    : JSON.stringify([caller ?? null, context]);
};

/** The same for a framework that keeps users apart itself. */
export const callerKey = ({ owner, tenant }: Pick<Turn, 'owner' | 'tenant'>): string | undefined =>
  tenant === undefined && !owner?.startsWith('[')
    ? owner
    : JSON.stringify([owner ?? null, tenant ?? null]);
