import {
  constants,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import { DuolaneError, unauthorized } from '../errors.ts';
import { Cancellation } from '../stream/cancellation.ts';
import type { Abortable } from '../stream/types.ts';
import { resetStream } from '../http/close-http2.ts';
import { fromHeaders, type Metadata, toHeaders } from './metadata.ts';
import { type ReceivedBytes, type Receiving, receivingTooMuch } from '../http/received-bytes.ts';
import type { UnsentBytes } from '../http/unsent-bytes.ts';
import { Outbound } from './outbound.ts';
import { toTrailers } from './status.ts';
import { decodeTimeout, endAtDeadline } from './timeout.ts';

/** What a handler can read about its call, and do with it. */
export interface CallContext extends Abortable {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** Aborts when the client cancels or disconnects, the deadline passes, or the server closes. */
  readonly signal: AbortSignal;
  /** Unix time in ms, if the client set a deadline. */
  readonly deadline: number | undefined;
  readonly metadata: Metadata;
  /** The address of the client. */
  readonly peer: string;
  /** The value that `authorize` returned. */
  readonly principal: unknown;
  /** Adds headers that are sent before the first message. Throws `closed` once that is sent. */
  setHeader(metadata: Metadata): void;
  /**
   * Ends the call with `unauthorized` at this time (Unix ms), when the credentials of the caller
   * expire.
   */
  expireAt(time: number): void;
  /**
   * Resolves when everything sent so far has reached the client, or the call is over. Takes a round
   * trip.
   */
  delivered(): Promise<void>;
}

/** What a call reports to its server. */
export interface CallHooks {
  readonly sent: () => void;
  readonly ended: () => void;
  /** The client read nothing for `stallMs`, and the call was reset. */
  readonly stalled: (error: DuolaneError) => void;
}

/** What a client may take. */
export interface CallLimits {
  /** To read some of the data that waits for it. */
  readonly stallMs: number;
  /** To send one complete message. */
  readonly messageMs: number;
  /** What waits for all clients of the server together. */
  readonly unsent: UnsentBytes;
  /** What has arrived of incomplete messages, of all calls of the server together. */
  readonly received: ReceivedBytes;
}

/**
 * One call on the server: its lifetime, its writes and its one status. It is itself the
 * cancellation of its handler, so that a handler that never reads `signal` does not pay for an
 * AbortSignal.
 */
export class ServerCall extends Cancellation implements CallContext {
  readonly path: string;
  readonly stream: ServerHttp2Stream;
  readonly messageMs: number;
  /** Counts the message that is arriving. */
  readonly receiving: Receiving;
  readonly #headers: IncomingHttpHeaders;
  readonly #hooks: CallHooks;
  readonly #outbound: Outbound;
  #metadata: Metadata | undefined;
  #header: OutgoingHttpHeaders | undefined;
  #trailers: OutgoingHttpHeaders | undefined;
  #timer: NodeJS.Timeout | undefined;
  #expiry: NodeJS.Timeout | undefined;
  deadline: number | undefined;
  principal: unknown;

  constructor(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    hooks: CallHooks,
    { stallMs, messageMs, unsent, received }: CallLimits,
  ) {
    super();
    this.stream = stream;
    this.messageMs = messageMs;
    this.receiving = received.begin(() => this.end(receivingTooMuch()));
    this.path = headers[':path'] ?? '';
    this.#headers = headers;
    this.#hooks = hooks;
    this.#outbound = new Outbound(stream, {
      stallMs,
      unsent,
      owner: () => (typeof this.principal === 'string' ? this.principal : undefined),
      onStall: (ms) => this.#cut(ms),
    });
    // 'close' follows every error of a stream.
    stream.on('error', () => {});
    stream.on('close', () => {
      clearTimeout(this.#timer);
      clearTimeout(this.#expiry);
      this.#outbound.close();
      this.receiving.end();
      if (!this.#trailers)
        this.#abort(new DuolaneError('canceled', 'the client canceled the call or disconnected'));
      hooks.ended();
    });
  }

  /** Starts the timeout that the client set. Throws `malformed` if its header is invalid. */
  limit(): void {
    const timeout = this.#headers['grpc-timeout'];
    if (typeof timeout !== 'string') return;
    this.deadline = Date.now() + decodeTimeout(timeout);
    const message = `${this.path} timed out: the deadline of the client has passed`;
    this.#timer = endAtDeadline(this.deadline, () =>
      this.end(new DuolaneError('timeout', message)),
    );
  }

  get metadata(): Metadata {
    return (this.#metadata ??= fromHeaders(this.#headers));
  }

  get peer(): string {
    const { remoteAddress, remotePort } = this.stream.session?.socket ?? {};
    return `${remoteAddress}:${remotePort}`;
  }

  setHeader(metadata: Metadata): void {
    if (this.stream.headersSent)
      throw new DuolaneError(
        'closed',
        'cannot set a header: the headers of the call have been sent already',
      );
    this.#header = { ...this.#header, ...toHeaders(metadata) };
  }

  expireAt(time: number): void {
    if (this.#over) return;
    clearTimeout(this.#expiry);
    this.#expiry = endAtDeadline(time, () =>
      this.end(unauthorized('the credentials of the caller have expired')),
    );
  }

  /**
   * Sends a message. Returns `undefined` if the stream accepts more; otherwise a promise, which
   * rejects if the call ends. Throws `overloaded` if clients leave too much unread.
   */
  send(message: Uint8Array): Promise<void> | undefined {
    if (!this.#over) this.#outbound.admit(message);
    if (!this.stream.headersSent && !this.#over) {
      this.stream.respond(
        { ':status': 200, 'content-type': 'application/grpc', ...this.#header },
        { waitForTrailers: true },
      );
      this.stream.on('wantTrailers', () => this.stream.sendTrailers(this.#trailers ?? {}));
    }
    this.#hooks.sent();
    return this.#outbound.send(message);
  }

  async delivered(): Promise<void> {
    await this.#outbound.flushed();
    const { session } = this.stream;
    if (this.#over || !session || session.destroyed) return;
    // The peer acknowledges a ping in order, after everything that was sent before it.
    await new Promise<void>((resolve) => {
      this.stream.once('close', resolve);
      const sent = session.ping(() => {
        this.stream.off('close', resolve);
        resolve();
      });
      // Too many pings are pending, so the client is being waited for anyway.
      if (!sent) resolve();
    });
  }

  /**
   * Ends the call with its one status; only the first call counts. An error also aborts the
   * handler.
   */
  end(error?: unknown): void {
    if (this.#over) return;
    this.#trailers = error === undefined ? { 'grpc-status': 0 } : trailersOf(error);
    clearTimeout(this.#timer);
    clearTimeout(this.#expiry);
    this.receiving.end();
    if (error !== undefined) this.#abort(error);
    if (this.stream.headersSent) this.stream.end();
    else
      this.stream.respond(
        { ':status': 200, 'content-type': 'application/grpc', ...this.#header, ...this.#trailers },
        { endStream: true },
      );
    // Reset the stream of a client that is still sending: nothing reads its messages any more.
    if (!this.stream.readableEnded)
      this.stream.once('finish', () => resetStream(this.stream, constants.NGHTTP2_NO_ERROR));
  }

  /** Resets the stream: a status cannot reach a client that does not read. */
  #cut(ms: number): void {
    const error = new DuolaneError(
      'timeout',
      `${this.path} timed out after ${ms} ms: the client read nothing of the response`,
    );
    this.#hooks.stalled(error);
    this.#abort(error);
    this.stream.close(constants.NGHTTP2_CANCEL);
  }

  get #over(): boolean {
    return this.#trailers !== undefined || this.stream.destroyed || this.stream.closed;
  }

  #abort(reason: unknown): void {
    this.abort(reason);
    this.#outbound.fail(reason);
  }
}

/**
 * Converts an error to trailers and never throws: trailers that are invalid as headers must not
 * prevent the one status of the call.
 */
function trailersOf(error: unknown): OutgoingHttpHeaders {
  try {
    return toTrailers(error);
  } catch (cause) {
    return toTrailers(
      new DuolaneError('internal', 'the trailers of the status are invalid as HTTP headers', {
        cause,
      }),
    );
  }
}
