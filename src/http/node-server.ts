import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { DuolaneError } from '../errors.ts';
import { Cancellation } from '../stream/cancellation.ts';
import { CLIENT_DISCONNECTED, toRequest } from './node-request.ts';
import { streamSource } from './sse-response.ts';
import { responseText } from './text-response.ts';
import { UnsentBytes } from './unsent-bytes.ts';

/** A server's whole job, in the web's own words. The request's signal aborts when the client leaves. */
export type Handler = (request: Request) => Promise<Response>;

export interface NodeHandlerOptions {
  /** How long a client may leave a full socket unread before it is cut; it can resume. */
  readonly stallMs?: number;
  /** What a handler threw, and clients that were cut. */
  readonly onError?: (error: unknown) => void;
  /**
   * Bytes of long answers that clients have not read yet, all together. Beyond it, clients that have stopped reading
   * are cut, or else the next long answer is 503 with `Retry-After`. A quarter of the heap by default.
   */
  readonly maxUnsentBytes?: number;
}

type WriteOptions = Required<Pick<NodeHandlerOptions, 'stallMs' | 'onError'>>;

const STALL_MS = 30_000;

/**
 * The handler as a listener of node:http, so also as a route of Express; a body that `express.json()`
 * has read is taken from there, within the limits that it has. Writes as fast as the client reads, and holds no more than one chunk for it.
 */
export function nodeHandler(
  handler: Handler,
  { stallMs = STALL_MS, onError = () => {}, maxUnsentBytes }: NodeHandlerOptions = {},
): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  const beginnings = new HeaderBatcher();
  const unsent = new UnsentBytes(maxUnsentBytes);
  return (incoming, outgoing) => {
    void serveOne(handler, incoming, outgoing, { stallMs, onError }, beginnings, unsent).catch(
      (error: unknown) => {
        onError(error);
        if (outgoing.headersSent) {
          // A response that broke off must not look as if it had ended. What was written goes out first.
          outgoing.socket?.setTimeout(stallMs, () => outgoing.destroy());
          outgoing.socket?.destroySoon();
          return;
        }
        outgoing.writeHead(500, { 'content-type': 'text/plain' });
        outgoing.end();
      },
    );
  };
}

export interface ListenOptions extends NodeHandlerOptions {
  readonly host?: string;
  readonly port?: number;
  /** How long open responses have to end when the server is disposed; then they are cut. */
  readonly closeMs?: number;
  /** How long a client may take to send the headers of a request; then it gets 408. 20 s by default. */
  readonly headersMs?: number;
  /** How long a client may take to send a whole request; then it gets 408. 2 minutes by default. */
  readonly requestMs?: number;
  /** Connections at once; further ones are closed unanswered, which `onError` gets. 10,000 by default. */
  readonly maxConnections?: number;
}

const HEADERS_TIMEOUT_MS = 20_000;
const REQUEST_TIMEOUT_MS = 120_000;
const MAX_CONNECTIONS = 10_000;

/** One report is enough for all connections that are refused within this time. */
const REFUSAL_MS = 60_000;

export interface Listening extends AsyncDisposable {
  readonly url: string;
  readonly server: Server;
}

