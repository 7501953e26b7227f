import type { ClientHttp2Stream, IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http2';
import { DuolaneError, malformed } from '../errors.ts';
import { Cancellation } from '../stream/cancellation.ts';
import type { Abortable } from '../stream/types.ts';
import type { Connection } from './connection.ts';
import { encodeFrame } from './frames.ts';
import { Inbound, onlyMessage } from './inbound.ts';
import { type Metadata, toHeaders } from './metadata.ts';
import { Outbound } from './outbound.ts';
import { fromHttp, fromReset, fromTrailers } from './status.ts';
import { encodeTimeout, endAtDeadline } from './timeout.ts';

interface Beginning extends Abortable {
  readonly deadline?: number | undefined;
  readonly metadata: Metadata;
}

/** One call on the client. It is over when the server has sent its status, or when we cancel it. */
export class ClientCall {
  readonly #connection: Connection;
  readonly #path: string;
  readonly #deadline: number | undefined;
  readonly #stream: ClientHttp2Stream;
  readonly #caller = new Cancellation();
  readonly #unfollow: () => void;
  readonly #ended: () => void;
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #closed: Promise<void>;
  #outbound: Outbound | undefined;
  #header: IncomingHttpHeaders | undefined;
  #trailers: IncomingHttpHeaders | undefined;
  #settled = false;
  /**
   * Settles the pending reader. `drop` also discards messages that arrived before, because the
   * reader itself cancelled.
   */
  #settle: (error: unknown, drop: boolean) => void = (error) => (this.#early = { error });
  /** Why the call ended before its caller began to read: between the constructor and `only`. */
  #early: { readonly error: unknown } | undefined;

  /**
   * Begins a call. `ended` is called once. If the signal has aborted already, it throws the reason
   * and sends nothing.
   */
  constructor(
    connection: Connection,
    path: string,
    { deadline, metadata, signal }: Beginning,
    ended: () => void,
  ) {
    this.#connection = connection;
    this.#path = path;
    this.#deadline = deadline;
    this.#ended = ended;
    this.#unfollow = this.#caller.follow(signal && { signal });
    if (this.#caller.aborted) throw this.#caller.reason;
    const ms = deadline === undefined ? undefined : deadline - Date.now();
    if (ms !== undefined && ms <= 0) {
      this.#unfollow();
      throw late(path);
    }
    const headers: OutgoingHttpHeaders = {
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...toHeaders(metadata),
    };
    if (ms !== undefined) headers['grpc-timeout'] = encodeTimeout(ms);
    try {
      this.#stream = connection.request(headers);
    } catch (error) {
      this.#unfollow();
      throw notSent(path, error);
    }
    // Set after the stream exists: the deadline cancels the stream.
    this.#timer = endAtDeadline(deadline, () => this.cancel(late(path)));
    this.#listen();
    this.#caller.onAbort((reason) => this.cancel(reason));
    this.#closed = new Promise((resolve) => this.#stream.once('close', resolve));
  }

  sendLast(message: Uint8Array): void {
    if (!this.#settled) this.#stream.end(encodeFrame(message));
  }

  /**
   * Sends requests as fast as the server reads, independently of the responses. A source that
   * throws cancels the call.
   */
  sendAll<T>(requests: AsyncIterable<T>, encode: (request: T) => Uint8Array): void {
    const outbound = new Outbound(this.#stream);
    this.#outbound = outbound;
    const sending = async (): Promise<void> => {
      for await (const request of requests) {
        if (this.#settled) return;
        const room = outbound.send(encode(request));
        if (room) await room;
      }
      this.#stream.end();
    };
    sending().catch((error: unknown) => this.cancel(error));
  }

  /** Resolves with the only message of the response. */
  only(maxMessageBytes: number): Promise<Uint8Array> {
    if (this.#early) return Promise.reject(this.#early.error);
    return new Promise((resolve, reject) => {
      this.#settle = reject;
      onlyMessage(this.#stream, maxMessageBytes, (message, error) => {
        if (error !== undefined) this.cancel(error);
        else
          this.#atStatus((failure) => {
            if (failure) reject(failure);
            else if (message) resolve(message);
            else
              reject(
                malformed(`the server sent no response to ${this.#path}: expected one message`),
              );
          });
      });
    });
  }

  /**
   * The messages of the response. The loop ends when the call ends with status OK, and throws
   * otherwise.
   */
  messages(maxMessageBytes: number): AsyncIterable<Uint8Array> {
    const inbound = new Inbound(this.#stream, maxMessageBytes);
    this.#settle = (error, drop) => (drop ? inbound.abort(error) : inbound.fail(error));
    if (this.#early) inbound.abort(this.#early.error);
    this.#stream.on('end', () =>
      this.#atStatus((failure) => {
        if (failure) inbound.fail(failure);
        else inbound.finish();
      }),
    );
    return inbound;
  }

  /** Ends the call with `reason`, unless it has ended already. */
  cancel(reason: unknown): void {
    if (this.#settled) return;
    this.#over();
    this.#outbound?.fail(reason);
    this.#connection.reset(this.#stream);
    this.#settle(reason, true);
  }

  /** Cancels the call because its reader stopped. Resolves when the stream is closed. */
  dispose(): Promise<void> {
    this.cancel(new DuolaneError('canceled', `the reader of ${this.#path} stopped`));
    return this.#stream.destroyed ? Promise.resolve() : this.#closed;
  }

  #listen(): void {
    // 'close' follows the error and reports it.
    let broken: NodeJS.ErrnoException | undefined;
    this.#stream.on('error', (error) => (broken = error));
    this.#stream.on('response', (headers) => {
      this.#header = headers;
      if (headers['grpc-status'] !== undefined) this.#trailers = headers;
      // A response that is not gRPC ends the call; its body is not read.
      else if (headers[':status'] !== 200 || !isGrpc(headers))
        this.cancel(fromHttp(Number(headers[':status'])));
    });
    this.#stream.on('trailers', (headers) => (this.#trailers = headers));
    this.#stream.on('close', () => {
      if (!this.#settled && !this.#trailers) this.#lost(broken);
    });
  }

  /** Calls `run` when the status is known, which may be after the last byte. */
  #atStatus(run: (failure: unknown) => void): void {
    // Without a status, 'close' of the stream reports the reason.
    if (this.#settled || !this.#trailers) return;
    this.#over();
    this.#outbound?.fail(new DuolaneError('closed', `cannot send: ${this.#path} has ended`));
    run(fromTrailers(this.#trailers));
  }

  #lost(broken: NodeJS.ErrnoException | undefined): void {
    const { failure, gone } = this.#connection;
    const byPeer = !gone && (!broken || broken.code === 'ERR_HTTP2_STREAM_ERROR');
    const reset = this.#stream.rstCode ?? 0;
    // The server enforces the same deadline and may reset the call just before our timer fires.
    const isLate = byPeer && this.#deadline !== undefined && Date.now() >= this.#deadline;
    const error = isLate
      ? late(this.#path)
      : byPeer
        ? (reset === 0 && fromTrailers({})) || fromReset(reset)
        : unreachable(failure ?? broken, this.#header !== undefined);
    this.#over();
    this.#outbound?.fail(error);
    this.#settle(error, false);
  }

  #over(): void {
    this.#settled = true;
    clearTimeout(this.#timer);
    this.#unfollow();
    this.#ended();
  }
}

const isGrpc = (headers: IncomingHttpHeaders): boolean =>
  headers['content-type']?.startsWith('application/grpc') === true;

export const late = (path: string): DuolaneError =>
  new DuolaneError('timeout', `${path} timed out: its deadline has passed`);

/**
 * The error for a call that could not begin: the connection has just ended, or a header is invalid.
 */
function notSent(path: string, error: unknown): DuolaneError {
  const { code, message } = error as NodeJS.ErrnoException;
  const lost = code === 'ERR_HTTP2_INVALID_SESSION' || code === 'ERR_HTTP2_GOAWAY_SESSION';
  return new DuolaneError(lost ? 'network' : 'invalid', `cannot send ${path}: ${message}`, {
    cause: error,
  });
}

function unreachable(failure: Error | undefined, responded: boolean): DuolaneError {
  if (failure instanceof DuolaneError) return failure;
  const what = responded ? 'disconnected' : 'cannot be reached';
  const why = failure?.message ?? 'the connection ended';
  return new DuolaneError('network', `the gRPC server ${what}: ${why}`, { cause: failure });
}
