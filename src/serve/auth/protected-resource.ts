import type { JwtAuth } from './jwt.ts';
import type { HttpRoute } from '../router.ts';

/** Where the MCP endpoint says who gives tokens for it (RFC 9728). */
export const RESOURCE_PATH = '/.well-known/oauth-protected-resource/mcp';

/** Anyone may read it: a client without a token is sent here to find out where to get one. */
export const resourceRoute = (url: string, { issuer, scopes }: JwtAuth): HttpRoute => ({
  method: 'GET',
  path: RESOURCE_PATH,
  handle: () =>
    Response.json({
      resource: `${url}/mcp`,
      authorization_servers: [issuer],
      bearer_methods_supported: ['header'],
      ...(scopes && { scopes_supported: scopes }),
    }),
});
