import { createHash, randomUUID } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import { abortable } from '../../stream/abort.ts';
import type { Blob, BlobInfo, BlobRange } from './types.ts';

/** The default size limit of a blob. */
export const MAX_BLOB_BYTES: number = 2 ** 30;

/** The default of `mayRead`. */
export const ownerOnly = ({ owner }: BlobInfo, caller: string | undefined): boolean =>
  owner === undefined || owner === caller;

/** Returns the folder of a task: its id may have any characters, and a name in a store may not. */
export const blobFolder = (task: string): string =>
  createHash('sha256').update(task).digest('hex').slice(0, 32);

/** Returns an id that cannot be guessed. It has the folder of the task. */
export const newBlobId = (task: string): string => `${blobFolder(task)}.${randomUUID()}`;

/** The name of a blob in the folder of its task. */
export const BLOB_NAME: RegExp = /^[0-9a-f-]{36}$/;

/** Returns folder and name of a blob. Throws `not_found` for an id that no store has made. */
export function splitBlobId(id: string): { readonly folder: string; readonly name: string } {
  const [, folder, name] = /^([0-9a-f]{32})\.(.*)$/.exec(id) ?? [];
  if (folder === undefined || name === undefined || !BLOB_NAME.test(name)) throw blobMissing(id);
  return { folder, name };
}

export const blobMissing = (id: string): DuolaneError =>
  new DuolaneError(
    'not_found',
    `blob "${id}" not found; it was deleted, or this caller may not read it`,
  );

/** Returns the range in the blob. Throws `invalid` for one that begins after its end. */
export function blobRange({ id, bytes }: BlobInfo, { start = 0, end }: BlobRange): Blob['range'] {
  const first = start < 0 ? Math.max(0, bytes + start) : start;
  const last = Math.min(end ?? Infinity, bytes - 1);
  if (bytes > 0 && (first > last || first >= bytes))
    throw new DuolaneError(
      'invalid',
      `invalid range of blob "${id}": expected a range within its ${bytes} bytes`,
    );
  return { start: first, end: last };
}

/**
 * Yields the bytes of a source up to the limit. Throws the reason of the signal as soon as it
 * aborts, also while the source is silent.
 */
export async function* limitedBytes(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  maxBytes: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array, void> {
  let bytes = 0;
  signal?.throwIfAborted();
  for await (const chunk of signal ? abortable(asyncBytes(source), signal) : source) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes)
      throw new DuolaneError(
        'too_large',
        `blob exceeds maxBytes (${maxBytes}); increase maxBytes to accept it`,
      );
    yield chunk;
  }
}

/**
 * Yields the bytes of a source in pieces of the given size; only the last one may be shorter. At
 * most one piece is in memory, and each has its own buffer.
 */
export async function* piecesOf(
  source: AsyncIterable<Uint8Array>,
  size: number,
): AsyncGenerator<Uint8Array, void> {
  let parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of source) {
    for (let at = 0; at < chunk.byteLength;) {
      const part = chunk.subarray(at, at + size - bytes);
      // A copy: the source may reuse its buffer for the next chunk.
      parts.push(new Uint8Array(part));
      bytes += part.byteLength;
      at += part.byteLength;
      if (bytes < size) continue;
      const piece = Buffer.concat(parts);
      // Freed before the reader uses the piece, which may take long.
      parts = [];
      bytes = 0;
      yield piece;
    }
  }
  if (bytes > 0) yield Buffer.concat(parts);
}

async function* asyncBytes(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void> {
  yield* source;
}
