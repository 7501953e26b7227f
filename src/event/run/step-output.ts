import { DuolaneError } from '../../errors.ts';
import { isDeep, MAX_DEPTH } from '../../json.ts';

/** The largest result of a step. It must fit into one entry of the log. */
export const MAX_OUTPUT_BYTES = 1_000_000;

/**
 * Returns the result of a step as the log gives it back later, so that code sees the same value in
 * the first run and in every further one. Throws `invalid` for anything that JSON would change
 * silently, such as a Date, a Map or NaN, and `too_large` for what does not fit into an entry.
 * Members that are undefined are dropped.
 */
export function jsonOutput(step: string, value: unknown): unknown {
  if (value === undefined || isSimple(value)) return value;
  const wrong = findNonJson(value, 'result', new Set());
  if (wrong !== undefined)
    throw new DuolaneError('invalid', `step "${step}" must return JSON, got ${wrong}`);
  const text = JSON.stringify(value);
  if (isDeep(`[${text}]`))
    throw new DuolaneError(
      'too_large',
      `the result of step "${step}" exceeds the nesting limit (${MAX_DEPTH} levels); make it flatter`,
    );
  const bytes = text.length * 3 > MAX_OUTPUT_BYTES ? Buffer.byteLength(text) : 0;
  if (bytes > MAX_OUTPUT_BYTES)
    throw new DuolaneError(
      'too_large',
      `the result of step "${step}" exceeds the limit of a step (${MAX_OUTPUT_BYTES} bytes): ${bytes}; put the bytes into a BlobStore and return their URL`,
    );
  return JSON.parse(text);
}

const isSimple = (value: unknown): boolean =>
  value === null || typeof value === 'boolean' || Number.isFinite(value);

/** Returns what is not JSON, and where; undefined if all of it is. */
function findNonJson(value: unknown, at: string, within: Set<object>): string | undefined {
  if (typeof value === 'string' || isSimple(value)) return undefined;
  if (typeof value !== 'object' || value === null) return `${nameOf(value)} at ${at}`;
  if (within.has(value)) return `an object that contains itself at ${at}`;
  // Deeper values are refused by their text.
  if (within.size > MAX_DEPTH) return undefined;
  within.add(value);
  const wrong = Array.isArray(value)
    ? findInArray(value, at, within)
    : findInObject(value, at, within);
  within.delete(value);
  return wrong;
}

function findInArray(
  items: readonly unknown[],
  at: string,
  within: Set<object>,
): string | undefined {
  for (const [index, item] of items.entries()) {
    const wrong = findNonJson(item, `${at}[${index}]`, within);
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

function findInObject(value: object, at: string, within: Set<object>): string | undefined {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return `${nameOf(value)} at ${at}`;
  for (const [name, member] of Object.entries(value)) {
    const wrong = member === undefined ? undefined : findNonJson(member, `${at}.${name}`, within);
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

function nameOf(value: unknown): string {
  if (typeof value === 'object' && value !== null) {
    const name: unknown = value.constructor?.name;
    return typeof name === 'string' && name !== '' ? `an instance of ${name}` : 'a class instance';
  }
  return typeof value === 'number' ? String(value) : `a value of type ${typeof value}`;
}
