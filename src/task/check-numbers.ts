import { DuolaneError } from '../errors.ts';

/** The longest delay of `setTimeout`, about 24 days; a longer one would fire immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Throws `invalid` for an option that is not a usable number: NaN, as of a missing variable, would
 * turn a limit off or stop all work, and a time beyond `MAX_TIMER_MS` would be over immediately.
 * Names that end with `Ms` are times, all others are counts.
 */
export function checkNumbers(options: Readonly<Record<string, number | undefined>>): void {
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    const most = name.endsWith('Ms') ? MAX_TIMER_MS : Infinity;
    if (typeof value === 'number' && value >= 0 && value <= most) continue;
    const range = most === Infinity ? 'of at least 0' : `from 0 to ${most}`;
    throw new DuolaneError('invalid', `invalid ${name} ${value}: expected a number ${range}`);
  }
}
