import { DuolaneError } from '../../../errors.ts';
import { isObject, type JsonObject } from '../../../json.ts';

/** Any value as JSON text; `undefined` for what JSON has no form for. */
export const jsonText = (value: unknown): string | undefined =>
  value === undefined ? undefined : JSON.stringify(value);

/** Throws `invalid` for what cannot be written as JSON, such as a circle or a bigint. */
export function toText(value: unknown, what: string): string {
  try {
    return JSON.stringify(value);
  } catch (cause) {
    throw new DuolaneError('invalid', `${what} cannot be written as JSON`, { cause });
  }
}

/** Throws `malformed`, naming the field. */
export function parse(json: string, field: string): unknown {
  try {
    return JSON.parse(json);
  } catch (cause) {
    throw new DuolaneError('malformed', `${field} is no JSON text`, { cause });
  }
}

export function parseObject(json: string, field: string): JsonObject {
  const value = parse(json, field);
  if (isObject(value)) return value;
  throw new DuolaneError('malformed', `${field} is no JSON object`);
}

/** A member that is there only if there is a value for it. */
export const member = <K extends string, V>(key: K, value: V | undefined): Partial<Record<K, V>> =>
  value === undefined ? {} : ({ [key]: value } as Record<K, V>);

/** UTF-8 has no half surrogates; JSON text escapes them. */
export const isWellFormed = (text: string): boolean =>
  // Node 20 has it; the types of ES2023 do not.
  (text as string & { isWellFormed(): boolean }).isWellFormed();
