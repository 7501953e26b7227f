import { resolve } from 'node:path';
import { DuolaneError, errorMessage } from '../../errors.ts';
import { isInsideDirectory, realPath } from '../permissions/path-rules.ts';
import { asString, type JsonObject } from '../../json.ts';
import { openToRead } from '../tools/builtin/open-file.ts';

const DEFAULT_BYTES = 1024 * 1024;
const MAX_BYTES = 10 * 1024 * 1024;

/**
 * Handles `read_file` of the host: the first `max_bytes` of a file inside the working directories
 * (1 MiB by default, at most 10), as text or base64. Throws `unauthorized` if the real path is
 * outside, and `invalid` if it is not a regular file.
 */
export async function readFileForHost(
  request: JsonObject,
  { cwd, directories }: { readonly cwd: string; readonly directories: readonly string[] },
): Promise<JsonObject> {
  const absPath = resolve(cwd, asString(request['path']));
  const real = realPath(absPath);
  if (!directories.some((directory) => isInsideDirectory(directory, real))) {
    throw new DuolaneError(
      'unauthorized',
      `cannot read "${absPath}": it is outside of the working directories`,
    );
  }
  await using file = await openToRead(real).catch((cause: unknown) => {
    if (cause instanceof DuolaneError) throw cause;
    throw new DuolaneError('not_found', `cannot read "${absPath}": ${errorMessage(cause)}`, {
      cause,
    });
  });
  const found = await file.stat();
  const { max_bytes: wanted } = request;
  const limit = typeof wanted === 'number' && wanted > 0 ? wanted : DEFAULT_BYTES;
  const length = Math.min(found.size, limit, MAX_BYTES);
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, 0);
  const encoding = request['encoding'] === 'base64' ? 'base64' : 'utf8';
  return {
    contents: buffer.toString(encoding, 0, bytesRead),
    absPath,
    ...(found.size > bytesRead && { truncated: true }),
  };
}
