import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http2';
import { invalid } from '../errors.ts';

/**
 * Data that travels beside the messages. Keys are lower case; a key that ends in `-bin` has bytes,
 * every other printable ASCII. If a peer sent a key several times, texts are joined by `, `, and
 * the first of several byte values counts.
 */
export type Metadata = Readonly<Record<string, string | Uint8Array>>;

/** Headers of the protocol itself, which users neither set nor see. */
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

/**
 * Converts metadata to headers. Throws `invalid` for a key or a value that a header cannot have.
 */
export function toHeaders(metadata: Metadata): OutgoingHttpHeaders {
  const headers: OutgoingHttpHeaders = {};
  for (const [key, value] of Object.entries(metadata)) {
    if (!/^[0-9a-z_.-]+$/.test(key) || OWN.has(key))
      throw invalid(
        `invalid key "${key}" of gRPC metadata: expected lower-case letters, digits, "_", "." and "-", and no reserved name`,
      );
    const bytes = typeof value !== 'string';
    if (bytes !== key.endsWith('-bin'))
      throw invalid(
        `invalid value of metadata "${key}": expected bytes if, and only if, its key ends in -bin`,
      );
    if (typeof value === 'string' && !/^[\x20-\x7e]*$/.test(value))
      throw invalid(
        `invalid value of metadata "${key}": expected printable ASCII; send bytes as "${key}-bin"`,
      );
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

/** Encodes a `grpc-message`: percent-encoded UTF-8. */
export const encodeStatusMessage = (text: string): string =>
  text.replace(/[^\x20-\x24\x26-\x7e]+/gu, (part) =>
    [...Buffer.from(part)]
      .map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`)
      .join(''),
  );

/** Decodes a `grpc-message`. Never throws: text that cannot be decoded is returned unchanged. */
export function decodeMessage(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // The text is not percent-encoded.
    return text;
  }
}
