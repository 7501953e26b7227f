export type { ResourcePart } from './codec/resource-chunks.ts';
export {
  dialGrpc,
  type DialGrpcOptions,
  type GrpcSource,
  type GrpcReadOptions,
} from './client/dial-grpc.ts';
export { offerGrpc, type OfferGrpcOptions, sourceRoutes } from './server/offer-grpc.ts';
export { openTunnel, type ServeTunnel, type TunnelOptions } from './tunnel.ts';
export { GrpcClientTransport, sdkTunnel, type TunnelServer } from './sdk-transport.ts';
