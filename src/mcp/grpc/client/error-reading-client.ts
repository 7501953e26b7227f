import { type GrpcCallOptions, GrpcClient, type GrpcMethod } from '../../../grpc/index.ts';
import { LARGE_ERRORS, LargeError, withLargeErrors } from '../codec/large-errors.ts';

/** A client that throws the errors that a server sends as messages, because of their size. */
export class ErrorReadingClient extends GrpcClient {
  override async unary<I, O>(
    method: GrpcMethod<I, O>,
    request: I,
    options?: GrpcCallOptions,
  ): Promise<O> {
    const response = await super.unary(withLargeErrors(method), request, accepting(options));
    if (response instanceof LargeError) throw response.toError();
    return response;
  }

  override async *stream<I, O>(
    method: GrpcMethod<I, O>,
    requests: Parameters<GrpcClient['stream']>[1] & { readonly one?: I },
    options?: GrpcCallOptions,
  ): AsyncGenerator<O, void, undefined> {
    const of = withLargeErrors(method);
    for await (const response of super.stream(of, requests as never, accepting(options))) {
      if (response instanceof LargeError) throw response.toError();
      yield response;
    }
  }
}

const accepting = (options: GrpcCallOptions = {}): GrpcCallOptions => ({
  ...options,
  metadata: { ...options.metadata, [LARGE_ERRORS]: '1' },
});
