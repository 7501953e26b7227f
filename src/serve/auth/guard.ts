import type { SecurityScheme } from '../../a2a/index.ts';
import { DuolaneError } from '../../errors.ts';
import { headerOf, urlOf } from '../../http/node-request.ts';
import { isLoopback } from './loopback.ts';
import { openIdUrl, tokenChecker, type TokenResult, type JwtAuth } from './jwt.ts';
import { RESOURCE_PATH } from './protected-resource.ts';
import {
  bearerOf,
  checkOwner,
  ownerOf,
  readApiKeys,
  secretSchemes,
  type ApiKeys,
  type Secrets,
} from './shared-secrets.ts';
import { textResponse } from '../../http/text-response.ts';

/** How callers authenticate. If several are set, one of them is enough. */
export interface Auth {
  /** Callers send `Authorization: Bearer <secret>`. */
  readonly bearer?: Secrets;
  /** Callers send `<header>: <key>`, by default `X-API-Key`. */
  readonly apiKey?: ApiKeys;
  /** Callers send `Authorization: Bearer <token>`, with a token of this issuer. */
  readonly jwt?: JwtAuth;
  /** Returns the owner, or undefined to refuse the request. An error is a failure of the server. */
  readonly verify?: (request: Request) => Promise<string | undefined>;
}

/** Decides whether a request may pass, and which owner it belongs to. */
export type Guard = (request: Request, options?: GuardedRequest) => Promise<Passed>;

export interface GuardedRequest {
  /** The path needs no credentials. */
  readonly open?: boolean;
  /** The owner of the login session, if the request carries a valid cookie. */
  readonly owner?: string | undefined;
}

/** The decision of the guard. */
export interface Passed {
  readonly owner?: string;
  /** Unix ms: when the credentials expire, if they do. */
  readonly until?: number;
  /** The owner comes from the login session; the request itself had no credentials. */
  readonly signedIn?: boolean;
  /** The error response, if the request is refused. */
  readonly response?: Response;
}

export interface AuthGuardOptions {
  /** The address at which callers reach this server, if it differs from its own. */
  readonly publicUrl?: string;
  /** Whether pages of another origin may send requests. */
  readonly isAllowed?: (origin: string) => boolean;
  /** Gets the reason why a token could not be checked, which is withheld from callers. */
  readonly onError?: (error: unknown) => void;
}

/**
 * Creates the guard of a server. Throws `invalid` for an address beyond this machine without
 * `auth`, so that a server that can approve actions is not opened by accident. Requests that are
 * `open` (a card, a health check) need no credentials.
 */
export function createGuard(
  host: string,
  auth: Auth = {},
  { publicUrl, isAllowed = () => false, onError = () => {} }: AuthGuardOptions = {},
): Guard {
  const schemes = secretSchemes(auth.bearer, auth.apiKey);
  const { verify } = auth;
  const check = auth.jwt && tokenChecker(auth.jwt);
  // Owners share one namespace: the token of an issuer must not name the holder of a secret.
  const holders = new Set(schemes.flatMap(({ owners }) => owners.map(({ owner }) => owner)));
  const known = publicUrl === undefined ? undefined : new URL(publicUrl);
  const isPage = (origin: string): boolean => origin === known?.origin || isAllowed(origin);
  const names = [...schemes.map(({ name }) => name), ...(check ? ['jwt'] : [])];
  if (names.length === 0 && !verify && !isLoopback(host)) {
    throw new DuolaneError(
      'invalid',
      `cannot listen on ${host} without auth: anyone who reaches it could run the agent; set auth.bearer (--auth bearer:@<file>) or listen on 127.0.0.1`,
    );
  }
  return async (request, { open = false, owner: signedIn } = {}) => {
    const refused = checkOrigin(request, host, known?.hostname, isPage);
    if (refused) return { response: refused };
    if (open || (names.length === 0 && !verify)) return {};
    const owner = ownerOf(request.headers, schemes);
    if (owner !== undefined) return { owner };
    if (signedIn !== undefined) return { owner: signedIn, signedIn: true };
    const token = bearerOf(request.headers);
    let isDown = false;
    const found =
      token === undefined
        ? undefined
        : await check?.(token).catch((error: unknown) => {
            isDown = true;
            onError(error);
          });
    const checked = found && 'owner' in found && holders.has(found.owner) ? TAKEN : found;
    if (checked && 'owner' in checked) return { owner: checked.owner, until: checked.until };
    const verified = await verify?.(request);
    if (verified !== undefined) return { owner: checkOwner(verified) };
    if (isDown) return { response: unavailable() };
    const { pathname, origin } = urlOf(request);
    const more = auth.jwt && /^\/mcp(\/|$)/.test(pathname) ? tokensAt(publicUrl ?? origin) : [];
    const response = checked
      ? badToken(checked, auth.jwt?.scopes, more)
      : unauthorized(names, more);
    return { response };
  };
}

