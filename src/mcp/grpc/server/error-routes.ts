import {
  type CallContext,
  type GrpcMethod,
  type GrpcRoute,
  serverStream,
  unary,
} from '../../../grpc/index.ts';
import { toGrpcError } from '../codec/grpc-errors.ts';
import {
  LARGE_ERRORS,
  type LargeError,
  largeErrorOf,
  withLargeErrors,
} from '../codec/large-errors.ts';

/** The error as a message, if it is too large for trailers and the client reads such messages. */
const asMessage = (error: unknown, { metadata }: CallContext): LargeError | undefined =>
  metadata[LARGE_ERRORS] === '1' ? largeErrorOf(error) : undefined;

/** A unary method of a source, whose errors become the status of the call. */
export const unaryRoute = <I, O>(
  method: GrpcMethod<I, O>,
  handler: (request: I, call: CallContext) => Promise<O>,
): GrpcRoute =>
  unary(withLargeErrors(method), async (request, call) => {
    try {
      return await handler(request, call);
    } catch (error) {
      const message = asMessage(error, call);
      if (message) return message;
      throw toGrpcError(error);
    }
  });

/** A streaming method of a source, whose errors become the status of the call. */
export const streamRoute = <I, O>(
  method: GrpcMethod<I, O>,
  handler: (request: I, call: CallContext) => AsyncIterable<O>,
): GrpcRoute =>
  serverStream(withLargeErrors(method), async function* (request, call) {
    try {
      yield* handler(request, call);
    } catch (error) {
      const message = asMessage(error, call);
      if (message) yield message;
      throw toGrpcError(error);
    }
  });
