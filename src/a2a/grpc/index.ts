/**
 * A2A over gRPC, both versions on one port. `serve(agent, { grpc: {} })` opens it beside HTTP, and
 * the client of `duolane/a2a` uses it if the card offers it. For a server of your own, with
 * `server` of `a2aServer({ grpc: { url }, … })`, whose card then names the address:
 *
 *     const authorize = ({ metadata }) => ownerOf(metadata);
 *     await using listening = await listenA2A(server, { port, authorize });
 */
export type { CallContext, GrpcListening, ListenGrpcOptions, Metadata } from '../../grpc/index.ts';
export { type FindAgent, type FoundAgent, listenA2A } from './server.ts';
