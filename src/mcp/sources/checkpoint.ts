import { DuolaneError } from '../../errors.ts';

/** Marks a place that a server's own mark cannot name: so many items behind it. */
const MARK = 'duolane+';

/** The place `taken` items behind a server's own `mark`, or behind the beginning. */
export const toCheckpoint = (taken: number, mark: string | undefined): string =>
  taken === 0 && mark !== undefined && !mark.startsWith(MARK)
    ? mark
    : `${MARK}${taken}${mark === undefined ? '' : `:${mark}`}`;

export function parseCheckpoint(checkpoint: string): [taken: number, mark: string | undefined] {
  if (!checkpoint.startsWith(MARK)) return [0, checkpoint];
  const [, taken, mark] = /^(\d+)(?::(.*))?$/s.exec(checkpoint.slice(MARK.length)) ?? [];
  if (taken === undefined) throw new DuolaneError('invalid', `Unknown cursor: ${checkpoint}`);
  return [Number(taken), mark];
}
