import {
  type CallContext,
  type GrpcMethod,
  type GrpcRoute,
  serverStream,
  unary,
} from '../../../grpc/index.ts';
import { mapErrors, toGrpcError } from '../codec/grpc-errors.ts';

/** A unary method of a source, whose errors become the status of the call. */
export const unaryRoute = <I, O>(
  method: GrpcMethod<I, O>,
  handler: (request: I, call: CallContext) => Promise<O>,
): GrpcRoute =>
  unary(method, async (request, call) => {
    try {
      return await handler(request, call);
    } catch (error) {
      throw toGrpcError(error);
    }
  });

/** A streaming method of a source, whose errors become the status of the call. */
export const streamRoute = <I, O>(
  method: GrpcMethod<I, O>,
  handler: (request: I, call: CallContext) => AsyncIterable<O>,
): GrpcRoute =>
  serverStream(method, (request, call) => mapErrors(() => handler(request, call), toGrpcError));
