import { createHash, randomBytes } from 'node:crypto';
import { unauthorized } from '../../../../../errors.ts';
import { isObject, type JsonObject, omitUndefined } from '../../../../../json.ts';
import { type KnownClient, sign } from './oauth-client.ts';
import { oauthError, supports, type Realm } from './discovery.ts';
import { type Documents, OAuthRefusal, urlIn } from './documents.ts';
import type { OAuthOptions } from './types.ts';

/** The token of a login. */
export interface Token {
  readonly accessToken: string;
  readonly refreshToken?: string;
  /** When the token expires, as Unix time in ms. */
  readonly expiresAt?: number;
  /** The requested scopes, so that more can be added to them. */
  readonly scope?: string;
  readonly issuer: string;
}

/** A client at one authorization server. */
export interface RealmClient {
  readonly realm: Realm;
  readonly client: KnownClient;
  readonly documents: Documents;
}

/** Sends a person to log in, and exchanges the returned code for a token. */
export async function logIn(
  entry: RealmClient,
  scope: string | undefined,
  { authorize, redirectUrl }: OAuthOptions,
  signal: AbortSignal,
): Promise<Token> {
  const { realm, client } = entry;
  const endpoint = urlIn(realm.metadata, 'authorization_endpoint');
  if (!endpoint || !authorize || redirectUrl === undefined)
    throw oauthError(
      `${realm.issuer} has no authorization endpoint, or the option oauth.redirectUrl is missing`,
    );
  const [verifier, state] = [randomBytes(32), randomBytes(16)].map((bytes) =>
    bytes.toString('base64url'),
  ) as [string, string];
  const query = omitUndefined<Record<string, string>>({
    response_type: 'code',
    client_id: client.id,
    redirect_uri: String(redirectUrl),
    state,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    scope,
    resource: realm.resource,
  });
  for (const [key, value] of Object.entries(query)) endpoint.searchParams.set(key, value);
  const code = readReturn(new URL(await authorize(endpoint, { signal })), state, realm);
  const form = { code, code_verifier: verifier, redirect_uri: String(redirectUrl) };
  return requestToken(entry, { grant_type: 'authorization_code', ...form }, scope);
}

/**
 * Reads the code from the address that the person returned to, if it came from the right server
 * (RFC 9207).
 */
function readReturn({ searchParams }: URL, state: string, { issuer, metadata }: Realm): string {
  if (searchParams.get('state') !== state)
    throw oauthError('the returned address belongs to another login (state)');
  const from = searchParams.get('iss');
  const promised = metadata['authorization_response_iss_parameter_supported'] === true;
  if (from === null ? promised : from !== (metadata['issuer'] ?? issuer))
    throw oauthError(
      `the returned address is from ${from ?? 'an unknown issuer'}, expected ${issuer} (iss)`,
    );
  const error = searchParams.get('error');
  if (error !== null)
    throw new OAuthRefusal(
      error,
      searchParams.get('error_description') ?? undefined,
      new URL(issuer),
    );
  const code = searchParams.get('code');
  if (code === null) throw oauthError('the returned address has no code');
  return code;
}

/** Logs the client itself in, without a person. */
export const useCredentials = (entry: RealmClient, scope: string | undefined): Promise<Token> =>
  requestToken(entry, omitUndefined({ grant_type: 'client_credentials', scope }), scope);

/**
 * Refreshes a token; `undefined` if the authorization server does not accept the refresh token any
 * more.
 */
export async function refresh(entry: RealmClient, token: Token): Promise<Token | undefined> {
  const { refreshToken = '', scope } = token;
  try {
    const form = { grant_type: 'refresh_token', refresh_token: refreshToken };
    return { refreshToken, ...(await requestToken(entry, form, scope)) };
  } catch (error) {
    if (error instanceof OAuthRefusal && error.error === 'invalid_grant') return undefined;
    throw error;
  }
}

async function requestToken(
  { realm, client, documents }: RealmClient,
  fields: Readonly<Record<string, string>>,
  scope: string | undefined,
): Promise<Token> {
  const endpoint = urlIn(realm.metadata, 'token_endpoint');
  if (!endpoint) throw oauthError(`${realm.issuer} has no token endpoint`);
  const form = new URLSearchParams(fields);
  if (realm.resource !== undefined) form.set('resource', realm.resource);
  const headers = {
    ...(await sign(form, client, realm)),
    'content-type': 'application/x-www-form-urlencoded',
    accept: 'application/json',
  };
  const answer = await documents.post(endpoint, String(form), headers);
  return readToken(answer, realm.issuer, scope);
}

function readToken(answer: JsonObject, issuer: string, scope: string | undefined): Token {
  const { access_token: accessToken, refresh_token: refreshToken, expires_in: seconds } = answer;
  if (typeof accessToken !== 'string' || !/^[\x21-\x7e]+$/.test(accessToken))
    throw unauthorized(`${issuer} sent no token: expected an access_token`);
  return {
    accessToken,
    issuer,
    ...(typeof refreshToken === 'string' && { refreshToken }),
    ...(typeof seconds === 'number' && { expiresAt: Date.now() + seconds * 1_000 }),
    ...(scope !== undefined && { scope }),
  };
}

/** Decodes a stored token; `undefined` for anything else. */
export const keptToken = (value: unknown): Token | undefined =>
  isObject(value) && typeof value['accessToken'] === 'string' && typeof value['issuer'] === 'string'
    ? (value as unknown as Token)
    : undefined;

/**
 * The scopes to request: the earlier ones, the required ones, and `offline_access` to stay logged
 * in if it is supported.
 */
export function scopeFor(
  had: string | undefined,
  wanted: string | undefined,
  { scopes_supported: supported }: JsonObject,
  person: boolean,
): string | undefined {
  const words = `${had ?? ''} ${wanted ?? ''}`.split(' ').filter((word) => word !== '');
  const scopes = new Set(words);
  if (person && supports(supported, 'offline_access')) scopes.add('offline_access');
  return scopes.size === 0 ? undefined : [...scopes].join(' ');
}
