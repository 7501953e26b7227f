import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuolaneError } from '../errors.ts';
import { omitUndefined } from '../json.ts';
import type { Abortable } from '../stream/types.ts';

/** What is known of a blob without its bytes. */
export interface BlobInfo {
  /** Identifies the blob in a URL. It cannot be guessed. */
  readonly id: string;
  readonly task: string;
  readonly owner?: string;
  readonly mediaType: string;
  readonly filename?: string;
  readonly bytes: number;
}

/** A range with both ends included, as in HTTP; a negative `start` counts from the end. */
export interface BlobRange {
  readonly start?: number;
  readonly end?: number;
}

/** A blob, or a range of it. */
export interface Blob {
  readonly info: BlobInfo;
  /** The first and the last byte of the body in the blob. */
  readonly range: { readonly start: number; readonly end: number };
  /** Reads the file as it is pulled; breaking out of the loop closes it. Single use. */
  readonly body: AsyncIterable<Uint8Array>;
}

/**
 * Stores artifact bytes that are too large for a log. An event has their URL; the server sends
 * them.
 */
export interface BlobStore {
  /** Stores a blob; it is durable when this resolves. A failed call leaves nothing behind. */
  put(
    blob: Pick<BlobInfo, 'task' | 'owner' | 'mediaType' | 'filename'>,
    bytes: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    options?: Abortable,
  ): Promise<BlobInfo>;
  /**
   * Opens a blob. Throws `not_found` if it does not exist, and also if the caller may not read it,
   * so that the caller does not learn that it exists. Throws `invalid` for a range after its end.
   */
  get(id: string, options?: Abortable & BlobRange & { readonly caller?: string }): Promise<Blob>;
  /** Deletes every blob of the task, if it has any. */
  removeTask(task: string): Promise<void>;
}

export interface FileBlobOptions {
  /** Where the files are. It is created if it is missing. */
  readonly directory: string;
  /** The size limit of a blob; 1 GiB by default. */
  readonly maxBytes?: number;
  /** Decides whether a caller may read a blob; by default its owner, or anyone without an owner. */
  readonly mayRead?: (info: BlobInfo, caller: string | undefined) => boolean | Promise<boolean>;
}

const ownerOnly = ({ owner }: BlobInfo, caller: string | undefined): boolean =>
  owner === undefined || owner === caller;

/**
 * Stores blobs as files, in a folder for each task.
 *
 * @example
 * ```ts
 * const blobs = fileBlobs({ directory: 'blobs' });
 * const info = await blobs.put({ task: 't1', mediaType: 'text/csv' }, [bytes]);
 * ```
 */
export function fileBlobs(options: FileBlobOptions): BlobStore {
  const { directory, maxBytes = 2 ** 30, mayRead = ownerOnly } = options;

  return {
    async put(blob, bytes, { signal } = {}) {
      const folder = folderOf(blob.task);
      const id = `${folder}.${randomUUID()}`;
      const file = fileOf(directory, id);
      await mkdir(join(directory, folder), { recursive: true, mode: 0o700 });
      try {
        const size = await writeAll(`${file}.part`, limited(bytes, maxBytes, signal));
        const info: BlobInfo = { ...blob, id, bytes: size };
        // The description is written last: a blob with a description has all its bytes.
        await rename(`${file}.part`, file);
        await writeFile(`${file}.json`, JSON.stringify(info), { flush: true, mode: 0o600 });
        await syncFolder(join(directory, folder));
        return info;
      } catch (error) {
        for (const leftover of [`${file}.part`, file, `${file}.json`])
          await rm(leftover, { force: true });
        throw error;
      }
    },

    async get(id, { start, end, caller, signal } = {}) {
      const file = fileOf(directory, id);
      // A blob without its description does not exist.
      const text = await readFile(`${file}.json`, 'utf8').catch(() => undefined);
      const info = text === undefined ? undefined : (JSON.parse(text) as BlobInfo);
      if (!info || !(await mayRead(info, caller))) throw missing(id);
      const range = rangeOf(info, omitUndefined<BlobRange>({ start, end }));
      const open = (): AsyncIterable<Uint8Array> =>
        createReadStream(file, { ...range, ...(signal && { signal }) });
      return { info, range, body: info.bytes === 0 ? chunks() : chunks(open) };
    },

    async removeTask(task) {
      await rm(join(directory, folderOf(task)), { recursive: true, force: true });
    },
  };
}

// A task id may have any characters, and a folder name may not.
const folderOf = (task: string): string =>
  createHash('sha256').update(task).digest('hex').slice(0, 32);

function fileOf(directory: string, id: string): string {
  const [, folder, name] = /^([0-9a-f]{32})\.([0-9a-f-]{36})$/.exec(id) ?? [];
  if (folder === undefined || name === undefined) throw missing(id);
  return join(directory, folder, name);
}

const missing = (id: string): DuolaneError =>
  new DuolaneError(
    'not_found',
    `blob "${id}" not found; it was deleted, or this caller may not read it`,
  );

function rangeOf({ id, bytes }: BlobInfo, { start = 0, end }: BlobRange): Blob['range'] {
  const first = start < 0 ? Math.max(0, bytes + start) : start;
  const last = Math.min(end ?? Infinity, bytes - 1);
  if (bytes > 0 && (first > last || first >= bytes))
    throw new DuolaneError(
      'invalid',
      `invalid range of blob "${id}": expected a range within its ${bytes} bytes`,
    );
  return { start: first, end: last };
}

async function* limited(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  maxBytes: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array, void> {
  let bytes = 0;
  for await (const chunk of source) {
    signal?.throwIfAborted();
    bytes += chunk.byteLength;
    if (bytes > maxBytes)
      throw new DuolaneError(
        'too_large',
        `blob exceeds maxBytes (${maxBytes}); increase maxBytes to accept it`,
      );
    yield chunk;
  }
}

async function writeAll(file: string, chunks: AsyncIterable<Uint8Array>): Promise<number> {
  await using handle = await open(file, 'wx', 0o600);
  let bytes = 0;
  for await (const chunk of chunks) {
    await handle.writeFile(chunk);
    bytes += chunk.byteLength;
  }
  await handle.sync();
  return bytes;
}

// Makes the names of new files durable. Platforms on which a folder cannot be opened or synced do
// not need it.
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r').catch(() => undefined); // see above
  await folder?.sync().catch(() => {}); // see above
  await folder?.close();
}

// Opens the file with the first pull, so that a body that is never read keeps no file open.
async function* chunks(open?: () => AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  if (open) yield* open();
}
