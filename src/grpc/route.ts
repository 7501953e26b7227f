import { malformed } from '../errors.ts';
import type { CallContext, ServerCall } from './call.ts';
import { Inbound, messageTimeout, onlyMessage } from './inbound.ts';
import { decode, type GrpcMethod } from './method.ts';

/** A method with its handler, for `listenGrpc`. */
export interface GrpcRoute {
  readonly path: string;
  /** Resolves when everything is sent; an error that it throws becomes the status. */
  readonly serve: (call: ServerCall, maxMessageBytes: number) => Promise<void>;
}

/** A method with one request and one response. */
export const unary = <I, O>(
  method: GrpcMethod<I, O>,
  handler: (request: I, call: CallContext) => O | Promise<O>,
): GrpcRoute => ({
  path: method.path,
  async serve(call, maxMessageBytes) {
    // Not in a variable: the handler may wait long, and a frame keeps its variables meanwhile.
    const response = await handler(
      decode(method.request, await only(call, maxMessageBytes), method.path),
      call,
    );
    await call.send(method.response.encode(response));
  },
});

/**
 * A method with one request and any number of responses. The generator is pulled as fast as the
 * client reads; when the client disconnects, its `return` is called, and a wait inside it must end
 * by the signal.
 */
export const serverStream = <I, O>(
  method: GrpcMethod<I, O>,
  handler: (request: I, call: CallContext) => AsyncIterable<O>,
): GrpcRoute => ({
  path: method.path,
  async serve(call, maxMessageBytes) {
    // Not in a variable: see `unary`.
    await sendAll(
      method,
      call,
      handler(decode(method.request, await only(call, maxMessageBytes), method.path), call),
    );
  },
});

/**
 * A method with any number of requests and one response. The handler may stop reading requests
 * early: the stream of the client is then reset after the response.
 */
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

/** A method with any number of requests and responses, independent of each other. */
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
    const late = setTimeout(() => reject(messageTimeout(call.messageMs)), call.messageMs);
    call.onAbort((reason) => {
      clearTimeout(late);
      reject(reason);
    });
    const settle = (message: Uint8Array | undefined, error: unknown): void => {
      clearTimeout(late);
      if (message) resolve(message);
      else reject(error ?? malformed('the client sent no message in a unary call: expected one'));
    };
    onlyMessage(call.stream, maxMessageBytes, settle, call.receiving);
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
  const inbound = new Inbound(call.stream, maxMessageBytes, call.messageMs, call.receiving);
  call.stream.on('end', () => inbound.finish());
  call.onAbort((reason) => inbound.abort(reason));
  for await (const bytes of inbound) yield decode(method.request, bytes, method.path);
}
