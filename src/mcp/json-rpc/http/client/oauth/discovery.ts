import { DuolaneError } from '../../../../../errors.ts';
import type { JsonObject } from '../../../../../json.ts';
import type { Challenge } from './challenge.ts';
import { type Documents, urlIn } from './documents.ts';

/** Where to log in for a server, as far as the login goes. */
export interface Realm {
  readonly issuer: string;
  /** What the token is to be good for; undefined for a server that does not say (2025-03-26). */
  readonly resource: string | undefined;
  /** The scopes that the server wants if a refusal names none. */
  readonly scope: string | undefined;
  readonly metadata: JsonObject;
}

/**
 * Finds out where to log in: the server's own metadata (RFC 9728) names the authorization server,
 * whose metadata (RFC 8414 or OpenID) names its endpoints. Both must speak of themselves: a server
 * that sends us to another's is refused.
 */
export async function discoverServer(
  documents: Documents,
  server: URL,
  challenge: Challenge,
): Promise<Realm> {
  const described = await describedResource(documents, server, challenge);
  if (!described) {
    const metadata = await issuerMetadata(documents, server.origin, false);
    return {
      issuer: server.origin,
      resource: undefined,
      scope: undefined,
      metadata: metadata ?? defaults(server),
    };
  }
  const { resource, authorization_servers: servers, scopes_supported: scopes } = described;
  if (typeof resource !== 'string' || !covers(resource, server))
    throw oauthError(`${server.href} describes itself as ${String(resource)}, which it is not`);
  const issuer: unknown = Array.isArray(servers) ? servers[0] : server.origin;
  if (typeof issuer !== 'string' || !URL.canParse(issuer))
    throw oauthError(`${server.href} names no authorization server`);
  const metadata = await issuerMetadata(documents, issuer, true);
  if (!metadata) throw oauthError(`${issuer} does not say how to log in there`);
  const scope = Array.isArray(scopes) && scopes.length > 0 ? scopes.join(' ') : undefined;
  return { issuer, resource, scope, metadata };
}

async function describedResource(
  documents: Documents,
  server: URL,
  { resourceMetadata }: Challenge,
): Promise<JsonObject | undefined> {
  const name = '/.well-known/oauth-protected-resource';
  const path = server.pathname === '/' ? '' : server.pathname;
  const places =
    resourceMetadata !== undefined && URL.canParse(resourceMetadata)
      ? [resourceMetadata]
      : [`${server.origin}${name}${path}${server.search}`, `${server.origin}${name}`];
  for (const place of new Set(places)) {
    const found = await documents.find(new URL(place));
    if (found) return found;
  }
  return undefined;
}

async function issuerMetadata(
  documents: Documents,
  issuer: string,
  strict: boolean,
): Promise<JsonObject | undefined> {
  const { origin, pathname } = new URL(issuer);
  const path = pathname === '/' ? '' : pathname.replace(/\/$/, '');
  const places = [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}/.well-known/openid-configuration${path}`,
    `${origin}${path}/.well-known/openid-configuration`,
  ];
  for (const place of new Set(places)) {
    const found = await documents.find(new URL(place));
    if (!found) continue;
    if (strict && found['issuer'] !== issuer)
      throw oauthError(`${issuer} calls itself ${String(found['issuer'])}, which it is not`);
    const methods = found['code_challenge_methods_supported'];
    if (urlIn(found, 'authorization_endpoint') && !supports(methods, 'S256'))
      throw oauthError(`${issuer} does not protect its codes (PKCE with S256)`);
    return found;
  }
  return undefined;
}

/** The endpoints that the revision 2025-03-26 gave to servers without any metadata. */
const defaults = ({ origin }: URL): JsonObject => ({
  authorization_endpoint: `${origin}/authorize`,
  token_endpoint: `${origin}/token`,
  registration_endpoint: `${origin}/register`,
});

export const supports = (list: unknown, value: string): boolean =>
  Array.isArray(list) && list.includes(value);

/** Whether a token for the resource is one for the server: the same origin, the same path or below. */
function covers(resource: string, { origin, pathname }: URL): boolean {
  if (!URL.canParse(resource)) return false;
  const known = new URL(resource);
  const base = known.pathname.replace(/\/$/, '');
  return known.origin === origin && (pathname === base || `${pathname}/`.startsWith(`${base}/`));
}

export const oauthError = (what: string): DuolaneError =>
  new DuolaneError('unauthorized', `the login cannot be trusted: ${what}`);
