import { jsonResponse } from '../../http/text-response.ts';
import type { JwtAuth } from './jwt.ts';
import { httpRoute, type HttpRoute } from '../router.ts';

/** The path of the document that names the authorization servers of the MCP endpoint (RFC 9728). */
export const RESOURCE_PATH = '/.well-known/oauth-protected-resource/mcp';

/** Serves that document without credentials: a client without a token finds its issuer here. */
export const resourceRoute = (url: string, { issuer, scopes }: JwtAuth): HttpRoute =>
  httpRoute('GET', RESOURCE_PATH, () =>
    jsonResponse({
      resource: `${url}/mcp`,
      authorization_servers: [issuer],
      bearer_methods_supported: ['header'],
      ...(scopes && { scopes_supported: scopes }),
    }),
  );
