import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http2';
import { DuolaneError } from '../errors.ts';

/**
 * What travels beside the messages. Keys are lower case; one that ends in `-bin` has bytes, every
 * other printable ASCII. A key that a peer sent several times is joined by `, `; of bytes the first
 * counts.
 */
export type Metadata = Readonly<Record<string, string | Uint8Array>>;

/** What the protocol itself uses, and nobody else sees. */
const OWN = new Set([
  'content-type',
  'te',
  'date',
  'grpc-timeout',
  'grpc-encoding',
  'grpc-accept-encoding',
  'grpc-status',
  'grpc-message',
]);

/** Throws `invalid` for a key or a value that no header can have. */
export function toHeaders(metadata: Metadata): OutgoingHttpHeaders {
  const headers: OutgoingHttpHeaders = {};
  for (const [key, value] of Object.entries(metadata)) {
    if (!/^[0-9a-z_.-]+$/.test(key) || OWN.has(key))
      throw new DuolaneError('invalid', `"${key}" cannot be a key of gRPC metadata`);
    const bytes = typeof value !== 'string';
    if (bytes !== key.endsWith('-bin'))
      throw new DuolaneError('invalid', `metadata has bytes if its key ends in -bin: "${key}"`);
    if (typeof value === 'string' && !/^[\x20-\x7e]*$/.test(value))
      throw new DuolaneError('invalid', `metadata is printable ASCII, give bytes in "${key}-bin"`);
    headers[key] = bytes
      ? Buffer.from(value)
          .toString('base64')
          .replace(/={1,2}$/, '')
      : value;
  }
  return headers;
}

export function fromHeaders(headers: IncomingHttpHeaders): Metadata {
  const metadata: Record<string, string | Uint8Array> = {};
  for (const [key, value] of Object.entries(headers)) {
    if (value === undefined || key.startsWith(':') || OWN.has(key)) continue;
    const text = Array.isArray(value) ? value.join(', ') : value;
    metadata[key] = key.endsWith('-bin')
      ? new Uint8Array(Buffer.from(text.split(',', 1)[0]!, 'base64'))
      : text;
  }
  return metadata;
}

/** `grpc-message` is percent-encoded UTF-8. */
export const encodeStatusMessage = (text: string): string =>
  text.replace(/[^\x20-\x24\x26-\x7e]+/gu, (part) =>
    [...Buffer.from(part)]
      .map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`)
      .join(''),
  );

/** Never throws: what cannot be read is shown as it came. */
export function decodeMessage(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Text that is not percent-encoded is taken as it is.
    return text;
  }
}
