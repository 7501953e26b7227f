import {
  constants,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import { DuolaneError } from '../errors.ts';
import { Cancellation } from '../stream/cancellation.ts';
import type { Abortable } from '../stream/types.ts';
import { fromHeaders, type Metadata, toHeaders } from './metadata.ts';
import { Outbound } from './outbound.ts';
import { toTrailers } from './status.ts';
import { decodeTimeout } from './timeout.ts';

/** What a handler knows about its call. */
export interface CallContext extends Abortable {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** Aborts when the client cancels or leaves, the deadline passes, or the server closes. */
  readonly signal: AbortSignal;
  /** Unix ms, if the client set one. */
  readonly deadline: number | undefined;
  readonly metadata: Metadata;
  /** The address of the client. */
  readonly peer: string;
  /** What `authorize` gave. */
  readonly principal: unknown;
  /** Sent before the first message; once that is out, it throws `closed`. */
  setHeader(metadata: Metadata): void;
  /** Ends the call with `unauthorized` at this time (Unix ms), when what the caller has shown expires. */
  expireAt(time: number): void;
  /** Resolves when all that was sent has come to the client's end, or the call is over: a round trip. */
  delivered(): Promise<void>;
}

/** Longer than this no timer can run; such a deadline is none. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** What its server wants to know of a call. */
export interface CallHooks {
  readonly sent: () => void;
  readonly ended: () => void;
  /** The client read nothing for `stallMs`, and the call was cut. */
  readonly stalled: (error: DuolaneError) => void;
}

/** How long a client may take. */
export interface CallLimits {
  /** To read something of what waits for it. */
  readonly stallMs: number;
  /** To send one message. */
  readonly messageMs: number;
}

/**
 * One call on the server's side: its life, what it writes, and its one status. It is the
 * cancellation of its own handler, so that one who never looks at the signal does not pay for it.
 */
export class ServerCall extends Cancellation implements CallContext {
  readonly path: string;
  readonly stream: ServerHttp2Stream;
  readonly messageMs: number;
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
    { stallMs, messageMs }: CallLimits,
  ) {
    super();
    this.stream = stream;
    this.messageMs = messageMs;
    this.path = headers[':path'] ?? '';
    this.#headers = headers;
    this.#hooks = hooks;
    this.#outbound = new Outbound(stream, { stallMs, onStall: () => this.#cut(stallMs) });
    // What goes wrong on a stream is told by its close.
    stream.on('error', () => {});
    stream.on('close', () => {
      clearTimeout(this.#timer);
      clearTimeout(this.#expiry);
      this.#outbound.close();
      if (!this.#trailers) this.#abort(new DuolaneError('canceled', 'the client left the call'));
      hooks.ended();
    });
  }

  /** Begins the client's time limit; throws `malformed` for one that is none. */
  limit(): void {
    const timeout = this.#headers['grpc-timeout'];
    if (typeof timeout !== 'string') return;
    const ms = decodeTimeout(timeout);
    this.deadline = Date.now() + ms;
    if (ms > MAX_TIMER_MS) return;
    this.#timer = setTimeout(
      () => this.end(new DuolaneError('timeout', `the call of ${this.path} passed its deadline`)),
      ms,
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
      throw new DuolaneError('closed', 'the header of the call has been sent already');
    this.#header = { ...this.#header, ...toHeaders(metadata) };
  }

  expireAt(time: number): void {
    const ms = time - Date.now();
    if (this.#over || ms > MAX_TIMER_MS) return;
    const expire = (): void =>
      this.end(new DuolaneError('unauthorized', 'the credentials of the caller have expired'));
    clearTimeout(this.#expiry);
    this.#expiry = setTimeout(expire, ms);
  }

  /** `undefined` where there is room for more; rejects once the call is over. */
  send(message: Uint8Array): Promise<void> | undefined {
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
    // A ping is answered by the other end in order, behind all that went before it.
    await new Promise<void>((resolve) => {
      this.stream.once('close', resolve);
      const sent = session.ping(() => {
        this.stream.off('close', resolve);
        resolve();
      });
      // Too many are on their way, so the client is being waited for anyway.
      if (!sent) resolve();
    });
  }

  /** The one status of the call; only the first counts. An error also aborts the handler. */
  end(error?: unknown): void {
    if (this.#over) return;
    this.#trailers = error === undefined ? { 'grpc-status': 0 } : trailersOf(error);
    clearTimeout(this.#timer);
    clearTimeout(this.#expiry);
    if (error !== undefined) this.#abort(error);
    if (this.stream.headersSent) this.stream.end();
    else
      this.stream.respond(
        { ':status': 200, 'content-type': 'application/grpc', ...this.#header, ...this.#trailers },
        { endStream: true },
      );
    // A client that is still sending is told that nobody listens any more.
    if (!this.stream.readableEnded)
      this.stream.once('finish', () => this.stream.close(constants.NGHTTP2_NO_ERROR));
  }

  /** No status can reach a client that does not read, so the stream is reset. */
  #cut(stallMs: number): void {
    const error = new DuolaneError(
      'timeout',
      `${this.path} timed out after ${stallMs} ms: the client read nothing of the response`,
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

/** Never throws: trailers that no header can carry must not cost the call its one status. */
function trailersOf(error: unknown): OutgoingHttpHeaders {
  try {
    return toTrailers(error);
  } catch (cause) {
    return toTrailers(new DuolaneError('internal', 'the status has unusable trailers', { cause }));
  }
}
