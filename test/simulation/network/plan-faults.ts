import type { Random } from '../random.ts';
import type { NetFault } from './network.ts';

export type { NetFault } from './network.ts';

const KINDS: readonly NetFault['how'][] = [
  'refuse',
  'lose',
  'lose',
  'cut',
  'cut',
  'cut',
  'end',
  'stall',
  'stall',
  'twice',
  'proxy',
];

/** `kinds`: what can go wrong where a request must not arrive twice. */
export function planNetFaults(
  random: Random,
  kinds: readonly NetFault['how'][] = KINDS,
): NetFault[] {
  return Array.from({ length: random.int(1, 6) }, () => ({
    nth: random.ms(1, 25),
    how: random.pick(kinds),
    bytes: random.pick([0, random.int(1, 400), random.ms(1, 4000)]),
    ms: random.ms(1, 60_000),
  }));
}

/** The faults of a server whose requests must not be sent again by others. */
export const WITHOUT_REPEATS: readonly NetFault['how'][] = KINDS.filter((how) => how !== 'twice');
