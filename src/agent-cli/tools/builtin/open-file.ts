import { isUtf8 } from 'node:buffer';
import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readlink, realpath } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { DuolaneError } from '../../../errors.ts';

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR } = constants;
const CHUNK_BYTES = 64 * 1024;
const isLinux = process.platform === 'linux';

/**
 * Opens a regular file for reading. `path` is the real path that was decided about: no link is
 * followed, and a file that has become another one since is refused. A pipe or a device is refused
 * without waiting for its other end, and so are files of /proc and /sys: they hold what runs, the
 * keys in an environment included, not what was stored.
 */
export async function openToRead(path: string): Promise<FileHandle> {
  refuseSystem(path);
  await refuseOther(path);
  const handle = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  return checked(handle, path);
}

/** Opens an existing regular file to replace its text; the text is still there. */
export async function openToEdit(path: string): Promise<FileHandle> {
  refuseSystem(path);
  await refuseOther(path);
  const handle = await open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  return checked(handle, path);
}

/** Opens a regular file to write it from its start, and makes it, and its folders, where missing. */
export async function openToWrite(path: string): Promise<FileHandle> {
  try {
    return await openToEdit(path);
  } catch (reason) {
    if (codeOf(reason) !== 'ENOENT') throw reason;
  }
  await using folder = await openFolder(dirname(path), true);
  // By the folder that is open: what its name means by now does not count.
  const file = isLinux ? `/proc/self/fd/${folder.fd}/${basename(path)}` : path;
  const handle = await open(file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o666);
  return checked(handle, path);
}

/** Opens a folder by its real path; with `make`, those that are missing are made. */
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
    if (codeOf(reason) !== 'EEXIST') throw reason; // made by another call meanwhile
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
    await checkPlace(handle, path);
    return handle;
  } catch (reason) {
    await handle.close();
    throw reason;
  }
}

/** What is open must be what was decided about: a folder on the way may have become a link. */
async function checkPlace(handle: FileHandle, path: string): Promise<void> {
  const found = isLinux
    ? await readlink(`/proc/self/fd/${handle.fd}`).catch(() => realpath(path)) // no /proc here
    : await realpath(path);
  if (found === path) return;
  throw new DuolaneError(
    'conflict',
    `${path} was replaced while it was opened and is now ${found}; call the tool again`,
  );
}

/** Before the open: to open a device may do something already. */
async function refuseOther(path: string): Promise<void> {
  const found = await lstat(path);
  if (!found.isFile()) throw notRegular(path, found.isDirectory() ? 'a folder' : undefined);
}

function refuseSystem(path: string): void {
  if (isLinux && /^\/(?:proc|sys)(?:\/|$)/.test(path))
    throw new DuolaneError(
      'unauthorized',
      `${path} belongs to the system: expected a stored file, not one of /proc or /sys`,
    );
}

const notRegular = (path: string, what = 'a pipe, a socket, a link or a device'): DuolaneError =>
  new DuolaneError('invalid', `${path} is not a file: expected a regular file, got ${what}`);

const codeOf = (reason: unknown): unknown => (reason as NodeJS.ErrnoException | undefined)?.code;

/**
 * The text of an open file; throws `too_large` when it is longer than `maxBytes`, whatever its size
 * said. `exact` throws `invalid` for bytes that are not UTF-8: text that is written back must not
 * put replacement characters in their place.
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
          `${path} is not UTF-8: expected text in UTF-8; convert it, or change it with a command`,
        );
      return bytes.toString('utf8');
    }
    total += bytesRead;
    // It grows while we read, or its size was not true.
    if (total > maxBytes) throw tooLong(path, maxBytes, total);
    chunks.push(buffer.subarray(0, bytesRead));
  }
}

const tooLong = (path: string, maxBytes: number, bytes: number): DuolaneError =>
  new DuolaneError('too_large', `${path} exceeds the limit of ${maxBytes} bytes: ${bytes}`);

/**
 * Replaces the text of an open file. What makes the file longer is written first: on a full disk
 * that part fails, and the old text, which is still whole, stays.
 */
export async function writeText(handle: FileHandle, text: string): Promise<void> {
  const bytes = Buffer.from(text);
  const { size } = await handle.stat();
  try {
    await writeAll(handle, bytes, size, bytes.length);
  } catch (reason) {
    // To make it shorter needs no room; should it fail all the same, the first error says more.
    await handle.truncate(size).catch(() => {});
    throw reason;
  }
  await writeAll(handle, bytes, 0, Math.min(size, bytes.length));
  await handle.truncate(bytes.length);
}

/** Writes a part of `bytes` to its place in the file. */
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
