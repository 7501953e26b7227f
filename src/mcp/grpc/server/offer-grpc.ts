import { createHash, timingSafeEqual } from 'node:crypto';
import { unauthorized } from '../../../errors.ts';
import {
  type CallContext,
  type GrpcListening,
  listenGrpc,
  type ListenGrpcOptions,
  type GrpcRoute,
  standardRoutes,
} from '../../../grpc/index.ts';
import type { ToolSource } from '../../types.ts';
import { Mcp, Tunnel } from '../gen/mcp/stream/v1/mcp_pb.ts';
import { Mcp as GoogleMcp } from '../gen/model_context_protocol/mcp_pb.ts';
import { googleRoutes } from './google-routes.ts';
import { mcpRoutes } from './mcp-routes.ts';
import { SHARED_TOKEN } from '../routing-metadata.ts';
import { type ServeTunnel, tunnelRoute } from '../tunnel.ts';

/** The options of `offerGrpc`. */
export interface OfferGrpcOptions extends Omit<ListenGrpcOptions, 'authorize'> {
  /**
   * The token that calls must send as `authorization: Bearer <token>`, or a check that throws to
   * refuse a call. A text that the check returns is the owner of the call, who alone finds its
   * tasks.
   */
  readonly token?: string | ((token: string | undefined, call: CallContext) => unknown);
  /**
   * Serves one client of the tunnel, which carries JSON-RPC unchanged: `tunnel: (transport) =>
   * serveMessages(source, transport)`. Without it the server has no tunnel.
   */
  readonly tunnel?: ServeTunnel;
}

/** The size limit of a message: the result of a tool may be large, and is one message. */
const MESSAGE_BYTES = 16 * 2 ** 20;

/**
 * Serves a source over gRPC on one port: the typed streaming service, the methods of Google's
 * `model_context_protocol.Mcp`, the tunnel if it is set, health and reflection. The source is
 * shared and stays open. Lists are pulled as the client reads: at most a batch and a window are
 * prepared ahead. A cancellation by the client reaches the source.
 */
export function offerGrpc(
  source: ToolSource,
  { token, tunnel, ...options }: OfferGrpcOptions = {},
): Promise<GrpcListening> {
  const services = [Mcp, GoogleMcp, ...(tunnel ? [Tunnel] : [])];
  return listenGrpc([...sourceRoutes(source, tunnel), ...standardRoutes(services)], {
    maxMessageBytes: MESSAGE_BYTES,
    ...options,
    ...(token !== undefined && { authorize: bearer(token) }),
  });
}

/** The routes of `offerGrpc` for a server that also serves others. */
export const sourceRoutes = (source: ToolSource, tunnel?: ServeTunnel): GrpcRoute[] => [
  ...mcpRoutes(source),
  ...googleRoutes(source),
  ...(tunnel ? [tunnelRoute(tunnel)] : []),
];

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

function bearer(
  token: NonNullable<OfferGrpcOptions['token']>,
): NonNullable<ListenGrpcOptions['authorize']> {
  const expected = typeof token === 'string' ? digest(token) : undefined;
  return (call) => {
    // Health checks need no token: whether the server runs is not secret.
    if (call.path.startsWith('/grpc.health.v1.')) return undefined;
    const { authorization } = call.metadata;
    const [, given] = /^Bearer (.+)$/i.exec(String(authorization ?? '')) ?? [];
    if (typeof token === 'function') return token(given, call);
    if (given !== undefined && expected && timingSafeEqual(digest(given), expected))
      return SHARED_TOKEN;
    throw unauthorized('missing or invalid token; send the metadata authorization: Bearer <token>');
  };
}
