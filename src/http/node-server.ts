import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { DuolaneError } from '../errors.ts';
import { Cancellation } from '../stream/cancellation.ts';
import { CLIENT_DISCONNECTED, requestOwner, toRequest } from './node-request.ts';
import { ReceivedBytes } from './received-bytes.ts';
import { streamSource } from './sse-response.ts';
import { responseText } from './text-response.ts';
import { UnsentBytes } from './unsent-bytes.ts';
import {
  HeaderBatcher,
  PIECE_BYTES,
  pipe,
  untilDisconnect,
  writeLong,
  type WriteOptions,
} from './write-response.ts';

/**
 * A server as a function from a web Request to a Response. The request's signal aborts when the
 * client disconnects.
 */
export type Handler = (request: Request) => Promise<Response>;

/** Limits of the writing side, and who gets its errors. */
export interface NodeHandlerOptions {
  /**
   * How long a client may read nothing from a full socket before it is disconnected; 30 s by
   * default.
   */
  readonly stallMs?: number;
  /**
   * Called with errors that a handler threw, and with errors about clients that were disconnected.
   */
  readonly onError?: (error: unknown) => void;
  /**
   * Limit on the bytes of long responses, and of long chunks of streams, that clients have not read
   * yet, over all connections. Beyond it, clients that have stopped reading are disconnected; if
   * all of them read, the next long response is 503 with `Retry-After`, and a stream with a long
   * chunk is disconnected. A quarter of the heap by default, at least 64 MiB.
   */
  readonly maxUnsentBytes?: number;
  /**
   * Limit on the bytes of bodies over 64 KiB that are still arriving, over all connections. Beyond
   * it, the body that takes longest is refused with `overloaded`, which handlers turn into 503. An
   * eighth of the heap by default, at least 64 MiB.
   */
  readonly maxReceivingBytes?: number;
}

const STALL_MS = 30_000;

/**
 * Requests of one connection that wait for the response before theirs; with more, it is closed.
 * They wait, because the responses to all of them would be in memory until the first one is read.
 */
const MAX_PIPELINED = 100;

/** Their bytes. Each may have 16 KiB of headers and as much of a body, which Node has read. */
const MAX_PIPELINED_BYTES = 64 * 1024;

/**
 * Converts a handler to a listener of node:http, which is also a route of Express. If
 * `express.json()` has read the body already, that body is used. Writes as fast as the client
 * reads, and buffers at most one chunk per client.
 *
 * @example
 * ```ts
 * createServer(nodeHandler(async (request) => new Response(request.url))).listen(8080);
 * ```
 */
export function nodeHandler(
  handler: Handler,
  {
    stallMs = STALL_MS,
    onError = () => {},
    maxUnsentBytes,
    maxReceivingBytes,
  }: NodeHandlerOptions = {},
): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  const headerBatcher = new HeaderBatcher();
  const received = new ReceivedBytes(maxReceivingBytes);
  const options = { stallMs, onError, unsent: new UnsentBytes(maxUnsentBytes) };
  const begin = (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    void serveOne(handler, incoming, outgoing, options, headerBatcher, received).catch(
      (error: unknown) => {
        onError(error);
        if (outgoing.headersSent) {
          // A response that failed must not look complete, so its connection is closed. Data that
          // was written before is sent first.
          outgoing.socket?.setTimeout(stallMs, () => outgoing.destroy());
          outgoing.socket?.destroySoon();
          return;
        }
        outgoing.writeHead(500, { 'content-type': 'text/plain' });
        outgoing.end();
      },
    );
  };
  const pipelined = new WeakMap<Socket, { waiting: number; readonly from: number }>();
  return (incoming, outgoing) => {
    // A response gets its socket when those before it on the connection are written.
    if (outgoing.socket !== null) return begin(incoming, outgoing);
    const { socket } = incoming;
    const queue = pipelined.get(socket) ?? { waiting: 0, from: socket.bytesRead };
    pipelined.set(socket, queue);
    queue.waiting += 1;
    if (queue.waiting > MAX_PIPELINED || socket.bytesRead - queue.from > MAX_PIPELINED_BYTES) {
      socket.destroy();
      return;
    }
    outgoing.once('socket', () => {
      queue.waiting -= 1;
      if (queue.waiting === 0) pipelined.delete(socket);
      begin(incoming, outgoing);
    });
  };
}

