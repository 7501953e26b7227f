import type { ErrorCode } from './errors.ts';

/** The error code of an HTTP status that is not a success. */
export function codeOfStatus(status: number): ErrorCode {
  if (status === 429) return 'rate_limited';
  if (status === 529 || status === 503) return 'overloaded';
  if (status >= 500) return 'server';
  if (status === 401 || status === 403) return 'unauthorized';
  if (status === 404) return 'not_found';
  if (status === 408) return 'timeout';
  if (status === 413) return 'too_large';
  return 'invalid';
}

/** Reads a header by its name in lower case. */
export type HeaderReader = (name: string) => string | null | undefined;

/**
 * Returns the delay that the headers of a response ask for, in milliseconds: `retry-after-ms` of
 * model providers, which is exact, or `retry-after`.
 */
export function retryAfterOf(header: HeaderReader, now: number = Date.now()): number | undefined {
  const exact = header('retry-after-ms');
  const ms = exact === null || exact === undefined || exact === '' ? NaN : Number(exact);
  return Number.isFinite(ms) ? Math.max(0, ms) : parseRetryAfter(header('retry-after'), now);
}

/** Parses `Retry-After`, which is a number of seconds or a date, to milliseconds from `now`. */
export function parseRetryAfter(value: string | null | undefined, now: number): number | undefined {
  if (value === null || value === undefined || value === '') return undefined;
  const seconds = Number(value);
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000);
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}
