import type { ClientHttp2Stream, IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http2';
import { DuolaneError } from '../errors.ts';
import { Cancellation } from '../stream/cancellation.ts';
import type { Abortable } from '../stream/types.ts';
import type { Connection } from './connection.ts';
import { encodeFrame } from './frames.ts';
import { Inbound, onlyMessage } from './inbound.ts';
import { type Metadata, toHeaders } from './metadata.ts';
import { Outbound } from './outbound.ts';
import { fromHttp, fromReset, fromTrailers } from './status.ts';
import { encodeTimeout } from './timeout.ts';

interface Beginning extends Abortable {
  readonly deadline?: number | undefined;
  readonly metadata: Metadata;
}

const MAX_TIMER_MS = 2 ** 31 - 1;

/** Calls `run` at a Unix time in ms; a time that no timer can reach is none. */
export function endAtDeadline(
  deadline: number | undefined,
  run: () => void,
): NodeJS.Timeout | undefined {
  const ms = deadline === undefined ? Infinity : deadline - Date.now();
  return ms <= MAX_TIMER_MS ? setTimeout(run, ms) : undefined;
}

/** One call on the client's side. Over when the server has said its status, or we have cancelled. */
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
  /** Tells who waits; what came before is dropped if it is the reader who wants no more. */
  #settle: (error: unknown, drop: boolean) => void = (error) => (this.#early = { error });
  /** Why it ended before its caller listened: in the moment between its begin and `only`. */
  #early: { readonly error: unknown } | undefined;

  /** `ended` is called once. Throws the reason if the signal has aborted already: then nothing goes on the wire. */
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
    // Only now: a deadline of a call that has no stream would cancel what is not there.
    this.#timer = endAtDeadline(deadline, () => this.cancel(late(path)));
    this.#listen();
    this.#caller.onAbort((reason) => this.cancel(reason));
    this.#closed = new Promise((resolve) => this.#stream.once('close', resolve));
  }

  sendLast(message: Uint8Array): void {
    if (!this.#settled) this.#stream.end(encodeFrame(message));
  }

  /** Sends as the server reads, beside whatever is received; a source that throws cancels the call. */
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

  /** The only message of the answer. */
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
              reject(new DuolaneError('malformed', `${this.#path} ended well without a message`));
          });
      });
    });
  }

  /** The messages of the answer; the end of the loop is the call's good end. */
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

  /** Ends the call, unless it has ended; who waits for it gets the reason. */
  cancel(reason: unknown): void {
    if (this.#settled) return;
    this.#over();
    this.#outbound?.fail(reason);
    this.#connection.reset(this.#stream);
    this.#settle(reason, true);
  }

  /** The reader has gone. Resolves when nothing of the call is left here. */
  leave(): Promise<void> {
    this.cancel(new DuolaneError('canceled', `the call of ${this.#path} was left`));
    return this.#stream.destroyed ? Promise.resolve() : this.#closed;
  }

  #listen(): void {
    // What broke is told by the close, which comes after it.
    let broken: NodeJS.ErrnoException | undefined;
    this.#stream.on('error', (error) => (broken = error));
    this.#stream.on('response', (headers) => {
      this.#header = headers;
      if (headers['grpc-status'] !== undefined) this.#trailers = headers;
      // A call that was answered by something else than gRPC ends here; its body is of no use.
      else if (headers[':status'] !== 200 || !isGrpc(headers))
        this.cancel(fromHttp(Number(headers[':status'])));
    });
    this.#stream.on('trailers', (headers) => (this.#trailers = headers));
    this.#stream.on('close', () => {
      if (!this.#settled && !this.#trailers) this.#lost(broken);
    });
  }

  /** Calls back when the status is known, which may be after the last byte. */
  #atStatus(run: (failure: unknown) => void): void {
    // Without one, the close of the stream says why.
    if (this.#settled || !this.#trailers) return;
    this.#over();
    this.#outbound?.fail(new DuolaneError('closed', `${this.#path} has ended`));
    run(fromTrailers(this.#trailers));
  }

  #lost(broken: NodeJS.ErrnoException | undefined): void {
    const { failure, gone } = this.#connection;
    const byPeer = !gone && (!broken || broken.code === 'ERR_HTTP2_STREAM_ERROR');
    const reset = this.#stream.rstCode ?? 0;
    // A server that keeps the deadline too breaks the call off at the moment at which we would.
    const overdue = byPeer && this.#deadline !== undefined && Date.now() >= this.#deadline;
    const error = overdue
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
  new DuolaneError('timeout', `the call of ${path} passed its deadline`);

/** The connection ended a moment ago, or a header is one that HTTP/2 does not take. */
function notSent(path: string, error: unknown): DuolaneError {
  const { code, message } = error as NodeJS.ErrnoException;
  const lost = code === 'ERR_HTTP2_INVALID_SESSION' || code === 'ERR_HTTP2_GOAWAY_SESSION';
  return new DuolaneError(
    lost ? 'network' : 'invalid',
    `the call of ${path} was not sent: ${message}`,
    { cause: error },
  );
}

function unreachable(failure: Error | undefined, answered: boolean): DuolaneError {
  if (failure instanceof DuolaneError) return failure;
  const what = answered ? 'has gone' : 'cannot be reached';
  const why = failure?.message ?? 'the connection ended';
  return new DuolaneError('network', `the gRPC server ${what} (${why})`, { cause: failure });
}
