import { setMaxListeners } from 'node:events';
import { DuolaneError } from '../errors.ts';
import { onAbort } from '../stream/abort.ts';
import { disposeOnce } from '../stream/dispose-once.ts';
import type { Abortable } from '../stream/types.ts';
import { endAtDeadline, ClientCall, late } from './client-call.ts';
import { type GrpcConnectOptions, GrpcConnections } from './connection.ts';
import type { Metadata } from './metadata.ts';
import { decode, type GrpcMethod } from './method.ts';

export interface GrpcClientOptions extends GrpcConnectOptions {
  /** Sent with every call: an `authorization`, say. Asked for each time, so that it may change. */
  readonly metadata?: () => Metadata | Promise<Metadata>;
  /** A longer message of the server ends its call with `too_large`; 4 MiB by default. */
  readonly maxMessageBytes?: number;
}

export interface GrpcCallOptions extends Abortable {
  /** Unix ms: the server is told, and at that time the call ends with `timeout`, whatever it says. */
  readonly deadline?: number | undefined;
  readonly metadata?: Metadata;
}

const MESSAGE_BYTES = 4 * 2 ** 20;

/**
 * Calls methods of a server over gRPC. Connects with the first call, and again after a connection
 * has broken; nothing is repeated by itself. A failure is a DuolaneError whose cause (`statusOf`)
 * has the status and the trailers. Disposing lets no new call begin and waits for those that run.
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
    setMaxListeners(0, this.#scope.signal); // one for each call that waits for its metadata
  }

  /** Calls that run now. */
  get calls(): number {
    return this.#calls.size;
  }

  /** One message each way. An abort cancels the call and throws the signal's reason at once. */
  async unary<I, O>(
    method: GrpcMethod<I, O>,
    request: I,
    options: GrpcCallOptions = {},
  ): Promise<O> {
    // First: if it cannot be encoded, there must be no open stream that waits for it.
    const encoded = method.request.encode(request);
    const call = await this.#begin(method.path, options);
    call.sendLast(encoded);
    const message = await call.only(this.#maxMessageBytes);
    return decode(method.response, message, method.path);
  }

  /**
   * What the server sends, pulled: behind a slow reader the server waits. `requests` is one message
   * or a stream of them, pulled as fast as the server reads. Leaving the loop cancels the call, and
   * so does an abort, whose reason is thrown. Messages that came before a failure come first.
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
      await call.leave();
    }
  }

  /** Cancels what runs. */
  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    const closed = new DuolaneError('closed', 'the gRPC client was closed');
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

  /** A token may take long or never come: the call can be left, or this client closed, meanwhile. */
  async #wait<T>(given: Promise<T>, path: string, options: GrpcCallOptions): Promise<T> {
    const waiting = new AbortController();
    const abort = (reason: unknown): void => waiting.abort(reason);
    const unlisten = [options.signal, this.#scope.signal].map((signal) => onAbort(signal, abort));
    const timer = endAtDeadline(options.deadline, () => abort(late(path)));
    try {
      return await Promise.race([
        given,
        new Promise<never>((_, reject) => onAbort(waiting.signal, reject)),
      ]);
    } finally {
      clearTimeout(timer);
      for (const stop of unlisten) stop();
    }
  }
}
