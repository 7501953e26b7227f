import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuolaneError } from '../errors.ts';
import type { Abortable } from '../stream/types.ts';

export interface BlobInfo {
  /** Names the blob in a URL; cannot be guessed. */
  readonly id: string;
  readonly task: string;
  readonly owner?: string;
  readonly mediaType: string;
  readonly filename?: string;
  readonly bytes: number;
}

/** Both ends included, as in an HTTP range; a negative `start` counts from the end. */
export interface BlobRange {
  readonly start?: number;
  readonly end?: number;
}

export interface Blob {
  readonly info: BlobInfo;
  /** What the body is of the whole, first and last byte. */
  readonly range: { readonly start: number; readonly end: number };
  /** Read as it is pulled; leaving the loop closes the file. Single use. */
  readonly body: AsyncIterable<Uint8Array>;
}

/** Artifact bytes that are too large for a log: an event has their URL, the server hands them out. */
export interface BlobStore {
  /** Durable when it resolves, so the event that names it can follow. A failed one leaves nothing. */
  put(
    blob: Pick<BlobInfo, 'task' | 'owner' | 'mediaType' | 'filename'>,
    bytes: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    options?: Abortable,
  ): Promise<BlobInfo>;
  /**
   * `not_found` if there is none, and also if it is somebody else's: who may not see it does not
   * learn that it exists. `invalid` for a range beyond its end.
   */
  get(id: string, options?: Abortable & BlobRange & { readonly caller?: string }): Promise<Blob>;
  /** Deletes every blob of the task; does nothing if there is none. */
  removeTask(task: string): Promise<void>;
}

export interface FileBlobOptions {
  readonly directory: string;
  /** The largest blob; 1 GiB by default. */
  readonly maxBytes?: number;
  /** Who may read a blob; by default its owner, and anyone if it has none. */
  readonly mayRead?: (info: BlobInfo, caller: string | undefined) => boolean | Promise<boolean>;
}

const ownerOnly = ({ owner }: BlobInfo, caller: string | undefined): boolean =>
  owner === undefined || owner === caller;

/** Blobs as files, a folder per task. */
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
        // Whoever finds the description finds all the bytes.
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
      // Without its description a blob does not exist.
      const text = await readFile(`${file}.json`, 'utf8').catch(() => undefined);
      const info = text === undefined ? undefined : (JSON.parse(text) as BlobInfo);
      if (!info || !(await mayRead(info, caller))) throw missing(id);
      const range = rangeOf(info, {
        ...(start !== undefined && { start }),
        ...(end !== undefined && { end }),
      });
      const open = (): AsyncIterable<Uint8Array> =>
        createReadStream(file, { ...range, ...(signal && { signal }) });
      return { info, range, body: info.bytes === 0 ? chunks() : chunks(open) };
    },

    async removeTask(task) {
      await rm(join(directory, folderOf(task)), { recursive: true, force: true });
    },
  };
}

// A task's name may be anything; a folder's may not.
const folderOf = (task: string): string =>
  createHash('sha256').update(task).digest('hex').slice(0, 32);

function fileOf(directory: string, id: string): string {
  const [, folder, name] = /^([0-9a-f]{32})\.([0-9a-f-]{36})$/.exec(id) ?? [];
  if (folder === undefined || name === undefined) throw missing(id);
  return join(directory, folder, name);
}

const missing = (id: string): DuolaneError =>
  new DuolaneError('not_found', `there is no blob ${id} that this caller may read`);

function rangeOf({ id, bytes }: BlobInfo, { start = 0, end }: BlobRange): Blob['range'] {
  const first = start < 0 ? Math.max(0, bytes + start) : start;
  const last = Math.min(end ?? Infinity, bytes - 1);
  if (bytes > 0 && (first > last || first >= bytes))
    throw new DuolaneError('invalid', `blob ${id} has ${bytes} bytes, none of them in this range`);
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
      throw new DuolaneError('too_large', `a blob may have ${maxBytes} bytes; raise maxBytes`);
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

// The names of new files are in their folder; where a folder cannot be synced, it need not be.
async function syncFolder(path: string): Promise<void> {
  // A folder that cannot be opened cannot be synced.
  const folder = await open(path, 'r').catch(() => undefined);
  // As above.
  await folder?.sync().catch(() => {});
  await folder?.close();
}

// Opens with the first pull: a body that nobody reads holds no file.
async function* chunks(open?: () => AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  if (open) yield* open();
}