/** Serves the handler over node:http. Disposing stops listening, lets responses end, then cuts them. */
export async function listen(
  handler: Handler,
  { host = '127.0.0.1', port = 0, closeMs = 2000, ...options }: ListenOptions = {},
): Promise<Listening> {
  const {
    headersMs = HEADERS_TIMEOUT_MS,
    requestMs = REQUEST_TIMEOUT_MS,
    maxConnections = MAX_CONNECTIONS,
    stallMs = STALL_MS,
  } = options;
  for (const [name, value] of Object.entries({ headersMs, requestMs, maxConnections, stallMs }))
    if (!(value > 0))
      throw new DuolaneError('invalid', `invalid ${name} "${value}": expected a positive number`);
  const server = createServer(
    {
      headersTimeout: Math.min(headersMs, requestMs),
      requestTimeout: requestMs,
      // How often Node looks for requests that are late.
      connectionsCheckingInterval: Math.max(10, Math.min(5_000, headersMs / 2)),
    },
    nodeHandler(handler, options),
  );
  server.keepAliveTimeout = 65_000;
  server.maxConnections = maxConnections;
  let refusedAt = -Infinity;
  server.on('drop', () => {
    if (performance.now() - refusedAt < REFUSAL_MS) return;
    refusedAt = performance.now();
    options.onError?.(
      new DuolaneError('rate_limited', `connections exceed maxConnections (${maxConnections})`),
    );
  });
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    throw listenError(error, host, port);
  }
  const { port: bound } = server.address() as AddressInfo;
  let responses = 0;
  let closed: Promise<void> | undefined;
  server.on('request', (_incoming, outgoing) => {
    responses++;
    outgoing.once('close', () => {
      responses--;
      if (closed) cutIfDone();
    });
  });
  // Not `closeIdleConnections`: a connection that has not asked anything yet is none of those.
  const cutIfDone = (): void => {
    if (responses === 0) server.closeAllConnections();
  };
  const close = async (): Promise<void> => {
    const ended = new Promise<void>((resolve) => server.close(() => resolve()));
    const timer = setTimeout(() => server.closeAllConnections(), closeMs);
    cutIfDone();
    await ended;
    clearTimeout(timer);
  };
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    server,
    [Symbol.asyncDispose]: () => (closed ??= close()),
  };
}

function listenError(error: unknown, host: string, port: number): DuolaneError {
  const code = (error as NodeJS.ErrnoException).code;
  if (code === 'EADDRINUSE') {
    return new DuolaneError(
      'invalid',
      `port ${port} on ${host} is in use; give another with --port`,
      {
        cause: error,
      },
    );
  }
  return new DuolaneError('invalid', `cannot listen on ${host}:${port} (${String(code)})`, {
    cause: error,
  });
}

async function serveOne(
  handler: Handler,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  options: WriteOptions,
  beginnings: HeaderBatcher,
  unsent: UnsentBytes,
): Promise<void> {
  const gone = new Cancellation();
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) gone.abort(CLIENT_DISCONNECTED);
  });
  outgoing.on('error', () => {}); // the close event says it
  const request = toRequest(incoming, gone);
  if (!request) {
    outgoing.writeHead(400, { 'content-type': 'text/plain' });
    outgoing.end(
      'The target, the Host header or the transfer coding of the request is not valid.\n',
    );
    return;
  }
  const response = await handler(request);
  const whole = responseText(response);
  if (whole !== undefined) {
    const fields = Object.fromEntries(response.headers);
    if (whole.length <= PIECE_BYTES) {
      outgoing.writeHead(response.status, {
        ...fields,
        'content-length': Buffer.byteLength(whole),
      });
      outgoing.end(whole);
      return;
    }
    // Not awaited here, where its text would be held beside its bytes.
    const head = { status: response.status, fields };
    return writeLong(head, Buffer.from(whole), outgoing, gone, options, unsent);
  }
  const stream = streamSource(response);
  if (stream) {
    outgoing.writeHead(stream.status, stream.fields);
    const begun = beginnings.begin(outgoing);
    const texts = stream.texts[Symbol.asyncIterator]();
    // A source that waits for its next event would learn only with that event that the client left.
    const unlisten = gone.onAbort(() => void texts.return?.().catch(options.onError));
    try {
      await untilGone(pipe(texts, outgoing, gone, options, begun), gone);
    } finally {
      unlisten();
      begun();
    }
  } else {
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    if (response.headers.get('content-type')?.startsWith('text/event-stream'))
      outgoing.flushHeaders();
    if (response.body) {
      const body = Readable.fromWeb(response.body as never);
      body.on('error', () => {}); // the loop over it throws it
      const unlisten = gone.onAbort(() => body.destroy());
      try {
        await untilGone(pipe(body[Symbol.asyncIterator](), outgoing, gone, options), gone);
      } finally {
        unlisten();
      }
    }
  }
  outgoing.end();
}

/** How long the headers of a stream wait for its first text, when other streams begin as well. */
const HEADERS_MS = 10;

/**
 * The streams of a server that have begun and said nothing yet. A stream may say nothing for long,
 * so who asked is told at once that it stands; but when many begin together, their headers wait a
 * moment for the first text: a write to a socket less is a tenth of what a short stream costs.
 */
class HeaderBatcher {
  #silent = 0;

