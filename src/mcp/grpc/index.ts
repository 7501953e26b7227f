export type { ResourcePart } from './chunks.ts';
export { dialGrpc, type DialGrpcOptions, type GrpcSource, type ReadOptions } from './dial.ts';
export { offerGrpc, type OfferGrpcOptions, sourceRoutes } from './offer.ts';
export { openTunnel, type ServeTunnel, type TunnelOptions } from './tunnel.ts';