const TAKEN: TokenResult = {
  error: 'invalid_token',
  description: 'the token is for an owner that has a secret on this server',
};

/** The scopes that a token must grant, by the name of the scheme. */
export const authScopes = ({ jwt }: Auth): Readonly<Record<string, readonly string[]>> =>
  jwt?.scopes ? { jwt: jwt.scopes } : {};

/**
 * The security schemes of the agent card. A server with a `verify` function sets them itself, in
 * `card.securitySchemes`.
 */
export function authSchemes({
  bearer,
  apiKey,
  jwt,
}: Auth): Readonly<Record<string, SecurityScheme>> {
  return {
    ...(bearer !== undefined && {
      bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } },
    }),
    ...(apiKey !== undefined && {
      apiKey: { apiKeySecurityScheme: { location: 'header', name: readApiKeys(apiKey).header } },
    }),
    ...(jwt && {
      jwt:
        jwt.jwks === undefined
          ? { openIdConnectSecurityScheme: { openIdConnectUrl: openIdUrl(jwt.issuer) } }
          : { httpAuthSecurityScheme: { scheme: 'Bearer', bearerFormat: 'JWT' } },
    }),
  };
}

/**
 * Refuses requests of pages of other sites. Such a page must not reach a server on this machine:
 * neither by a name that it resolves to 127.0.0.1 (DNS rebinding, checked by Host), nor by a
 * cross-site request (checked by Origin).
 */
function checkOrigin(
  request: Request,
  bound: string,
  known: string | undefined,
  isPage: (origin: string) => boolean,
): Response | undefined {
  const { hostname, host } = urlOf(request);
  // A proxy may keep the name that callers use, or replace it with its own.
  if (isLoopback(bound) && !isLoopback(hostname) && hostname !== known)
    return refuse(403, `host "${hostname}" is not allowed: expected localhost or publicUrl`);
  const origin = headerOf(request, 'origin');
  if (origin !== null && isPage(origin)) return undefined;
  // An Origin of `null` or an invalid one matches no host.
  const from = origin !== null && URL.canParse(origin) ? new URL(origin).host : '';
  if (origin !== null && from !== host)
    return refuse(403, `origin "${origin}" is not allowed; add it to the option "origins"`);
  return undefined;
}

/**
 * Points a client of the MCP endpoint to the document that names its authorization servers (RFC
 * 9728).
 */
const tokensAt = (url: string): readonly string[] => [`resource_metadata="${url}${RESOURCE_PATH}"`];

function unauthorized(names: readonly string[], more: readonly string[]): Response {
  const wanted = names.join(' or ') || 'credentials';
  const text = `This server requires ${wanted}; see securitySchemes in its agent card.`;
  return refuse(401, text, { 'www-authenticate': challenge(more) });
}

const challenge = (parameters: readonly string[]): string =>
  `Bearer ${parameters.join(', ')}`.trimEnd();

/** The response to an invalid token, as RFC 6750 defines it. */
function badToken(
  { error, description }: Exclude<TokenResult, { readonly owner: string }>,
  scopes: readonly string[] = [],
  more: readonly string[] = [],
): Response {
  const lacksScope = error === 'insufficient_scope';
  const parameters = [
    `error="${error}"`,
    `error_description="${description}"`,
    ...(lacksScope ? [`scope="${scopes.join(' ')}"`] : []),
    ...more,
  ];
  const headers = { 'www-authenticate': challenge(parameters) };
  return refuse(lacksScope ? 403 : 401, `${description}.`, headers);
}

const unavailable = (): Response =>
  refuse(503, 'The server cannot check tokens now; try again.', { 'retry-after': '5' });

const refuse = (status: number, text: string, more: Record<string, string> = {}): Response =>
  textResponse(`${text}\n`, status, { 'content-type': 'text/plain', ...more });
