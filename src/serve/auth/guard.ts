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

/** How callers are told apart. With several, any one lets a caller in. */
export interface Auth {
  /** Callers say `Authorization: Bearer <token>`. */
  readonly bearer?: Secrets;
  /** Callers say `<header>: <key>`, by default `X-API-Key`. */
  readonly apiKey?: ApiKeys;
  /** Callers say `Authorization: Bearer <token>`, with a token of this issuer. */
  readonly jwt?: JwtAuth;
  /** Who asks, or undefined to refuse. What it throws is a failure of the server. */
  readonly verify?: (request: Request) => Promise<string | undefined>;
}

/** Whether a request may pass, and as whom. */
export type Guard = (request: Request, options?: GuardedRequest) => Promise<Passed>;

export interface GuardedRequest {
  /** Anyone may have it. */
  readonly open?: boolean;
  /** Who asks, if that is known from elsewhere: a session. */
  readonly owner?: string | undefined;
}

export interface Passed {
  readonly owner?: string;
  /** Unix ms: when what the caller has shown expires, if it does. */
  readonly until?: number;
  /** The owner is the one that was known from elsewhere: the caller has shown no credentials. */
  readonly signedIn?: boolean;
  /** The refusal, when there is one. */
  readonly response?: Response;
}

export interface AuthGuardOptions {
  /** Where callers reach this server, if not where they say. */
  readonly publicUrl?: string;
  /** Whether pages of another origin may ask. */
  readonly isAllowed?: (origin: string) => boolean;
  /** Hears why tokens could not be checked, which callers are not told. */
  readonly onError?: (error: unknown) => void;
}

/**
 * Who may ask. Throws `invalid` for an address beyond this machine without a way to tell callers
 * apart: a server that approves actions is not opened by accident. What is `open` (a card, a health
 * check) needs no secret.
 */
export function createGuard(
  host: string,
  auth: Auth = {},
  { publicUrl, isAllowed = () => false, onError = () => {} }: AuthGuardOptions = {},
): Guard {
  const schemes = secretSchemes(auth.bearer, auth.apiKey);
  const { verify } = auth;
  const check = auth.jwt && tokenChecker(auth.jwt);
  // Names share one space: a token of an issuer must not name somebody who has a secret here.
  const holders = new Set(schemes.flatMap(({ owners }) => owners.map(({ owner }) => owner)));
  const known = publicUrl === undefined ? undefined : new URL(publicUrl);
  const isPage = (origin: string): boolean => origin === known?.origin || isAllowed(origin);
  const names = [...schemes.map(({ name }) => name), ...(check ? ['jwt'] : [])];
  if (names.length === 0 && !verify && !isLoopback(host)) {
    throw new DuolaneError(
      'invalid',
      `refusing to listen on ${host} without auth: anyone who reaches it could run the agent. Give auth.bearer (--auth bearer:@<file>), or listen on 127.0.0.1`,
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
    if (checked && 'owner' in checked) return checked;
    const verified = await verify?.(request);
    if (verified !== undefined) return { owner: checkOwner(verified) };
    if (isDown) return { response: unavailable() };
    const { pathname, origin } = urlOf(request);
    const more = auth.jwt && pathname === '/mcp' ? tokensAt(publicUrl ?? origin) : [];
    const response = checked
      ? badToken(checked, auth.jwt?.scopes, more)
      : unauthorized(names, more);
    return { response };
  };
}

const TAKEN: TokenResult = {
  error: 'invalid_token',
  description: 'the token is for an owner who has a secret here',
};

/** What a caller's token must grant, by the name of the scheme. */
export const authScopes = ({ jwt }: Auth): Readonly<Record<string, readonly string[]>> =>
  jwt?.scopes ? { jwt: jwt.scopes } : {};

/** What the card says about it. A `verify` function says so itself, in the card's `securitySchemes`. */
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
 * A page of another site must not reach a server on this machine: neither by a name that it made
 * resolve to it (Host), nor by a cross-site request (Origin).
 */
function checkOrigin(
  request: Request,
  bound: string,
  known: string | undefined,
  isPage: (origin: string) => boolean,
): Response | undefined {
  const { hostname, host } = urlOf(request);
  // A proxy may keep the name that callers know, or put its own in place of it.
  if (isLoopback(bound) && !isLoopback(hostname) && hostname !== known)
    return plain(403, `Host ${hostname} is not this server`);
  const origin = headerOf(request, 'origin');
  if (origin !== null && isPage(origin)) return undefined;
  // `null` and junk are origins too; they match no host.
  const from = origin !== null && URL.canParse(origin) ? new URL(origin).host : '';
  if (origin !== null && from !== host) return plain(403, `Origin ${origin} may not ask here`);
  return undefined;
}

/** Sends a client of the MCP endpoint to those who give tokens for it (RFC 9728). */
const tokensAt = (url: string): readonly string[] => [`resource_metadata="${url}${RESOURCE_PATH}"`];

function unauthorized(names: readonly string[], more: readonly string[]): Response {
  const wanted = names.join(' or ') || 'credentials';
  const text = `This server wants ${wanted}; its agent card says how.`;
  return plain(401, text, { 'www-authenticate': challenge(more) });
}

const challenge = (parameters: readonly string[]): string =>
  `Bearer ${parameters.join(', ')}`.trimEnd();

/** RFC 6750: what is wrong with the token, for a program and for a person. */
function badToken(
  { error, description }: Exclude<TokenResult, { readonly owner: string }>,
  scopes: readonly string[] = [],
  more: readonly string[] = [],
): Response {
  const poor = error === 'insufficient_scope';
  const said = [
    `error="${error}"`,
    `error_description="${description}"`,
    ...(poor ? [`scope="${scopes.join(' ')}"`] : []),
    ...more,
  ];
  return plain(poor ? 403 : 401, `${description}.`, { 'www-authenticate': challenge(said) });
}

const unavailable = (): Response =>
  plain(503, 'Tokens cannot be checked now; try again.', { 'retry-after': '5' });

const plain = (status: number, text: string, more: Record<string, string> = {}): Response =>
  new Response(`${text}\n`, { status, headers: { 'content-type': 'text/plain', ...more } });
