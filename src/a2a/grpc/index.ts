/**
 * A2A over gRPC, both versions on one port: `serve(agent, { grpc: {} })` opens it beside HTTP, and the
 * client of `duolane/a2a` dials it where a card offers it. For a server of your own:
 *
 *     await using listening = await listenA2A(server, { port, authorize: ({ metadata }) => ownerOf(metadata) });
 *
 * with `server` of `a2aServer`, whose card names the address when it is told (`grpc: { url }`).
 */
export type { CallContext, GrpcListening, ListenGrpcOptions, Metadata } from '../../grpc/index.ts';
export { type FindAgent, type FoundAgent, listenA2A } from './server.ts';
