import { invalid } from '../../../../errors.ts';
import { asObject, type JsonObject } from '../../../../json.ts';
import { refuseRequest } from './http-responses.ts';

/** The result of the check of a token: its owner and scopes, or an error as RFC 6750 names it. */
export type McpToken =
  | { readonly owner: string; readonly scopes: readonly string[] }
  | { readonly error: 'invalid_token' | 'insufficient_scope'; readonly description: string };

/** Who may use an MCP endpoint over HTTP: clients with a token of an authorization server. */
export interface McpAuthorization {
  /**
   * Checks a bearer token, its issuer and its audience. `tokenChecker` of `duolane/serve` checks
   * JWTs. An error that it throws is a failure of the server (HTTP 503).
   */
  readonly check: (token: string) => Promise<McpToken>;
  /** The issuers of tokens. Clients find them in the metadata of the endpoint (RFC 9728). */
  readonly authorizationServers: readonly string[];
  /** The address of the endpoint, as clients use it; that of the request by default. */
  readonly resource?: string;
  /** The scopes that every request needs. */
  readonly scopes?: readonly string[];
  /**
   * The further scopes that a message needs, such as a call of a tool that writes. A client whose
   * token lacks one is asked to log in again with more scopes (HTTP 403).
   */
  readonly scopesOf?: (method: string, params: JsonObject) => readonly string[];
}

const WELL_KNOWN = '/.well-known/oauth-protected-resource';

/** The owner of a request, and the check of each message that it carries. */
export interface AuthorizedRequest {
  readonly owner: string;
  /** Returns the error response if the token lacks a scope that the message needs. */
  refuse(message: JsonObject): Response | undefined;
}

/** Throws `invalid` for options that would let every client in, or none. */
export function checkAuthorization({ check, authorizationServers }: McpAuthorization): void {
  if (typeof check !== 'function')
    throw invalid('invalid authorization.check: expected a function');
  if (authorizationServers.length === 0)
    throw invalid('invalid authorization.authorizationServers: expected at least one issuer');
}

/** Checks the token of a request. Returns the error response, or who sent the request. */
export async function authorize(
  request: Request,
  authorization: McpAuthorization,
  onError: (error: unknown) => void,
): Promise<Response | AuthorizedRequest> {
  const { check, scopes = [], scopesOf } = authorization;
  const metadata = `resource_metadata="${metadataUrl(request, authorization)}"`;
  const challenge = (status: number, text: string, parameters: readonly string[]): Response => {
    const response = refuseRequest(status, text);
    const all = [...parameters, metadata].join(', ');
    response.headers.set('www-authenticate', `Bearer ${all}`);
    return response;
  };
  const scoped = (wanted: readonly string[]): string[] =>
    wanted.length > 0 ? [`scope="${wanted.join(' ')}"`] : [];
  const [, token] = /^Bearer (.+)$/i.exec(request.headers.get('authorization') ?? '') ?? [];
  if (token === undefined)
    return challenge(401, 'missing token; log in and send Authorization: Bearer', scoped(scopes));
  let found: McpToken;
  try {
    found = await check(token);
  } catch (error) {
    onError(error);
    const response = refuseRequest(503, 'the server cannot check tokens now; try again later');
    response.headers.set('retry-after', '5');
    return response;
  }
  const lacking = (granted: readonly string[], needed: readonly string[]): boolean =>
    needed.some((scope) => !granted.includes(scope));
  const insufficient = (needed: readonly string[]): Response =>
    challenge(403, 'the token lacks a required scope; log in again with more scopes', [
      'error="insufficient_scope"',
      ...scoped(needed),
    ]);
  if ('error' in found) {
    if (found.error === 'insufficient_scope') return insufficient(scopes);
    const { description } = found;
    return challenge(401, description, [
      'error="invalid_token"',
      `error_description="${description.replaceAll(/["\\]/g, "'")}"`,
      ...scoped(scopes),
    ]);
  }
  const { owner, scopes: granted } = found;
  if (lacking(granted, scopes)) return insufficient(scopes);
  return {
    owner,
    refuse(message) {
      const { method, params } = message;
      if (!scopesOf || typeof method !== 'string') return undefined;
      const needed = [...new Set([...scopes, ...scopesOf(method, asObject(params))])];
      return lacking(granted, needed) ? insufficient(needed) : undefined;
    },
  };
}

/** The document that names the authorization servers of an endpoint (RFC 9728). */
export const resourceDocument = (
  resource: string,
  { authorizationServers, scopes }: McpAuthorization,
): JsonObject => ({
  resource,
  authorization_servers: authorizationServers,
  bearer_methods_supported: ['header'],
  ...(scopes && { scopes_supported: scopes }),
});

/** The address of that document, for the challenge of a refused request. */
function metadataUrl(request: Request, { resource = request.url }: McpAuthorization): string {
  const { origin, pathname } = new URL(resource);
  return `${origin}${WELL_KNOWN}${pathname === '/' ? '' : pathname}`;
}

/** Serves that document, for a request at its path, with the endpoint at `path`. */
export function serveMetadata(
  request: Request,
  path: string,
  authorization: McpAuthorization,
): Response | undefined {
  const { pathname, origin } = new URL(request.url);
  const given = authorization.resource ?? `${origin}${path}`;
  const places = [WELL_KNOWN, WELL_KNOWN + path, WELL_KNOWN + new URL(given).pathname];
  if (request.method !== 'GET' || !places.includes(pathname)) return undefined;
  return Response.json(resourceDocument(given, authorization));
}
