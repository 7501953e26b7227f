import { invalid } from '../../errors.ts';

/** The prefix of checkpoints that point between two cursors of a server. */
const OFFSET_PREFIX = 'duolane+';

/**
 * Encodes the position `taken` items after a server's cursor, or after the start of the list. A
 * plain cursor stays as it is, so that it can be sent to the server unchanged.
 */
export const toCheckpoint = (taken: number, cursor: string | undefined): string =>
  taken === 0 && cursor !== undefined && !cursor.startsWith(OFFSET_PREFIX)
    ? cursor
    : `${OFFSET_PREFIX}${taken}${cursor === undefined ? '' : `:${cursor}`}`;

/**
 * Decodes a checkpoint: the cursor to request, and how many items after it to skip. Throws
 * `invalid`.
 */
export function parseCheckpoint(checkpoint: string): [taken: number, mark: string | undefined] {
  if (!checkpoint.startsWith(OFFSET_PREFIX)) return [0, checkpoint];
  const [, taken, cursor] = /^(\d+)(?::(.*))?$/s.exec(checkpoint.slice(OFFSET_PREFIX.length)) ?? [];
  if (taken === undefined)
    throw invalid(`unknown cursor "${checkpoint}"; use one that this list returned`);
  return [Number(taken), cursor];
}
