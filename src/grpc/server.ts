import { once } from 'node:events';
import {
  createSecureServer,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type SecureServerOptions,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { DuolaneError, invalid, toPublicFailure, unsupported } from '../errors.ts';
import type { Abortable } from '../stream/types.ts';
import { onAbort } from '../stream/abort.ts';
import { disposeOnce } from '../stream/dispose-once.ts';
import { reportUnexpected } from '../stream/report-unexpected.ts';
import { ReceivedBytes } from '../http/received-bytes.ts';
import { UnsentBytes } from '../http/unsent-bytes.ts';
import { type CallContext, type CallHooks, type CallLimits, ServerCall } from './call.ts';
import { destroySession } from '../http/close-http2.ts';
import { pingWhileInUse, type KeepAliveOptions, limitPings } from './keep-alive.ts';
import type { GrpcRoute } from './route.ts';
import type { StandardOptions } from './standard-services.ts';

/** The address, the credentials and the limits of a gRPC server. */
export interface ListenGrpcOptions extends Abortable, KeepAliveOptions, StandardOptions {
  readonly host?: string;
  readonly port?: number;
  /**
   * Serves over TLS: `key` and `cert` in PEM, and further options of node:tls. Without it,
   * cleartext.
   */
  readonly tls?: Pick<SecureServerOptions, 'key' | 'cert' | 'ca' | 'requestCert' | 'passphrase'>;
  /**
   * Called before every call: throw to reject it (`unauthorized`); its result is `call.principal`.
   */
  readonly authorize?: (call: CallContext) => unknown;
  /** A longer message of a client ends its call with `too_large`; 4 MiB by default. */
  readonly maxMessageBytes?: number;
  /**
   * Maximum number of calls on one connection; a client waits or opens another. 1,000 by default.
   */
  readonly maxStreams?: number;
  /**
   * Maximum number of calls on all connections; the next one is `rate_limited`. 20,000 by default.
   * If `authorize` returns a string, callers with the same one have at most half of them.
   */
  readonly maxCalls?: number;
  /**
   * Maximum number of connections; further ones are closed without a response. 10,000 by default.
   */
  readonly maxConnections?: number;
  /**
   * How long a client may read nothing of waiting data before its call is reset; 30 s by default.
   */
  readonly stallMs?: number;
  /**
   * Bytes of responses over 16 KiB that wait for clients, of all calls together; the next one fails
   * with `overloaded`. A quarter of the heap limit by default, at least 64 MiB.
   */
  readonly maxUnsentBytes?: number;
  /**
   * Bytes of messages over 64 KiB that are still arriving, of all calls together. Beyond it, the
   * call whose message takes longest fails with `overloaded`. An eighth of the heap limit by
   * default, at least 64 MiB.
   */
  readonly maxReceivingBytes?: number;
  /**
   * How long a client may take to send one message; then its call ends with `timeout`. 60 s by
   * default.
   */
  readonly messageMs?: number;
  /**
   * A connection without calls for this long is closed; clients open another. 5 minutes by default.
   */
  readonly idleMs?: number;
  /**
   * How long open calls may take to end when the server is disposed; then they are aborted. 2 s by
   * default.
   */
  readonly closeMs?: number;
  /**
   * Called with errors of handlers whose message the client does not get, such as `internal` and
   * `network`; with clients that were disconnected (`timeout`); with connections that were refused
   * (`rate_limited`). By default, errors of handlers are warnings of the process.
   */
  readonly onError?: (error: unknown) => void;
}

/** A listening gRPC server; disposing it closes it. */
export interface GrpcListening extends AsyncDisposable {
  /** `grpc://host:port`, or `grpcs://`. */
  readonly url: string;
  /** The number of running calls. */
  readonly calls: number;
}

/** The limits, which must be positive, and their defaults. Some have theirs where they apply. */
const LIMITS = {
  maxMessageBytes: 4 * 2 ** 20,
  maxStreams: 1_000,
  maxCalls: 20_000,
  maxConnections: 10_000,
  maxWatches: undefined,
  stallMs: 30_000,
  maxUnsentBytes: undefined,
  maxReceivingBytes: undefined,
  messageMs: 60_000,
  idleMs: 300_000,
};

/** How long a client may take for the TLS handshake. */
const HANDSHAKE_MS = 10_000;

/** Connections that are refused within this time are reported once. */
const REFUSAL_MS = 60_000;

/**
 * How many cancels Node allows a peer before it closes the connection. The default, a burst of
 * 1,000 and then 33 per second, is too little for a busy client of ours. Node 20 has no such
 * options; there our client spreads its cancels over several connections.
 */
const RESETS = { streamResetBurst: 10_000, streamResetRate: 1_000 };

/**
 * How much all streams of a connection may have in flight together; one stream has the 64 KiB of
 * HTTP/2.
 */
const CONNECTION_WINDOW_BYTES = 2 ** 20;

/**
 * Serves methods over gRPC until it is disposed. Then it accepts no more calls, lets running ones
 * end for `closeMs`, and aborts the rest with `closed`. Every call gets exactly one status.
 */
export async function listenGrpc(
  routes: Iterable<GrpcRoute>,
  { host = '127.0.0.1', port = 0, signal, ...options }: ListenGrpcOptions = {},
): Promise<GrpcListening> {
  signal?.throwIfAborted();
  for (const name of Object.keys(LIMITS)) checkPositive(name, options[name as keyof typeof LIMITS]);
  const table = new Map([...routes].map((route) => [route.path, route]));
  const settings = { maxConcurrentStreams: options.maxStreams ?? LIMITS.maxStreams };
  const common = { settings, maxSessionMemory: 64, ...RESETS };
  const server: Http2Server = options.tls
    ? createSecureServer({ ...common, handshakeTimeout: HANDSHAKE_MS, ...options.tls })
    : createServer(common);
  const connections = new ServerConnections(table, options);
  server.maxConnections = options.maxConnections ?? LIMITS.maxConnections;
  server.on('drop', () => connections.refused(server.maxConnections));
  // The session of a socket begins in the next listener of the same event.
  server.prependListener(options.tls ? 'secureConnection' : 'connection', (socket: Socket) => {
    connections.arriving = socket;
  });
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.on('session', (session) => connections.connected(session));
  server.on('stream', (stream, headers) => connections.take(stream, headers));
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw invalid(`cannot listen on ${host}:${port}: ${String(code)}`, cause);
  }
  const { port: bound } = server.address() as AddressInfo;
  // Assigned below, because the signal may have aborted while the port was opened.
  let unlisten = (): void => {};
  const dispose = disposeOnce(async () => {
    unlisten();
    const ended = new Promise((resolve) => server.close(resolve));
    await connections.close(options.closeMs ?? 2_000);
    // Connections without a session, in the TLS handshake.
    for (const socket of sockets) socket.destroy();
    await ended;
  });
  unlisten = onAbort(signal, () => {
    dispose().catch(reportUnexpected);
  });
  return {
    url: `grpc${options.tls ? 's' : ''}://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    get calls() {
      return connections.calls.size;
    },
    [Symbol.asyncDispose]: dispose,
  };
}

/** The state of one connection. */
interface Client {
  /**
   * Destroyed after its session: Node ends a session, waits for the client to close its side of the
   * socket, and meanwhile ignores `destroy` of the session.
   */
  readonly socket: Socket | undefined;
  calls: number;
  /** When its last call ended, by the monotonic clock. */
  idleSince: number;
  readonly spoke: () => void;
}

function checkPositive(name: string, value: number | undefined): void {
  if (value === undefined || (typeof value === 'number' && value > 0)) return;
  throw invalid(`invalid ${name} "${String(value)}": expected a positive number`);
}

class ServerConnections {
  readonly calls: Set<ServerCall> = new Set();
  /** The socket of the session that is about to begin. */
  arriving: Socket | undefined;
  readonly #table: ReadonlyMap<string, GrpcRoute>;
  readonly #options: ListenGrpcOptions;
  readonly #sessions = new Map<ServerHttp2Session, Client>();
  readonly #maxMessageBytes: number;
  readonly #limits: CallLimits;
  readonly #maxCalls: number;
  /** The running calls of each principal. */
  readonly #principals = new Map<string, number>();
  readonly #sweeper: NodeJS.Timeout;
  #refusedAt = -Infinity;

  constructor(table: ReadonlyMap<string, GrpcRoute>, options: ListenGrpcOptions) {
    this.#table = table;
    this.#options = options;
    this.#maxMessageBytes = options.maxMessageBytes ?? LIMITS.maxMessageBytes;
    this.#limits = {
      stallMs: options.stallMs ?? LIMITS.stallMs,
      messageMs: options.messageMs ?? LIMITS.messageMs,
      unsent: new UnsentBytes(options.maxUnsentBytes),
      received: new ReceivedBytes(options.maxReceivingBytes),
    };
    this.#maxCalls = options.maxCalls ?? LIMITS.maxCalls;
    const idleMs = options.idleMs ?? LIMITS.idleMs;
    this.#sweeper = setInterval(() => this.#sweep(idleMs), idleMs / 2).unref();
  }

  /** Reports a connection beyond the limit, which the operating system has closed already. */
  refused(maxConnections: number): void {
    if (performance.now() - this.#refusedAt < REFUSAL_MS) return;
    this.#refusedAt = performance.now();
    this.#options.onError?.(
      new DuolaneError('rate_limited', `connections exceed maxConnections (${maxConnections})`),
    );
  }

  #sweep(idleMs: number): void {
    const before = performance.now() - idleMs;
    for (const [session, { calls, idleSince, socket }] of this.#sessions) {
      if (calls > 0 || idleSince > before) continue;
      // The client of a session that was closed at the last sweep does not read, or keeps its side
      // of the socket open.
      if (session.closed) destroySession(session, { socket });
      else session.close();
    }
  }

  connected(session: ServerHttp2Session): void {
    const client: Client = {
      socket: this.arriving,
      calls: 0,
      idleSince: performance.now(),
      spoke: limitPings(session),
    };
    this.#sessions.set(session, client);
    session.once('close', () => this.#sessions.delete(session));
    session.on('error', () => {}); // each of its calls gets 'close' of its stream
    session.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
    pingWhileInUse(session, () => client.calls > 0, this.#options);
  }

  take(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const type = headers['content-type'];
    if (headers[':method'] !== 'POST' || !/^application\/grpc($|[+;])/.test(type ?? '')) {
      stream.on('error', () => {});
      stream.respond({ ':status': headers[':method'] === 'POST' ? 415 : 405 }, { endStream: true });
      return;
    }
    const client = this.#sessions.get(stream.session as ServerHttp2Session);
    const isFull = this.calls.size >= this.#maxCalls;
    const hooks: CallHooks = {
      sent: () => client?.spoke(),
      stalled: (error) => this.#options.onError?.(error),
      ended: () => {
        this.calls.delete(call);
        this.#release(call);
        if (!client) return;
        client.calls -= 1;
        client.idleSince = performance.now();
      },
    };
    const call = new ServerCall(stream, headers, hooks, this.#limits);
    this.calls.add(call);
    if (client) client.calls += 1;
    if (isFull) {
      call.end(
        new DuolaneError('rate_limited', `calls exceed maxCalls (${this.#maxCalls}); retry later`),
      );
      return;
    }
    this.#serve(call, headers).then(
      () => call.end(),
      (error: unknown) => {
        if (toPublicFailure(error, 'peer').withheld)
          (this.#options.onError ?? reportUnexpected)(error);
        call.end(error);
      },
    );
  }

  async #serve(call: ServerCall, headers: IncomingHttpHeaders): Promise<void> {
    call.limit();
    const route = this.#table.get(call.path);
    if (!route) throw unsupported(`unknown method "${call.path}"`);
    const encoding = headers['grpc-encoding'];
    if (encoding !== undefined && encoding !== 'identity')
      throw unsupported(
        `unsupported grpc-encoding "${String(encoding)}": compression is not supported; turn it off`,
      );
    const { authorize } = this.#options;
    if (authorize) {
      const principal = authorize(call);
      this.#admit(call, principal instanceof Promise ? await principal : principal);
    }
    await route.serve(call, this.#maxMessageBytes);
  }

  /** Counts the calls of a principal: one caller must not take those of all others. */
  #admit(call: ServerCall, principal: unknown): void {
    // The call may have ended during the check of its credentials, and is never released then.
    if (call.aborted) throw call.reason;
    if (typeof principal === 'string') {
      const count = this.#principals.get(principal) ?? 0;
      const most = Math.ceil(this.#maxCalls / 2);
      if (count >= most)
        throw new DuolaneError(
          'rate_limited',
          `calls of one caller exceed half of maxCalls (${most}); retry later`,
        );
      this.#principals.set(principal, count + 1);
    }
    call.principal = principal;
  }

  #release({ principal }: ServerCall): void {
    if (typeof principal !== 'string') return;
    const rest = (this.#principals.get(principal) ?? 1) - 1;
    if (rest > 0) this.#principals.set(principal, rest);
    else this.#principals.delete(principal);
  }

  async close(closeMs: number): Promise<void> {
    clearInterval(this.#sweeper);
    const closed = new DuolaneError('closed', 'the server is closing');
    const ended = Promise.all([...this.#sessions.keys()].map(ending));
    const cut = setTimeout(() => {
      for (const call of this.calls) call.end(closed);
      // Time to send the status; the session of a client that does not read it is destroyed.
      last = setTimeout(() => {
        for (const [session, { socket }] of this.#sessions) destroySession(session, { socket });
      }, 200);
    }, closeMs);
    let last: NodeJS.Timeout | undefined;
    await ended;
    clearTimeout(cut);
    clearTimeout(last);
  }
}

const ending = (session: ServerHttp2Session): Promise<void> =>
  new Promise((resolve) => {
    if (session.destroyed) return resolve();
    session.once('close', resolve);
    session.close();
  });
