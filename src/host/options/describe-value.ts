import { isObject } from '../../json.ts';

/** A short description of a value, for an error message. Strings are quoted and cut. */
export function describeValue(value: unknown): string {
  if (typeof value === 'function') return 'a function';
  if (Array.isArray(value)) return 'an array';
  return isObject(value)
    ? 'an object'
    : typeof value === 'string'
      ? JSON.stringify(value.slice(0, 80))
      : String(value);
}