  /** Sends the headers now or soon. Call what it gives with the first text, and at the end. */
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

/** Settles with the pipe, or when the client leaves: a source that never settles must not hold the response. */
function untilGone(piped: Promise<void>, gone: Cancellation): Promise<void> {
  return new Promise((resolve, reject) => {
    const unlisten = gone.onAbort(() => resolve());
    piped.then(resolve, reject).finally(unlisten);
  });
}

/** Writes as fast as the client reads; one that stays away too long is cut, which `onError` gets. */
async function pipe(
  source: AsyncIterator<string | Uint8Array>,
  outgoing: ServerResponse,
  gone: Cancellation,
  options: WriteOptions,
  begun: () => void = () => {},
): Promise<void> {
  let isOver = false;
  // In a function of its own: while the next chunk is waited for, a loop would hold the last one, which the client has.
  const writeNext = async (): Promise<boolean> => {
    const { done, value: chunk } = await source.next();
    isOver = done === true;
    if (isOver) return false;
    begun();
    if (gone.aborted) return false;
    if (chunk.length > PIECE_BYTES) return writePieces(chunk, outgoing, gone, options);
    return outgoing.write(chunk) || hasRoom(outgoing, gone, options);
  };
  try {
    while (await writeNext());
  } catch (error) {
    // A source that throws has ended by itself.
    isOver = true;
    throw error;
  } finally {
    if (!isOver) await source.return?.();
  }
}

/**
 * How much is written before we look whether the client reads. Of a long chunk every piece counts as
 * progress; otherwise a client on a slow line would be cut in the middle of it, each time it comes back.
 */
const PIECE_BYTES = 64 * 1024;

/** A whole answer, unless clients that do not read have the memory. */
async function writeLong(
  {
    status,
    fields,
  }: { readonly status: number; readonly fields: Readonly<Record<string, string>> },
  bytes: Uint8Array,
  outgoing: ServerResponse,
  gone: Cancellation,
  options: WriteOptions,
  unsent: UnsentBytes,
): Promise<void> {
  const sending = unsent.begin(bytes.length, () => {
    options.onError(
      new DuolaneError('overloaded', 'a client that did not read its answer was cut for others'),
    );
    outgoing.destroy();
  });
  if (!sending) {
    outgoing.writeHead(503, { 'content-type': 'text/plain', 'retry-after': '1' });
    outgoing.end('Too many long answers are on their way; try again later.\n');
    return;
  }
  try {
    outgoing.writeHead(status, { ...fields, 'content-length': bytes.length });
    const isSent = await writePieces(bytes, outgoing, gone, options, (count) =>
      sending.sent(count),
    );
    if (isSent) outgoing.end();
  } finally {
    sending.end();
  }
}

/** False if the client has left or was cut. */
async function writePieces(
  chunk: string | Uint8Array,
  outgoing: ServerResponse,
  gone: Cancellation,
  options: WriteOptions,
  onSent: (bytes: number) => void = () => {},
): Promise<boolean> {
  const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    if (gone.aborted) return false;
    const piece = bytes.subarray(at, at + PIECE_BYTES);
    if (!outgoing.write(piece) && !(await hasRoom(outgoing, gone, options))) return false;
    onSent(piece.length);
  }
  return true;
}

/** Waits for room; false if the client has left, or read nothing for too long and was cut. */
async function hasRoom(
  outgoing: ServerResponse,
  gone: Cancellation,
  { stallMs, onError }: WriteOptions,
): Promise<boolean> {
  if (await drained(outgoing, gone, stallMs)) return true;
  if (gone.aborted) return false;
  // Reported here and not thrown: the destroyed response ends `untilGone` before a throw would.
  onError(new DuolaneError('timeout', `a client read nothing for ${stallMs} ms and was cut`));
  outgoing.destroy();
  return false;
}

/** Whether there is room again, before the client leaves or the time is over. */
function drained(outgoing: ServerResponse, gone: Cancellation, stallMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const settle = (room: boolean): void => {
      clearTimeout(timer);
      unlisten();
      outgoing.off('drain', onDrain);
      resolve(room);
    };
    const onDrain = (): void => settle(true);
    const timer = setTimeout(() => settle(false), stallMs);
    const unlisten = gone.onAbort(() => settle(false));
    outgoing.once('drain', onDrain);
  });
}
