import { isObject } from '../../json.ts';

/** The member that marks a value which is not JSON. */
const KIND = '$duolane';

/**
 * Returns a value as JSON that `decodeValue` reads. Dates, bytes, URLs and errors stay what they
 * are; other objects become what JSON makes of them.
 */
export function encodeValue(value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'number' && !Number.isFinite(value)) return null;
  if (typeof value === 'function' || typeof value === 'symbol') return undefined;
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Date) return { [KIND]: 'date', value: value.getTime() };
  if (value instanceof URL) return { [KIND]: 'url', value: value.href };
  if (value instanceof Uint8Array)
    return { [KIND]: 'bytes', value: Buffer.from(value).toString('base64') };
  if (value instanceof Error) {
    const { name, message } = value;
    return { [KIND]: 'error', value: { name, message } };
  }
  if (Array.isArray(value)) return value.map((item) => encodeValue(item) ?? null);
  const { toJSON } = value as { readonly toJSON?: unknown };
  if (typeof toJSON === 'function') return encodeValue(toJSON.call(value));
  const members = Object.entries(value).map(([name, member]) => [name, encodeValue(member)]);
  const encoded: unknown = Object.fromEntries(members);
  return KIND in value ? { [KIND]: 'object', value: encoded } : encoded;
}

export function decodeValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(decodeValue);
  if (!isObject(value)) return value;
  const inner = value['value'];
  switch (value[KIND]) {
    case 'date':
      return new Date(inner as number);
    case 'url':
      return new URL(inner as string);
    case 'bytes':
      return new Uint8Array(Buffer.from(inner as string, 'base64'));
    case 'error': {
      const { name, message } = inner as { readonly name: string; readonly message: string };
      return Object.assign(new Error(message), { name });
    }
    case 'object':
      return decodeMembers(inner as object);
    default:
      return decodeMembers(value);
  }
}

const decodeMembers = (value: object): object =>
  Object.fromEntries(Object.entries(value).map(([name, member]) => [name, decodeValue(member)]));
