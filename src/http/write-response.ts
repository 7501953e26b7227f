import type { ServerResponse } from 'node:http';
import { DuolaneError } from '../errors.ts';
import type { Cancellation } from '../stream/cancellation.ts';
import type { Sending, UnsentBytes } from './unsent-bytes.ts';

/** How long a client may stop reading, and who gets the error about it. */
export interface WriteOptions {
  readonly stallMs: number;
  readonly onError: (error: unknown) => void;
  /** What waits for all clients of the server together. */
  readonly unsent: UnsentBytes;
  /** Whose request it is, on a server that authenticates callers. */
  readonly owner?: string | undefined;
}

/** How long the headers of a stream wait for its first text while other streams begin as well. */
const HEADERS_MS = 10;

/**
 * Counts the streams of a server that have begun and not sent any text yet. A stream may be silent
 * for long, so its headers are sent immediately. But when many streams begin together, their
 * headers wait briefly for the first text: one write less to a socket saves a tenth of the cost of
 * a short stream.
 */
export class HeaderBatcher {
  #silent = 0;

  /**
   * Sends the headers now or soon. Call the returned function with the first text, and at the end.
   */
  begin(outgoing: ServerResponse): () => void {
    const flush = (): void => outgoing.flushHeaders();
    const timer = this.#silent++ > 0 ? setTimeout(flush, HEADERS_MS) : undefined;
    if (!timer) flush();
    let silent = true;
    return () => {
      if (!silent) return;
      silent = false;
      this.#silent--;
      clearTimeout(timer);
    };
  }
}

/**
 * Settles like `piped`, or when the client disconnects: a source that never settles must not keep
 * the response open.
 */
export function untilDisconnect(piped: Promise<void>, disconnect: Cancellation): Promise<void> {
  return new Promise((resolve, reject) => {
    const unlisten = disconnect.onAbort(() => resolve());
    piped.then(resolve, reject).finally(unlisten);
  });
}

/**
 * Writes as fast as the client reads. A client that stops reading for too long is disconnected,
 * which `onError` reports.
 */
export async function pipe(
  source: AsyncIterator<string | Uint8Array>,
  outgoing: ServerResponse,
  disconnect: Cancellation,
  options: WriteOptions,
  onFirstText: () => void = () => {},
): Promise<void> {
  let isOver = false;
  // A separate function: while it waits for the next chunk, a loop in the same frame would keep the
  // last chunk in memory, which the client has received already.
  const writeNext = async (): Promise<boolean> => {
    const { done, value: chunk } = await source.next();
    isOver = done === true;
    if (isOver) return false;
    onFirstText();
    if (disconnect.aborted) return false;
    if (chunk.length > PIECE_BYTES) return writeLongChunk(chunk, outgoing, disconnect, options);
    if (outgoing.write(chunk)) return true;
    // Each client may keep one short text of a stream unread. Bytes come from a file or a body,
    // with several chunks behind the one that was written, so they are counted.
    if (typeof chunk === 'string') return hasRoom(outgoing, disconnect, options);
    const sending = beginOrCut(outgoing.writableLength, outgoing, options);
    return sending ? untilSent(sending, hasRoom(outgoing, disconnect, options)) : false;
  };
  try {
    while (await writeNext());
  } catch (error) {
    // A source that throws has ended, so it must not be returned.
    isOver = true;
    throw error;
  } finally {
    if (!isOver) await source.return?.();
  }
}

/**
 * How much is written before checking whether the client reads. Each piece of a long chunk counts
 * as progress; otherwise a slow client would be disconnected in the middle of it, each time it
 * reconnects.
 */
export const PIECE_BYTES: number = 64 * 1024;

