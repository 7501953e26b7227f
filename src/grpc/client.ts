import { setMaxListeners } from 'node:events';
import { DuolaneError } from '../errors.ts';
import { raceAbort } from '../stream/abort.ts';
import { Cancellation } from '../stream/cancellation.ts';
import { disposeOnce } from '../stream/dispose-once.ts';
import type { Abortable } from '../stream/types.ts';
import { ClientCall, late } from './client-call.ts';
import { type GrpcConnectOptions, GrpcConnections } from './connection.ts';
import type { Metadata } from './metadata.ts';
import { decode, type GrpcMethod } from './method.ts';
import { endAtDeadline } from './timeout.ts';

/** Options of a `GrpcClient`. */
export interface GrpcClientOptions extends GrpcConnectOptions {
  /**
   * Returns metadata for every call, such as `authorization`. Called each time, so it may change.
   */
  readonly metadata?: () => Metadata | Promise<Metadata>;
  /** A longer message of the server ends its call with `too_large`; 4 MiB by default. */
  readonly maxMessageBytes?: number;
}

/** Options of one call. */
export interface GrpcCallOptions extends Abortable {
  /**
   * Unix time in ms. It is sent to the server, and the call ends with `timeout` at that time in any
   * case.
   */
  readonly deadline?: number | undefined;
  readonly metadata?: Metadata;
}

const MESSAGE_BYTES = 4 * 2 ** 20;

/**
 * Calls methods of a server over gRPC. It connects with the first call, and again after a
 * connection has broken; it never repeats a call. A failure is a DuolaneError whose cause
 * (`statusOf`) has the status and the trailers. Disposing cancels the running calls and closes the
 * connections.
 */
export class GrpcClient implements AsyncDisposable {
  readonly #connections: GrpcConnections;
  readonly #options: GrpcClientOptions;
  readonly #maxMessageBytes: number;
  readonly #calls = new Set<ClientCall>();
  readonly #scope = new AbortController();

  /** `grpc://host:port`, or `grpcs://` for TLS. */
  constructor(url: string, options: GrpcClientOptions = {}) {
    this.#connections = new GrpcConnections(url, options);
    this.#options = options;
    this.#maxMessageBytes = options.maxMessageBytes ?? MESSAGE_BYTES;
    // One listener for each call that waits for its metadata.
    setMaxListeners(0, this.#scope.signal);
  }

  /** The number of running calls. */
  get calls(): number {
    return this.#calls.size;
  }

  /**
   * Sends one message and resolves with the response. An abort cancels the call and throws the
   * signal's reason immediately.
   */
  async unary<I, O>(
    method: GrpcMethod<I, O>,
    request: I,
    options: GrpcCallOptions = {},
  ): Promise<O> {
    // Encode first: if it throws, no stream must be open that waits for the message.
    const encoded = method.request.encode(request);
    const call = await this.#begin(method.path, options);
    call.sendLast(encoded);
    const message = await call.only(this.#maxMessageBytes);
    return decode(method.response, message, method.path);
  }

  /**
   * Yields the messages that the server sends, as fast as the reader pulls them. `requests` is one
   * message or a stream of them, pulled as fast as the server reads. Breaking out of the loop
   * cancels the call, and so does an abort, whose reason is thrown. Messages that arrived before a
   * failure are yielded first.
   */
  async *stream<I, O>(
    method: GrpcMethod<I, O>,
    requests: { readonly one: I } | { readonly many: AsyncIterable<I> },
    options: GrpcCallOptions = {},
  ): AsyncGenerator<O, void, undefined> {
    const call = await this.#begin(method.path, options);
    try {
      if ('one' in requests) call.sendLast(method.request.encode(requests.one));
      else call.sendAll(requests.many, (request) => method.request.encode(request));
      for await (const bytes of call.messages(this.#maxMessageBytes))
        yield decode(method.response, bytes, method.path);
    } finally {
      await call.dispose();
    }
  }

  /** Cancels the running calls and closes the connections. */
  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    const closed = new DuolaneError('closed', 'cannot call: the gRPC client is closed');
    this.#scope.abort(closed);
    for (const call of this.#calls) call.cancel(closed);
    await this.#connections.close();
  }

  async #begin(path: string, options: GrpcCallOptions): Promise<ClientCall> {
    options.signal?.throwIfAborted();
    const given = this.#options.metadata?.();
    const common = given instanceof Promise ? await this.#wait(given, path, options) : given;
    const metadata = { ...common, ...options.metadata };
    const call = new ClientCall(this.#connections.get(), path, { ...options, metadata }, () =>
      this.#calls.delete(call),
    );
    this.#calls.add(call);
    return call;
  }

  /**
   * Waits for the metadata. A token may take long or never come, so the call can be aborted, reach
   * its deadline, or end with this client meanwhile.
   */
  async #wait<T>(given: Promise<T>, path: string, options: GrpcCallOptions): Promise<T> {
    const stop = new Cancellation();
    const unfollow = [options, { signal: this.#scope.signal }].map((each) => stop.follow(each));
    const timer = endAtDeadline(options.deadline, () => stop.abort(late(path)));
    try {
      return await raceAbort(given, stop.signal);
    } finally {
      clearTimeout(timer);
      for (const each of unfollow) each();
    }
  }
}
