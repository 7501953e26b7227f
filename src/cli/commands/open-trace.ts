import { constants, createReadStream, openSync, statSync } from 'node:fs';
import { Socket } from 'node:net';
import { addAbortSignal, type Readable } from 'node:stream';
import { DuolaneError } from '../../errors.ts';
import { readTrace, type TraceItem } from '../../trace/index.ts';
import { isReadable } from '../command.ts';

/**
 * Reads a trace file. The file may be a pipe or a device without an end, so an abort ends it.
 * Throws `not_found` if it does not exist or is a directory.
 */
export function openTrace(
  path: string,
  signal: AbortSignal,
  hint = '',
): AsyncGenerator<TraceItem, void, undefined> {
  if (!isReadable(path)) throw new DuolaneError('not_found', `file "${path}" not found${hint}`);
  return readTrace(openAny(path, signal));
}

/** Opening a pipe waits for its writer, in a thread that cannot be ended. A socket does not. */
function openAny(path: string, signal: AbortSignal): Readable {
  if (!statSync(path).isFIFO()) return createReadStream(path, { signal });
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  return addAbortSignal(signal, new Socket({ fd, readable: true, writable: false }));
}
