import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  type OutgoingHttpHeaders,
  type SecureClientSessionOptions,
} from 'node:http2';
import { DuolaneError } from '../errors.ts';
import { reportUnexpected } from '../stream/report-unexpected.ts';
import { pingWhileInUse, type KeepAliveOptions } from './keep-alive.ts';

export interface GrpcConnectOptions extends KeepAliveOptions {
  /** For `grpcs:`: the certificates to trust, a client's own, and what else node:tls takes. */
  readonly tls?: Pick<
    SecureClientSessionOptions,
    'ca' | 'cert' | 'key' | 'passphrase' | 'servername' | 'rejectUnauthorized'
  >;
  /** How long a connection may take to be made; 10 s by default. */
  readonly connectMs?: number;
  /** What a server may send ahead of the reader, on each call; 256 KiB by default. More for far servers. */
  readonly windowBytes?: number;
}

/**
 * Servers cut a connection with all its calls when too many of them are cancelled: Node's after
 * 1,000 in a burst. So one connection carries no more calls than `MAX_STREAMS`, and takes no new
 * ones after `MAX_RESETS` cancels: even if all that run on it are cancelled too, it stays below.
 */
const MAX_STREAMS = 400;
const MAX_RESETS = 500;

const CONNECT_MS = 10_000;
/** HTTP/2's own 64 KiB are four batches of a list: both ends then wait for each other much of the time. */
const WINDOW_BYTES = 256 * 1024;
const CONNECTION_WINDOW_BYTES = 2 ** 20;

/** One connection to a server; made at once, and never made again. */
class Connection {
  readonly #session: ClientHttp2Session;
  #open = 0;
  #resets = 0;
  #failure: Error | undefined;

  constructor(origin: string, options: GrpcConnectOptions) {
    const { connectMs = CONNECT_MS, windowBytes = WINDOW_BYTES } = options;
    const settings = { initialWindowSize: windowBytes };
    this.#session = connect(origin, { ...options.tls, settings, maxSessionMemory: 64 });
    const timer = setTimeout(
      () => this.#session.destroy(new Error(`no answer for ${connectMs} ms`)),
      connectMs,
    );
    this.#session.once('connect', () => {
      clearTimeout(timer);
      // Closed while it connected: to set the window then throws, with no caller to catch it.
      if (this.gone) return;
      this.#session.setLocalWindowSize(Math.max(windowBytes, CONNECTION_WINDOW_BYTES));
    });
    this.#session.once('close', () => clearTimeout(timer));
    this.#session.on('error', (error: Error) => (this.#failure ??= error));
    pingWhileInUse(this.#session, () => this.#open > 0, options);
  }

  /** Why it broke, if it did. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Whether it has ended, or is about to: no new call may begin on it. */
  get gone(): boolean {
    return this.#session.closed || this.#session.destroyed;
  }

  get takesMore(): boolean {
    return !this.gone && this.#resets < MAX_RESETS && this.#open < this.#maxStreams;
  }

  /** Whether it will never take more. */
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

  /** Cancels a call: the one way to do it, since it counts. */
  reset(stream: ClientHttp2Stream): void {
    if (stream.closed || stream.destroyed) return;
    this.#resets += 1;
    stream.close(8); // CANCEL
  }

  /** Lets what runs end. */
  close(): Promise<void> {
    if (this.#session.destroyed) return Promise.resolve();
    return new Promise((resolve) => {
      this.#session.once('close', resolve);
      this.#session.close();
    });
  }

  get #maxStreams(): number {
    const { maxConcurrentStreams = MAX_STREAMS } = this.#session.remoteSettings ?? {};
    return Math.min(MAX_STREAMS, maxConcurrentStreams);
  }
}

export type { Connection };

/** The connections to one server: one, until its limits or its end ask for another. */
export class GrpcConnections {
  readonly #origin: string;
  readonly #options: GrpcConnectOptions;
  readonly #connections = new Set<Connection>();
  #closed = false;

  constructor(url: string, options: GrpcConnectOptions) {
    const { protocol, host } = new URL(url);
    if (protocol !== 'grpc:' && protocol !== 'grpcs:')
      throw new DuolaneError('invalid', `"${url}" is no address of gRPC: grpc://host:port`);
    this.#origin = `${protocol === 'grpc:' ? 'http' : 'https'}://${host}`;
    this.#options = options;
  }

  /** One that takes a call now. */
  get(): Connection {
    if (this.#closed) throw new DuolaneError('closed', 'the gRPC client was closed');
    for (const connection of this.#connections) {
      if (connection.takesMore) return connection;
      // A spent one closes itself after its last call.
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
