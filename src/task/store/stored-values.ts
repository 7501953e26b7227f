import { DuolaneError, errorMessage } from '../../errors.ts';
import type { StoredValueChange } from './store.ts';

const MAX_KEY_CHARS = 512;
const MAX_VALUE_CHARS = 8 << 20;

/** Visible ASCII only: every database then compares keys in the same order. */
const KEY = /^[\x21-\x7e]+$/;

/** The first text after every key that starts with the prefix. */
export const afterPrefix = (prefix: string): string => `${prefix}\x7f`;

/** Encodes a value for the store. Throws `invalid` or `too_large` for one that cannot be stored. */
export function encodeStoredValue(key: string, value: unknown): StoredValueChange {
  if (typeof key !== 'string' || key.length > MAX_KEY_CHARS || !KEY.test(key))
    throw new DuolaneError(
      'invalid',
      `invalid key ${JSON.stringify(String(key).slice(0, 60))} of a stored value: expected 1 to ${MAX_KEY_CHARS} visible ASCII characters`,
    );
  if (value === undefined) return { key };
  const text = toJson(key, value);
  if (text.length > MAX_VALUE_CHARS)
    throw new DuolaneError(
      'too_large',
      `value "${key}" has ${text.length} characters as JSON: expected at most ${MAX_VALUE_CHARS}; put large data into a BlobStore`,
    );
  return { key, value: text };
}

function toJson(key: string, value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw new DuolaneError(
      'invalid',
      `value "${key}" cannot be stored as JSON: ${errorMessage(error)}`,
      { cause: error },
    );
  }
  if (text !== undefined) return text;
  throw new DuolaneError(
    'invalid',
    `value "${key}" cannot be stored as JSON: it is a ${typeof value}`,
  );
}
