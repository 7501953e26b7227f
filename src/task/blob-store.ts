import { createReadStream } from 'node:fs';
import { mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { omitUndefined } from '../json.ts';
import {
  blobFolder,
  blobMissing,
  blobRange,
  limitedBytes,
  MAX_BLOB_BYTES,
  newBlobId,
  ownerOnly,
  splitBlobId,
} from './blobs/blob-rules.ts';
import type { BlobInfo, BlobRange, BlobRules, BlobStore } from './blobs/types.ts';

export type { Blob, BlobInfo, BlobRange, BlobRules, BlobStore } from './blobs/types.ts';

export interface FileBlobOptions extends BlobRules {
  /** Where the files are. It is created if it is missing. */
  readonly directory: string;
}

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
  const { directory, maxBytes = MAX_BLOB_BYTES, mayRead = ownerOnly } = options;

  return {
    async put(blob, bytes, { signal } = {}) {
      const folder = blobFolder(blob.task);
      const id = newBlobId(blob.task);
      const file = fileOf(directory, id);
      await mkdir(join(directory, folder), { recursive: true, mode: 0o700 });
      try {
        const size = await writeAll(`${file}.part`, limitedBytes(bytes, maxBytes, signal));
        const info: BlobInfo = { ...blob, id, bytes: size };
        // The description is written last: a blob with a description has all its bytes.
        await rename(`${file}.part`, file);
        const text = JSON.stringify(info);
        await writeFile(`${file}.json.part`, text, { flush: true, mode: 0o600 });
        await rename(`${file}.json.part`, `${file}.json`);
        await syncFolder(join(directory, folder));
        return info;
      } catch (error) {
        for (const leftover of [`${file}.part`, file, `${file}.json.part`, `${file}.json`])
          await rm(leftover, { force: true });
        throw error;
      }
    },

    async get(id, { start, end, caller, signal } = {}) {
      const file = fileOf(directory, id);
      // A blob without its description does not exist.
      const text = await readFile(`${file}.json`, 'utf8').catch(() => undefined);
      const info = text === undefined ? undefined : (JSON.parse(text) as BlobInfo);
      if (!info || !(await mayRead(info, caller))) throw blobMissing(id);
      const range = blobRange(info, omitUndefined<BlobRange>({ start, end }));
      const open = (): AsyncIterable<Uint8Array> =>
        createReadStream(file, { ...range, ...(signal && { signal }) });
      return { info, range, body: info.bytes === 0 ? chunks() : chunks(open) };
    },

    async removeTask(task) {
      await rm(join(directory, blobFolder(task)), { recursive: true, force: true });
    },
  };
}

function fileOf(directory: string, id: string): string {
  const { folder, name } = splitBlobId(id);
  return join(directory, folder, name);
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
