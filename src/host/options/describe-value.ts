import { isObject } from '../../json.ts';

/** A member of a frame that should be a text, as one. */
export const stringOrEmpty = (value: unknown, otherwise = ''): string =>
  typeof value === 'string' ? value : otherwise;

/** A value in a few words, for a message. */
export function describeValue(value: unknown): string {
  if (typeof value === 'function') return 'a function';
  if (Array.isArray(value)) return 'a list';
  return isObject(value)
    ? 'an object'
    : typeof value === 'string'
      ? JSON.stringify(value.slice(0, 80))
      : String(value);
}
