import { isUtf8 } from 'node:buffer';
import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readlink, realpath } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { DuolaneError } from '../../../errors.ts';

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR } = constants;
const CHUNK_BYTES = 64 * 1024;
const isLinux = process.platform === 'linux';

/**
 * Opens a regular file for reading. `path` is the real path that the permission was given for:
 * links are not followed, and a file that was replaced since then is refused. Pipes and devices are
 * refused without waiting for their peer. Files of /proc and /sys are refused, too: they show the
 * state of running processes, including keys in their environment.
 */
export const openToRead = (path: string): Promise<FileHandle> => openRegular(path, O_RDONLY);

/** Opens an existing regular file for reading and writing; its text is unchanged. */
export const openToEdit = (path: string): Promise<FileHandle> => openRegular(path, O_RDWR);

async function openRegular(path: string, access: number): Promise<FileHandle> {
  refuseSystem(path);
  await refuseOther(path);
  const handle = await open(path, access | O_NOFOLLOW | O_NONBLOCK);
  return checked(handle, path);
}

/** Opens a regular file for writing; creates it and its folders if they are missing. */
export async function openToWrite(path: string): Promise<FileHandle> {
  try {
    return await openToEdit(path);
  } catch (reason) {
    if (codeOf(reason) !== 'ENOENT') throw reason;
  }
  await using folder = await openFolder(dirname(path), true);
  // Create the file in the opened folder, not by its path: the path may have become a link since.
  const file = isLinux ? `/proc/self/fd/${folder.fd}/${basename(path)}` : path;
  const handle = await open(file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o666);
  return checked(handle, path);
}

/** Opens a folder by its real path; with `make`, creates missing folders. */
async function openFolder(path: string, make: boolean): Promise<FileHandle> {
  try {
    const handle = await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    return await checked(handle, path, 'folder');
  } catch (reason) {
    if (!make || codeOf(reason) !== 'ENOENT' || dirname(path) === path) throw reason;
  }
  await using parent = await openFolder(dirname(path), true);
  const folder = isLinux ? `/proc/self/fd/${parent.fd}/${basename(path)}` : path;
  await mkdir(folder).catch((reason: unknown) => {
    if (codeOf(reason) !== 'EEXIST') throw reason; // another call created it meanwhile
  });
  return openFolder(path, false);
}

async function checked(
  handle: FileHandle,
  path: string,
  kind: 'file' | 'folder' = 'file',
): Promise<FileHandle> {
  try {
    if (kind === 'file' && !(await handle.stat()).isFile()) throw notRegular(path);
    await checkPath(handle, path);
    return handle;
  } catch (reason) {
    await handle.close();
    throw reason;
  }
}

/**
 * Throws `conflict` unless the opened file has the path that the permission was given for: a folder
 * on the path may have been replaced by a link.
 */
async function checkPath(handle: FileHandle, path: string): Promise<void> {
  const found = isLinux
    ? await readlink(`/proc/self/fd/${handle.fd}`).catch(() => realpath(path)) // without /proc
    : await realpath(path);
  if (found === path) return;
  throw new DuolaneError(
    'conflict',
    `cannot open "${path}": it was replaced by a link to "${found}" meanwhile; call the tool again`,
  );
}

/** Refuses other kinds of files before they are opened: opening a device may have an effect. */
async function refuseOther(path: string): Promise<void> {
  const found = await lstat(path);
  if (!found.isFile()) throw notRegular(path, found.isDirectory() ? 'a folder' : undefined);
}

function refuseSystem(path: string): void {
  if (isLinux && /^\/(?:proc|sys)(?:\/|$)/.test(path))
    throw new DuolaneError(
      'unauthorized',
      `cannot open "${path}": it is a file of the kernel; use a path outside of /proc and /sys`,
    );
}

const notRegular = (path: string, what = 'a pipe, a socket, a link or a device'): DuolaneError =>
  new DuolaneError('invalid', `invalid path "${path}": expected a regular file, not ${what}`);

const codeOf = (reason: unknown): unknown => (reason as NodeJS.ErrnoException | undefined)?.code;

/**
 * Reads the text of an open file. Throws `too_large` if it has more than `maxBytes`, even if its
 * reported size is smaller. `exact` throws `invalid` for bytes that are not UTF-8: a text that is
 * written back must not replace them by replacement characters.
 */
export async function readTextFile(
  handle: FileHandle,
  {
    path,
    maxBytes,
    signal,
    exact = false,
  }: { path: string; maxBytes: number; signal: AbortSignal; exact?: boolean },
): Promise<string> {
  const { size } = await handle.stat();
  if (size > maxBytes) throw tooLong(path, maxBytes, size);
  const chunks: Buffer[] = [];
  let total = 0;
  for (;;) {
    signal.throwIfAborted();
    const { buffer, bytesRead } = await handle.read(
      Buffer.allocUnsafe(CHUNK_BYTES),
      0,
      CHUNK_BYTES,
      total,
    );
    if (bytesRead === 0) {
      const bytes = Buffer.concat(chunks);
      if (exact && !isUtf8(bytes))
        throw new DuolaneError(
          'invalid',
          `invalid file "${path}": expected text in UTF-8; convert it, or change it with a command`,
        );
      return bytes.toString('utf8');
    }
    total += bytesRead;
    // The file grows while it is read, or its reported size was wrong.
    if (total > maxBytes) throw tooLong(path, maxBytes, total);
    chunks.push(buffer.subarray(0, bytesRead));
  }
}

const tooLong = (path: string, maxBytes: number, bytes: number): DuolaneError =>
  new DuolaneError(
    'too_large',
    `file "${path}" exceeds the limit of ${maxBytes} bytes: ${bytes} bytes`,
  );

/**
 * Replaces the text of an open file. The part beyond the old end is written first: if the disk is
 * full, that write fails and the old text stays complete.
 */
export async function writeText(handle: FileHandle, text: string): Promise<void> {
  const bytes = Buffer.from(text);
  const { size } = await handle.stat();
  try {
    await writeAll(handle, bytes, size, bytes.length);
  } catch (reason) {
    // Shortening needs no disk space. If it fails nevertheless, the first error is more helpful.
    await handle.truncate(size).catch(() => {});
    throw reason;
  }
  await writeAll(handle, bytes, 0, Math.min(size, bytes.length));
  await handle.truncate(bytes.length);
}

/** Writes the part `from`–`to` of `bytes` to the same position of the file. */
async function writeAll(
  handle: FileHandle,
  bytes: Buffer,
  from: number,
  to: number,
): Promise<void> {
  for (let at = from; at < to;) {
    const { bytesWritten } = await handle.write(bytes, at, to - at, at);
    at += bytesWritten;
  }
}
