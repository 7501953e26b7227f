import { malformed } from '../errors.ts';

const UNIT_MS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};

/** The protocol allows eight digits. */
const MAX = 99_999_999;

/** Encodes a duration as `grpc-timeout`, rounded up; at least one millisecond. */
export function encodeTimeout(ms: number): string {
  const rounded = Math.max(1, Math.ceil(ms));
  if (rounded <= MAX) return `${rounded}m`;
  return `${Math.min(Math.ceil(rounded / 1_000), MAX)}S`;
}

/** Decodes a `grpc-timeout` to milliseconds. Throws `malformed` if it is invalid. */
export function decodeTimeout(text: string): number {
  const [, digits, unit] = /^(\d{1,8})([HMSmun])$/.exec(text) ?? [];
  if (digits === undefined || unit === undefined)
    throw malformed(
      `invalid grpc-timeout "${text.slice(0, 40)}": expected up to 8 digits and a unit, e.g. 500m`,
    );
  return Number(digits) * UNIT_MS[unit]!;
}

/** The longest delay of a timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Calls `run` at a Unix time in ms. A time beyond the longest timer is ignored. */
export function endAtDeadline(
  deadline: number | undefined,
  run: () => void,
): NodeJS.Timeout | undefined {
  const ms = deadline === undefined ? Infinity : deadline - Date.now();
  return ms <= MAX_TIMER_MS ? setTimeout(run, ms) : undefined;
}
