import { invalid, malformed } from '../../../errors.ts';
import { isObject, type JsonObject } from '../../../json.ts';

/** Encodes a value as JSON; `undefined` for what JSON cannot hold. */
export const jsonText = (value: unknown): string | undefined =>
  value === undefined ? undefined : JSON.stringify(value);

/**
 * Encodes a value as JSON. Throws `invalid` for a value that JSON cannot hold, such as a cycle or a
 * bigint.
 */
export function toText(value: unknown, what: string): string {
  try {
    return JSON.stringify(value);
  } catch (cause) {
    throw invalid(`cannot encode ${what} as JSON; remove cycles and bigints`, cause);
  }
}

/**
 * Parses the JSON of a field; `undefined` for a field that is not set. Throws `malformed` with the
 * name of the field.
 */
export function parse(json: string | undefined, field: string): unknown {
  try {
    return json === undefined ? undefined : JSON.parse(json);
  } catch (cause) {
    throw malformed(`the peer sent invalid text in ${field}: expected JSON`, cause);
  }
}

export function parseObject(json: string, field: string): JsonObject;
export function parseObject(json: string | undefined, field: string): JsonObject | undefined;
export function parseObject(json: string | undefined, field: string): JsonObject | undefined {
  const value = parse(json, field);
  if (isObject(value) || value === undefined) return value;
  throw malformed(`the peer sent an invalid value in ${field}: expected a JSON object`);
}

/**
 * Whether the text has no unpaired surrogates: UTF-8 cannot encode them, while JSON escapes them.
 */
export const isWellFormed = (text: string): boolean =>
  // Node 20 has this method; the types of ES2023 do not.
  (text as string & { isWellFormed(): boolean }).isWellFormed();
