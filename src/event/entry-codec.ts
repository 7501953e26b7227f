import { DuolaneError } from '../errors.ts';
export { isDeep, MAX_DEPTH } from '../json.ts';
import { isObject } from '../json.ts';
import type { Entry, Turn } from './types.ts';

/**
 * The format of a stored entry. Version 1 is not written out; a later one will be, as `v`, and an
 * entry of a version that we do not know is refused with `unsupported`, never guessed at.
 */
const ENTRY_VERSION = 1;

const BYTES = /^\$+bytes$/;

/**
 * An entry as one line of JSON. Lossless for what JSON can say and for bytes (as base64); a value
 * that JSON cannot say (a cycle, a BigInt) becomes a string rather than an error.
 */
export function encodeEntry(entry: Entry): string {
  try {
    return isPlain(entry) ? JSON.stringify(entry) : JSON.stringify(entry, bytesOut);
  } catch {
    // What plain JSON cannot hold is written with the replacer.
    return JSON.stringify(entry, jsonReplacer());
  }
}

/** The many that hold nothing but strings and numbers: looking for bytes would cost more than all the rest. */
function isPlain(entry: Entry): boolean {
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

/** Whether a turn is nothing but text. */
export const isTextOnly = ({ parts, answers, metadata }: Turn): boolean =>
  !answers && !metadata && parts.every((part) => 'text' in part && !part.metadata);

/** The entry that `encodeEntry` wrote. Throws `malformed` on anything else, `unsupported` on a newer format. */
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
      `entry ${value['seq']} has format ${JSON.stringify(value['v'])}, this version reads ${ENTRY_VERSION}; upgrade duolane`,
    );
  return value as unknown as Entry;
}

const isSeq = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) > 0;

function bytesOut(this: unknown, key: string, value: unknown): unknown {
  // Buffers have a toJSON of their own, so look at what stood there before it ran.
  const original = (this as Record<string, unknown>)[key];
  if (original instanceof Uint8Array) {
    const { buffer, byteOffset, byteLength } = original;
    return { $bytes: Buffer.from(buffer, byteOffset, byteLength).toString('base64') };
  }
  const [name, ...more] = isObject(value) ? Object.keys(value) : [];
  // What only looks like our mark gets one more `$`, and loses it again.
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

/** For what JSON refuses: numbers too big for it, and objects that contain themselves. */
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