/** The address and the limits of a server. */
export interface ListenOptions extends NodeHandlerOptions {
  readonly host?: string;
  readonly port?: number;
  /** How long open responses may take to end when the server is disposed; then they are aborted. */
  readonly closeMs?: number;
  /**
   * How long a client may take to send the headers of a request; then it gets 408. 20 s by default.
   */
  readonly headersMs?: number;
  /**
   * How long a client may take to send a complete request; then it gets 408. 2 minutes by default.
   */
  readonly requestMs?: number;
  /**
   * Maximum number of open connections. Further ones are closed without a response, which `onError`
   * reports. 10,000 by default.
   */
  readonly maxConnections?: number;
}

const HEADERS_TIMEOUT_MS = 20_000;
const REQUEST_TIMEOUT_MS = 120_000;
const MAX_CONNECTIONS = 10_000;

/** Connections that are refused within this time are reported once. */
const REFUSAL_MS = 60_000;

/** A listening server; disposing it closes it. */
export interface Listening extends AsyncDisposable {
  readonly url: string;
  readonly server: Server;
}

/**
 * Serves the handler over node:http. Disposing stops listening, lets open responses end, and aborts
 * those that take longer than `closeMs`.
 *
 * @example
 * ```ts
 * await using server = await listen(async () => Response.json({ ok: true }), { port: 8080 });
 * console.log(server.url);
 * ```
 */
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
      // How often Node checks for requests that exceed their time.
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
      if (closed) closeIfIdle();
    });
  });
  // `closeIdleConnections` is not enough: it does not close a connection that never sent a request.
  const closeIfIdle = (): void => {
    if (responses === 0) server.closeAllConnections();
  };
  const close = async (): Promise<void> => {
    const ended = new Promise<void>((resolve) => server.close(() => resolve()));
    const timer = setTimeout(() => server.closeAllConnections(), closeMs);
    closeIfIdle();
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
  const { code } = error as NodeJS.ErrnoException;
  const inUse = 'the port is in use; use another one (--port)';
  const why = code === 'EADDRINUSE' ? inUse : String(code);
  return new DuolaneError('invalid', `cannot listen on ${host}:${port}: ${why}`, { cause: error });
}

async function serveOne(
  handler: Handler,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  given: WriteOptions,
  headerBatcher: HeaderBatcher,
  received: ReceivedBytes,
): Promise<void> {
  const disconnect = new Cancellation();
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) disconnect.abort(CLIENT_DISCONNECTED);
  });
  outgoing.on('error', () => {}); // 'close' follows.
  const request = toRequest(incoming, disconnect, received);
  if (!request) {
    outgoing.writeHead(400, { 'content-type': 'text/plain' });
    outgoing.end(
      'Invalid request: expected a valid target, one Host header and no transfer coding but chunked.\n',
    );
    return;
  }
  const response = await handler(request);
  const options = { ...given, owner: requestOwner(request) };
  const known = responseText(response);
  if (known) {
    const { text, fields } = known;
    if (text.length <= PIECE_BYTES) {
      outgoing.writeHead(response.status, {
        ...fields,
        'content-length': Buffer.byteLength(text),
      });
      outgoing.end(text);
      return;
    }
    // Returned, not awaited: this frame would keep the text in memory beside its bytes.
    const head = { status: response.status, fields };
    return writeLong(head, Buffer.from(text), outgoing, disconnect, options);
  }
  const stream = streamSource(response);
  if (stream) {
    outgoing.writeHead(stream.status, stream.fields);
    const onFirstText = headerBatcher.begin(outgoing);
    const texts = stream.texts[Symbol.asyncIterator]();
    // A source that waits for its next event would only notice the disconnect at that event.
    const unlisten = disconnect.onAbort(() => void texts.return?.().catch(options.onError));
    try {
      await untilDisconnect(pipe(texts, outgoing, disconnect, options, onFirstText), disconnect);
    } finally {
      unlisten();
      onFirstText();
    }
  } else {
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    if (response.headers.get('content-type')?.startsWith('text/event-stream'))
      outgoing.flushHeaders();
    if (response.body) {
      const body = Readable.fromWeb(response.body as never);
      body.on('error', () => {}); // the loop over the body throws it
      const unlisten = disconnect.onAbort(() => body.destroy());
      try {
        await untilDisconnect(
          pipe(body[Symbol.asyncIterator](), outgoing, disconnect, options),
          disconnect,
        );
      } finally {
        unlisten();
      }
    }
  }
  outgoing.end();
}
