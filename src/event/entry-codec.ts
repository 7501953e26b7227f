import { DuolaneError } from '../errors.ts';
export { isDeep, MAX_DEPTH } from '../json.ts';
import { isObject } from '../json.ts';
import type { Entry, Turn } from './types.ts';

/**
 * The format of a stored entry. Version 1 is implied; a later version will be written as `v`. An
 * entry of an unknown version is refused with `unsupported`, since guessing could lose data.
 */
const ENTRY_VERSION = 1;

const BYTES = /^\$+bytes$/;

/**
 * Encodes an entry as one line of JSON. Lossless for JSON values and for bytes (as base64). A value
 * that JSON cannot represent (a cycle, a BigInt) becomes a string, not an error.
 */
export function encodeEntry(entry: Entry): string {
  try {
    return isScalarOnly(entry) ? JSON.stringify(entry) : JSON.stringify(entry, bytesOut);
  } catch {
    // `JSON.stringify` throws for a cycle or a BigInt; the replacer writes a string for them.
    return JSON.stringify(entry, jsonReplacer());
  }
}

/**
 * Whether an entry has only strings and numbers, as most have: searching these for bytes would cost
 * more than everything else.
 */
function isScalarOnly(entry: Entry): boolean {
  switch (entry.type) {
    case 'text.delta':
    case 'reasoning.delta':
    case 'tool.args':
    case 'text.end':
    case 'reasoning.end':
    case 'run.started':
      return true;
    case 'run.finished':
      return entry.output === undefined && entry.pending === undefined;
    case 'turn.submitted':
      return isTextOnly(entry.turn);
    default:
      return false;
  }
}

/** Whether a turn has only text: no data, files, answers or metadata. */
export const isTextOnly = ({ parts, answers, metadata }: Turn): boolean =>
  !answers && !metadata && parts.every((part) => 'text' in part && !part.metadata);

/**
 * Decodes an entry that `encodeEntry` wrote. Throws `malformed` for anything else, and
 * `unsupported` for a newer format.
 */
export function decodeEntry(line: string): Entry {
  let value: unknown;
  try {
    value = line.includes('bytes"') ? JSON.parse(line, bytesIn) : JSON.parse(line);
  } catch (cause) {
    throw new DuolaneError('malformed', 'a stored entry is not JSON; the store is damaged', {
      cause,
    });
  }
  if (!isObject(value) || typeof value['type'] !== 'string' || !isSeq(value['seq']))
    throw new DuolaneError(
      'malformed',
      `a stored entry lacks its type or number: ${line.slice(0, 200)}`,
    );
  if (value['v'] !== undefined && value['v'] !== ENTRY_VERSION)
    throw new DuolaneError(
      'unsupported',
      `entry ${value['seq']} has format ${JSON.stringify(value['v'])}: expected ${ENTRY_VERSION}; upgrade duolane`,
    );
  return value as unknown as Entry;
}

const isSeq = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) > 0;

function bytesOut(this: unknown, key: string, value: unknown): unknown {
  // A Buffer has its own `toJSON`, so read the value before it ran.
  const original = (this as Record<string, unknown>)[key];
  if (original instanceof Uint8Array) {
    const { buffer, byteOffset, byteLength } = original;
    return { $bytes: Buffer.from(buffer, byteOffset, byteLength).toString('base64') };
  }
  const [name, ...more] = isObject(value) ? Object.keys(value) : [];
  // An object of the caller that looks like our mark gets one more `$`; decoding removes it.
  return name !== undefined && more.length === 0 && BYTES.test(name)
    ? { [`$${name}`]: (value as Record<string, unknown>)[name] }
    : value;
}

function bytesIn(_key: string, value: unknown): unknown {
  const [name, ...more] = isObject(value) ? Object.keys(value) : [];
  if (name === undefined || more.length > 0 || !BYTES.test(name)) return value;
  const inner = (value as Record<string, unknown>)[name];
  if (name !== '$bytes') return { [name.slice(1)]: inner };
  return typeof inner === 'string' ? new Uint8Array(Buffer.from(inner, 'base64')) : value;
}

/** A replacer for what JSON refuses: BigInts, and objects that contain themselves. */
function jsonReplacer(): (this: unknown, key: string, value: unknown) => unknown {
  const ancestors: unknown[] = [];
  return function (key, value) {
    if (typeof value === 'bigint') return String(value);
    while (ancestors.length > 0 && ancestors.at(-1) !== this) ancestors.pop();
    if (typeof value !== 'object' || value === null) return value;
    if (ancestors.includes(value)) return '[contains itself]';
    const out = bytesOut.call(this, key, value);
    ancestors.push(out);
    return out;
  };
}
