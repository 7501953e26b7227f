import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  type OutgoingHttpHeaders,
  type SecureClientSessionOptions,
} from 'node:http2';
import type { Socket } from 'node:net';
import { DuolaneError, invalid } from '../errors.ts';
import { reportUnexpected } from '../stream/report-unexpected.ts';
import { destroySession } from '../http/close-http2.ts';
import { pingWhileInUse, type KeepAliveOptions } from './keep-alive.ts';

/** Options of the connections of a client. */
export interface GrpcConnectOptions extends KeepAliveOptions {
  /** For `grpcs:`: trusted certificates, a client certificate, and further options of node:tls. */
  readonly tls?: Pick<
    SecureClientSessionOptions,
    'ca' | 'cert' | 'key' | 'passphrase' | 'servername' | 'rejectUnauthorized'
  >;
  /** How long connecting may take; 10 s by default. */
  readonly connectMs?: number;
  /**
   * How much a server may send ahead of the reader, per call; 256 KiB by default. Use more for
   * distant servers.
   */
  readonly windowBytes?: number;
}

/**
 * Servers close a connection with all of its calls when too many of them are cancelled; Node does
 * after 1,000 in a burst. So a connection carries at most `MAX_STREAMS` calls, and accepts no new
 * ones after `MAX_RESETS` cancels: even if all running calls are cancelled as well, it stays below
 * the limit.
 */
const MAX_STREAMS = 400;
const MAX_RESETS = 500;

const CONNECT_MS = 10_000;
/** How long a server may take to close its side of a connection that we have closed. */
const LINGER_MS = 1_000;
/**
 * The default of HTTP/2, 64 KiB, is four batches of a list: both sides then wait for each other
 * much of the time.
 */
const WINDOW_BYTES = 256 * 1024;
const CONNECTION_WINDOW_BYTES = 2 ** 20;

/** One connection to a server. It connects immediately, and never again. */
class Connection {
  readonly #session: ClientHttp2Session;
  /** The socket of the session, which ends its own use of it before the server does. */
  #socket: Pick<Socket, 'destroy'> | undefined;
  #open = 0;
  #resets = 0;
  /** Why the connection broke, if it did. */
  failure: Error | undefined;

  constructor(origin: string, options: GrpcConnectOptions) {
    const { connectMs = CONNECT_MS, windowBytes = WINDOW_BYTES } = options;
    const settings = { initialWindowSize: windowBytes };
    this.#session = connect(origin, { ...options.tls, settings, maxSessionMemory: 64 });
    const timer = setTimeout(
      () =>
        destroySession(this.#session, {
          error: new Error(`connecting timed out after ${connectMs} ms: no response of the server`),
        }),
      connectMs,
    );
    this.#session.once('connect', (_, socket) => {
      clearTimeout(timer);
      this.#socket = socket;
      // The session may have been closed meanwhile; setting the window would then throw uncaught.
      if (this.gone) return;
      this.#session.setLocalWindowSize(Math.max(windowBytes, CONNECTION_WINDOW_BYTES));
    });
    this.#session.once('close', () => clearTimeout(timer));
    this.#session.on('error', (error: Error) => (this.failure ??= error));
    pingWhileInUse(this.#session, () => this.#open > 0, options);
  }

  /** Whether the connection has ended or is ending: no new call may begin on it. */
  get gone(): boolean {
    return this.#session.closed || this.#session.destroyed;
  }

  /** Whether a call may begin now. */
  get takesMore(): boolean {
    return !this.gone && this.#resets < MAX_RESETS && this.#open < this.#maxStreams;
  }

  /** Whether no call will ever begin on it again. */
  get spent(): boolean {
    return this.gone || this.#resets >= MAX_RESETS;
  }

  request(headers: OutgoingHttpHeaders): ClientHttp2Stream {
    const stream = this.#session.request(headers);
    this.#open += 1;
    stream.once('close', () => {
      this.#open -= 1;
      if (this.#open === 0 && this.spent) this.close().catch(reportUnexpected);
    });
    return stream;
  }

  /** Cancels a call. All cancels go through here, because they are counted. */
  reset(stream: ClientHttp2Stream): void {
    if (stream.closed || stream.destroyed) return;
    this.#resets += 1;
    stream.close(8); // CANCEL
  }

  /**
   * Closes the connection, whose calls have ended or are cancelled. Node waits for the server to
   * close its side, without a limit, and `destroy` of a closed session has no effect, so a server
   * that takes too long loses the socket.
   */
  close(): Promise<void> {
    if (this.#session.destroyed) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        destroySession(this.#session, { socket: this.#socket });
      }, LINGER_MS);
      this.#session.once('close', () => {
        clearTimeout(timer);
        resolve();
      });
      this.#session.close();
    });
  }

  get #maxStreams(): number {
    const { maxConcurrentStreams = MAX_STREAMS } = this.#session.remoteSettings ?? {};
    return Math.min(MAX_STREAMS, maxConcurrentStreams);
  }
}

export type { Connection };

/** The connections to one server: one, until its limits or its end require another. */
export class GrpcConnections {
  readonly #origin: string;
  readonly #options: GrpcConnectOptions;
  readonly #connections = new Set<Connection>();
  #closed = false;

  constructor(url: string, options: GrpcConnectOptions) {
    const { protocol, host } = new URL(url);
    if (protocol !== 'grpc:' && protocol !== 'grpcs:')
      throw invalid(`invalid address "${url}": expected grpc://host:port or grpcs://host:port`);
    this.#origin = `${protocol === 'grpc:' ? 'http' : 'https'}://${host}`;
    this.#options = options;
  }

  /** Returns a connection on which a call may begin now. */
  get(): Connection {
    if (this.#closed) throw new DuolaneError('closed', 'the gRPC client was closed');
    for (const connection of this.#connections) {
      if (connection.takesMore) return connection;
      // A spent connection closes after its last call.
      if (connection.spent) this.#connections.delete(connection);
    }
    const fresh = new Connection(this.#origin, this.#options);
    this.#connections.add(fresh);
    return fresh;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#connections].map((connection) => connection.close()));
  }
}
