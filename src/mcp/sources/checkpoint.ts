import { DuolaneError } from '../../errors.ts';

/** The prefix of checkpoints that point between two cursors of a server. */
const MARK = 'duolane+';

/**
 * Encodes the position `taken` items after a server's cursor, or after the start of the list. A
 * plain cursor stays as it is, so that it can be sent to the server unchanged.
 */
export const toCheckpoint = (taken: number, mark: string | undefined): string =>
  taken === 0 && mark !== undefined && !mark.startsWith(MARK)
    ? mark
    : `${MARK}${taken}${mark === undefined ? '' : `:${mark}`}`;

/**
 * Decodes a checkpoint: the cursor to request, and how many items after it to skip. Throws
 * `invalid`.
 */
export function parseCheckpoint(checkpoint: string): [taken: number, mark: string | undefined] {
  if (!checkpoint.startsWith(MARK)) return [0, checkpoint];
  const [, taken, mark] = /^(\d+)(?::(.*))?$/s.exec(checkpoint.slice(MARK.length)) ?? [];
  if (taken === undefined)
    throw new DuolaneError(
      'invalid',
      `unknown cursor "${checkpoint}"; use one that this list returned`,
    );
  return [Number(taken), mark];
}