/** Writes a complete response, unless clients that do not read use up `maxUnsentBytes`. */
export async function writeLong(
  {
    status,
    fields,
  }: { readonly status: number; readonly fields: Readonly<Record<string, string>> },
  bytes: Uint8Array,
  outgoing: ServerResponse,
  disconnect: Cancellation,
  options: WriteOptions,
): Promise<void> {
  const sending = options.unsent.begin(
    bytes.length,
    () => cutUnread(outgoing, options),
    options.owner,
  );
  if (!sending) {
    outgoing.writeHead(503, { 'content-type': 'text/plain', 'retry-after': '1' });
    outgoing.end('Too many long responses are being sent; retry later.\n');
    return;
  }
  try {
    outgoing.writeHead(status, { ...fields, 'content-length': bytes.length });
    const isSent = await writePieces(bytes, outgoing, disconnect, options, sending);
    if (isSent) outgoing.end();
  } finally {
    sending.end();
  }
}

/** Writes a long chunk of a stream, whose headers are sent already. */
async function writeLongChunk(
  chunk: string | Uint8Array,
  outgoing: ServerResponse,
  disconnect: Cancellation,
  options: WriteOptions,
): Promise<boolean> {
  const sending = beginOrCut(Buffer.byteLength(chunk), outgoing, options);
  if (!sending) return false;
  // Converted after the limit allows it. Returned, not awaited: this frame would keep a text in
  // memory beside its bytes.
  const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
  return untilSent(sending, writePieces(bytes, outgoing, disconnect, options, sending));
}

async function untilSent(sending: Sending, written: Promise<boolean>): Promise<boolean> {
  try {
    return await written;
  } finally {
    sending.end();
  }
}

/**
 * Counts bytes as unsent. If `maxUnsentBytes` does not allow them, disconnects the client and
 * returns `undefined`: a stream cannot become a 503 any more. Its client reconnects with its last
 * event id.
 */
function beginOrCut(
  bytes: number,
  outgoing: ServerResponse,
  options: WriteOptions,
): Sending | undefined {
  const sending = options.unsent.begin(bytes, () => cutUnread(outgoing, options), options.owner);
  if (sending) return sending;
  options.onError(
    new DuolaneError(
      'overloaded',
      'disconnected a client of a stream: unsent responses exceed maxUnsentBytes',
    ),
  );
  outgoing.destroy();
  return undefined;
}

function cutUnread(outgoing: ServerResponse, { onError }: WriteOptions): void {
  onError(
    new DuolaneError(
      'overloaded',
      'disconnected a client that did not read its response; unsent responses exceed maxUnsentBytes',
    ),
  );
  outgoing.destroy();
}

/** Returns false if the client disconnected or was disconnected. */
async function writePieces(
  bytes: Uint8Array,
  outgoing: ServerResponse,
  disconnect: Cancellation,
  options: WriteOptions,
  sending: Sending,
): Promise<boolean> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    if (disconnect.aborted) return false;
    const piece = bytes.subarray(at, at + PIECE_BYTES);
    if (!outgoing.write(piece) && !(await hasRoom(outgoing, disconnect, options))) return false;
    sending.progress();
  }
  return true;
}

/**
 * Waits until the socket accepts more. Returns false if the client disconnected, or read nothing
 * for too long and was disconnected.
 */
async function hasRoom(
  outgoing: ServerResponse,
  disconnect: Cancellation,
  { stallMs, onError }: WriteOptions,
): Promise<boolean> {
  if (await drained(outgoing, disconnect, stallMs)) return true;
  if (disconnect.aborted) return false;
  // Reported here instead of thrown: destroying the response settles `untilDisconnect` first.
  onError(
    new DuolaneError(
      'timeout',
      `write timed out after ${stallMs} ms: the client read nothing and was disconnected`,
    ),
  );
  outgoing.destroy();
  return false;
}

/**
 * Resolves to whether the socket accepts more, before the client disconnects or `stallMs` is over.
 */
function drained(
  outgoing: ServerResponse,
  disconnect: Cancellation,
  stallMs: number,
): Promise<boolean> {
  return new Promise((resolve) => {
    const settle = (room: boolean): void => {
      clearTimeout(timer);
      unlisten();
      outgoing.off('drain', onDrain);
      resolve(room);
    };
    const onDrain = (): void => settle(true);
    const timer = setTimeout(() => settle(false), stallMs);
    const unlisten = disconnect.onAbort(() => settle(false));
    outgoing.once('drain', onDrain);
  });
}
