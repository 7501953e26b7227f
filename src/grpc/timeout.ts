import { DuolaneError } from '../errors.ts';

const UNIT_MS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};

/** Eight digits is what the protocol allows. */
const MAX = 99_999_999;

/** How long a call may take, in the words of `grpc-timeout`. Never less than a millisecond. */
export function encodeTimeout(ms: number): string {
  const whole = Math.max(1, Math.ceil(ms));
  if (whole <= MAX) return `${whole}m`;
  return `${Math.min(Math.ceil(whole / 1_000), MAX)}S`;
}

/** In ms; throws `malformed` for what is no timeout. */
export function decodeTimeout(text: string): number {
  const [, digits, unit] = /^(\d{1,8})([HMSmun])$/.exec(text) ?? [];
  if (digits === undefined || unit === undefined)
    throw new DuolaneError('malformed', `grpc-timeout "${text.slice(0, 40)}" is none`);
  return Number(digits) * UNIT_MS[unit]!;
}
