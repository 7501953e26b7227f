import { DuolaneError } from '../errors.ts';
import type { CallContext, ServerCall } from './call.ts';
import { Inbound, lateMessage, onlyMessage } from './inbound.ts';
import { decode, type GrpcMethod } from './method.ts';

/** A method with what serves it, for `listenGrpc`. */
export interface GrpcRoute {
  readonly path: string;
  /** Resolves when all is sent; what it throws becomes the status. */
  readonly serve: (call: ServerCall, maxMessageBytes: number) => Promise<void>;
}

/** One message in, one out. */
export const unary = <I, O>(
  method: GrpcMethod<I, O>,
  handler: (request: I, call: CallContext) => O | Promise<O>,
): GrpcRoute => ({
  path: method.path,
  async serve(call, maxMessageBytes) {
    const request = await only(call, maxMessageBytes);
    const response = await handler(decode(method.request, request, method.path), call);
    await call.send(method.response.encode(response));
  },
});

/**
 * One message in, any number out. The generator is pulled as fast as the client reads; when the
 * client leaves, its `return` is called, and a wait inside it ends by the signal.
 */
export const serverStream = <I, O>(
  method: GrpcMethod<I, O>,
  handler: (request: I, call: CallContext) => AsyncIterable<O>,
): GrpcRoute => ({
  path: method.path,
  async serve(call, maxMessageBytes) {
    const request = decode(method.request, await only(call, maxMessageBytes), method.path);
    await sendAll(method, call, handler(request, call));
  },
});

/** Any number in, one out. Leaving the requests early is fine: the client is told. */
export const clientStream = <I, O>(
  method: GrpcMethod<I, O>,
  handler: (requests: AsyncIterable<I>, call: CallContext) => O | Promise<O>,
): GrpcRoute => ({
  path: method.path,
  async serve(call, maxMessageBytes) {
    const response = await handler(requestsOf(method, call, maxMessageBytes), call);
    await call.send(method.response.encode(response));
  },
});

/** Any number each way, as they come. */
export const bidiStream = <I, O>(
  method: GrpcMethod<I, O>,
  handler: (requests: AsyncIterable<I>, call: CallContext) => AsyncIterable<O>,
): GrpcRoute => ({
  path: method.path,
  serve: (call, maxMessageBytes) =>
    sendAll(method, call, handler(requestsOf(method, call, maxMessageBytes), call)),
});

function only(call: ServerCall, maxMessageBytes: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(lateMessage(call.messageMs)), call.messageMs);
    call.onAbort((reason) => {
      clearTimeout(late);
      reject(reason);
    });
    onlyMessage(call.stream, maxMessageBytes, (message, error) => {
      clearTimeout(late);
      if (message) resolve(message);
      else reject(error ?? new DuolaneError('malformed', 'a unary call has one message, not none'));
    });
  });
}

async function sendAll<I, O>(
  method: GrpcMethod<I, O>,
  call: ServerCall,
  responses: AsyncIterable<O>,
): Promise<void> {
  for await (const response of responses) {
    if (call.aborted) throw call.reason;
    const room = call.send(method.response.encode(response));
    if (room) await room;
  }
}

async function* requestsOf<I, O>(
  method: GrpcMethod<I, O>,
  call: ServerCall,
  maxMessageBytes: number,
): AsyncGenerator<I, void, undefined> {
  const inbound = new Inbound(call.stream, maxMessageBytes, call.messageMs);
  call.stream.on('end', () => inbound.finish());
  call.onAbort((reason) => inbound.abort(reason));
  for await (const bytes of inbound) yield decode(method.request, bytes, method.path);
}
