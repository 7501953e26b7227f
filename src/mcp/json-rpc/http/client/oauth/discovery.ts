import { type DuolaneError, unauthorized } from '../../../../../errors.ts';
import type { JsonObject } from '../../../../../json.ts';
import type { Challenge } from './challenge.ts';
import { type Documents, urlIn } from './documents.ts';

/** Where to log in for a server. */
export interface Realm {
  readonly issuer: string;
  /** The resource that the token is for; `undefined` for a server that names none (2025-03-26). */
  readonly resource: string | undefined;
  /** The scopes that the server requires if a refusal names none. */
  readonly scope: string | undefined;
  readonly metadata: JsonObject;
}

/**
 * Finds out where to log in: the metadata of the server (RFC 9728) names the authorization server,
 * whose metadata (RFC 8414 or OpenID) names its endpoints. Each must describe itself: a server
 * whose metadata names another one is refused.
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
    throw oauthError(`the metadata of ${server.origin} describes ${String(resource)}`);
  const issuer: unknown = Array.isArray(servers) ? servers[0] : server.origin;
  if (typeof issuer !== 'string' || !URL.canParse(issuer))
    throw oauthError(`the metadata of ${server.origin} has no authorization server`);
  const metadata = await issuerMetadata(documents, issuer, true);
  if (!metadata) throw oauthError(`${issuer} has no metadata`);
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
  const urls =
    resourceMetadata !== undefined && URL.canParse(resourceMetadata)
      ? [resourceMetadata]
      : [`${server.origin}${name}${path}${server.search}`, `${server.origin}${name}`];
  for (const url of new Set(urls)) {
    const found = await documents.find(new URL(url));
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
  const urls = [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}/.well-known/openid-configuration${path}`,
    `${origin}${path}/.well-known/openid-configuration`,
  ];
  for (const url of new Set(urls)) {
    const found = await documents.find(new URL(url));
    if (!found) continue;
    if (strict ? found['issuer'] !== issuer : isForeign(found['issuer'], origin))
      throw oauthError(`the metadata of ${issuer} has another issuer: ${String(found['issuer'])}`);
    const methods = found['code_challenge_methods_supported'];
    if (urlIn(found, 'authorization_endpoint') && !supports(methods, 'S256'))
      throw oauthError(`${issuer} does not support PKCE with S256`);
    return found;
  }
  return undefined;
}

/**
 * Whether the metadata of an origin, by a server without a description (2025-03-26), names an
 * issuer elsewhere. Such a server could send the person to that issuer's login page, name itself as
 * the token endpoint, and so get the code with its verifier: the `iss` of the returned address is
 * compared with this issuer (RFC 8414, 3.3; RFC 9207). Metadata without an issuer is its own.
 */
const isForeign = (issuer: unknown, origin: string): boolean =>
  issuer !== undefined &&
  !(typeof issuer === 'string' && URL.canParse(issuer) && new URL(issuer).origin === origin);

/** The endpoints of servers without metadata, as defined by the revision 2025-03-26. */
const defaults = ({ origin }: URL): JsonObject => ({
  authorization_endpoint: `${origin}/authorize`,
  token_endpoint: `${origin}/token`,
  registration_endpoint: `${origin}/register`,
});

/** Whether a list of the metadata contains the value. */
export const supports = (list: unknown, value: string): boolean =>
  Array.isArray(list) && list.includes(value);

/**
 * Whether a token for the resource is valid for the server: the same origin, and the same path or
 * one above it.
 */
function covers(resource: string, { origin, pathname }: URL): boolean {
  if (!URL.canParse(resource)) return false;
  const known = new URL(resource);
  const base = known.pathname.replace(/\/$/, '');
  return known.origin === origin && (pathname === base || `${pathname}/`.startsWith(`${base}/`));
}

export const oauthError = (what: string): DuolaneError => unauthorized(`cannot log in: ${what}`);
