/**
 * gRPC over node:http2, for any protocol. A service is its methods: `methodOf(Service.method.name)`
 * of generated code, or a path and two codecs. Serve them with handlers that are functions and
 * generators, and call them:
 *
 *     const routes = [unary(method, handler), ...standardRoutes([Service])];
 *     const server = await listenGrpc(routes, { port });
 *     const client = new GrpcClient('grpc://127.0.0.1:50051');
 *     await client.unary(method, request, { signal, deadline, metadata });
 *     for await (const message of client.stream(method, { one: request })) …
 *
 * Everything is pulled: a slow reader slows its peer. Breaking out of a loop, or an abort, cancels
 * the call, and its handler's signal aborts. Errors are DuolaneErrors with their codes on both
 * sides; an error whose cause is a `GrpcStatus` has that status with its trailers and details.
 */
export type { CallContext } from './call.ts';
export { GrpcClient, type GrpcCallOptions, type GrpcClientOptions } from './client.ts';
export { type Detail, detailedStatus, detailsIn } from './error-details.ts';
export type { Metadata } from './metadata.ts';
export { type Codec, codecOf, type GrpcMethod, methodOf } from './method.ts';
export { bidiStream, clientStream, type GrpcRoute, serverStream, unary } from './route.ts';
export { type GrpcListening, listenGrpc, type ListenGrpcOptions } from './server.ts';
export { standardRoutes } from './standard-services.ts';
export { GrpcStatus, STATUS, STATUS_OF, statusOf } from './status.ts';
