import { create } from '@bufbuild/protobuf';
import { tooLarge } from '../../../errors.ts';
import { type JsonObject, omitUndefined } from '../../../json.ts';
import { toBase64, toBytes } from './content-codec.ts';
import { type ResourceChunk, ResourceChunkSchema } from '../gen/mcp/stream/v1/mcp_pb.ts';
import { isWellFormed, parseObject } from './json-text.ts';

const CHUNK_BYTES = 128 * 1024;

/** Splits one entry of `contents`, so that no message is large. */
export function* chunksOf(index: number, entry: JsonObject): Generator<ResourceChunk, void> {
  const { text, blob, ...rest } = entry;
  const wellFormed = typeof text === 'string' && isWellFormed(text) ? text : undefined;
  const bytes = wellFormed === undefined ? toBytes(blob) : undefined;
  // JSON omits a member that is undefined.
  const members = {
    ...rest,
    text: wellFormed === undefined ? text : undefined,
    blob: bytes ? undefined : blob,
  };
  const parts = wellFormed === undefined ? cutBytes(bytes) : cutText(wellFormed);
  let offset = 0;
  let first = true;
  for (const { part, last } of parts) {
    yield create(ResourceChunkSchema, {
      index,
      offset: BigInt(offset),
      last,
      ...(typeof part === 'string' ? { text: part } : omitUndefined({ blob: part })),
      ...(first && { entryJson: JSON.stringify(members) }),
    });
    first = false;
    offset += typeof part === 'string' ? Buffer.byteLength(part) : (part?.length ?? 0);
  }
}

interface Part<T> {
  readonly part: T;
  readonly last: boolean;
}

function* cutBytes(bytes: Uint8Array | undefined): Generator<Part<Uint8Array | undefined>, void> {
  if (!bytes) return yield { part: undefined, last: true };
  let at = 0;
  do {
    const end = at + CHUNK_BYTES;
    yield { part: bytes.subarray(at, end), last: end >= bytes.length };
    at = end;
  } while (at < bytes.length);
}

/** Splits text by UTF-16 units, each of at most three bytes, and never inside a surrogate pair. */
function* cutText(text: string): Generator<Part<string>, void> {
  let at = 0;
  do {
    let end = Math.min(at + CHUNK_BYTES / 3, text.length) | 0;
    const half = text.charCodeAt(end - 1);
    if (end < text.length && half >= 0xd800 && half < 0xdc00) end -= 1;
    yield { part: text.slice(at, end), last: end >= text.length };
    at = end;
  } while (at < text.length);
}

/** A part of one entry, for readers that do not need the complete entry. */
export interface ResourcePart {
  /** Which entry of the resource, and how many of its bytes precede this part. */
  readonly index: number;
  readonly offset: number;
  readonly text?: string;
  readonly bytes?: Uint8Array;
  readonly last: boolean;
  /** In the first part: the members of the entry besides its text or bytes. */
  readonly entry?: JsonObject;
}

export function toPart(chunk: ResourceChunk): ResourcePart {
  const { index, offset, text, blob: bytes, last, entryJson } = chunk;
  const entry = parseObject(entryJson, 'entry_json');
  return omitUndefined<ResourcePart>({ index, offset: Number(offset), last, text, bytes, entry });
}

/** Joins parts to entries. An entry over the limit is `too_large`; read it in parts. */
export async function* joined(
  parts: AsyncIterable<ResourcePart>,
  maxBytes: number,
): AsyncGenerator<JsonObject, void, undefined> {
  let entry: JsonObject | undefined;
  let pieces: (string | Uint8Array)[] = [];
  let size = 0;
  for await (const part of parts) {
    entry ??= part.entry ?? {};
    const piece = part.text ?? part.bytes;
    if (piece !== undefined) pieces.push(piece);
    size += piece?.length ?? 0;
    if (size > maxBytes)
      throw tooLarge(
        `an entry of the resource exceeds maxResourceBytes (${maxBytes}); read it in parts with streamResource`,
      );
    if (!part.last) continue;
    yield { ...entry, ...joinChunks(pieces) };
    [entry, pieces, size] = [undefined, [], 0];
  }
}

function joinChunks(pieces: readonly (string | Uint8Array)[]): JsonObject {
  if (pieces.length === 0) return {};
  if (typeof pieces[0] === 'string') return { text: pieces.join('') };
  return { blob: toBase64(Buffer.concat(pieces as Uint8Array[])) };
}
