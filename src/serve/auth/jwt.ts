import type { JWTPayload, JWTVerifyGetKey } from 'jose';
import { DuolaneError } from '../../errors.ts';
import { asObject, asStrings } from '../../json.ts';
import { isLoopback } from './loopback.ts';
import { isOwner } from './shared-secrets.ts';

/** Tokens of an authorization server (OAuth 2, OpenID Connect), verified with its public keys. */
export interface JwtAuth {
  /** The issuer: exactly the `iss` of its tokens. */
  readonly issuer: string;
  /** The audience: the `aud` of a token must be this, or contain one of these. */
  readonly audience: string | readonly string[];
  /** The address of the issuer's keys (JWKS). By default it comes from its OpenID configuration. */
  readonly jwks?: string;
  /** The accepted signature algorithms; never `none`, never one with a shared secret. */
  readonly algorithms?: readonly string[];
  /** How far the issuer's clock may differ. 30 s by default. */
  readonly clockSkewMs?: number;
  /** The scopes that a token must grant, all of them. */
  readonly scopes?: readonly string[];
  /** The claim that names the owner; `sub` by default. */
  readonly ownerClaim?: string;
  /**
   * An unknown key makes the server read the JWKS again, at most once per this time. 30 s by
   * default.
   */
  readonly cooldownMs?: number;
}

/** The owner of a token, or its error as RFC 6750 names it. */
export type TokenResult =
  | {
      readonly owner: string;
      /** Unix ms: from then on the token is refused. */
      readonly until: number;
      /** The scopes that the token grants. */
      readonly scopes: readonly string[];
    }
  | { readonly error: 'invalid_token' | 'insufficient_scope'; readonly description: string };

/**
 * Checks a token. Throws `network` if the issuer's keys cannot be read: the token may still be
 * valid.
 */
export type CheckToken = (token: string) => Promise<TokenResult>;

const ALGORITHMS = 'ES256 ES384 ES512 EdDSA Ed25519 PS256 PS384 PS512 RS256 RS384 RS512'.split(' ');
const FETCH_MS = 5000;

/** The address of an issuer's OpenID configuration. */
export const openIdUrl = (issuer: string): string =>
  `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;

/**
 * Creates the check of tokens; it reads the keys with the first token. Throws `invalid` for keys
 * over http, which anyone on the network path could replace.
 */
export function tokenChecker({
  issuer,
  audience,
  jwks,
  algorithms = ALGORITHMS,
  clockSkewMs = 30_000,
  scopes = [],
  ownerClaim = 'sub',
  cooldownMs = 30_000,
}: JwtAuth): CheckToken {
  checkUrl(jwks ?? issuer);
  const weak = algorithms.find((each) => !ALGORITHMS.includes(each));
  if (weak !== undefined)
    throw new DuolaneError(
      'invalid',
      `invalid auth.jwt.algorithms "${weak}": expected ${ALGORITHMS.join(', ')}`,
    );

  const open = async (): Promise<JWTVerifyGetKey> => {
    const { createRemoteJWKSet } = await import('jose');
    const url = jwks ?? (await discover(issuer));
    const durations = { cooldownDuration: cooldownMs, timeoutDuration: FETCH_MS };
    return createRemoteJWKSet(new URL(url), durations);
  };
  let keys: Promise<JWTVerifyGetKey> | undefined;
  let failedAt = -Infinity;
  const opened = (): Promise<JWTVerifyGetKey> => {
    if (Date.now() - failedAt > cooldownMs) {
      failedAt = Infinity;
      keys = open();
      // Every request that awaits the keys gets the failure; here only its time is noted.
      keys.catch(() => (failedAt = Date.now()));
    }
    return keys as Promise<JWTVerifyGetKey>;
  };

  return async (token) => {
    // Not a signed token, so fetching keys would be useless.
    if (token.split('.').length !== 3) return INVALID;
    const { jwtVerify, errors } = await import('jose');
    let payload: JWTPayload;
    try {
      ({ payload } = await jwtVerify(token, await opened(), {
        issuer,
        audience: typeof audience === 'string' ? audience : [...audience],
        algorithms: [...algorithms],
        clockTolerance: clockSkewMs / 1000,
        requiredClaims: ['exp'],
      }));
    } catch (error) {
      const {
        code,
        claim = '',
        reason,
      } = error as Partial<Record<'code' | 'claim' | 'reason', string>>;
      if (!(error instanceof errors.JOSEError) || UNREADABLE.has(String(code)))
        throw new DuolaneError('network', `cannot read the keys of ${issuer}`, { cause: error });
      const missing = reason === 'missing' && `the token has no ${claim}`;
      const description = missing || DESCRIPTIONS[claim];
      return description === undefined ? INVALID : { error: 'invalid_token', description };
    }
    const owner = payload[ownerClaim];
    if (typeof owner !== 'string' || !isOwner(owner))
      return { error: 'invalid_token', description: `the token has no valid ${ownerClaim}` };
    const granted = scopesOf(payload);
    if (scopes.every((scope) => granted.includes(scope)))
      return { owner, until: Number(payload.exp) * 1000 + clockSkewMs, scopes: granted };
    return { error: 'insufficient_scope', description: 'the token lacks a required scope' };
  };
}

const INVALID: TokenResult = { error: 'invalid_token', description: 'the token is not valid' };

/** The codes of jose for a key set that it could not fetch or parse. */
const UNREADABLE: ReadonlySet<string> = new Set([
  'ERR_JOSE_GENERIC',
  'ERR_JWKS_INVALID',
  'ERR_JWKS_TIMEOUT',
]);

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  exp: 'the token has expired',
  nbf: 'the token is not valid yet',
  iss: 'the token is of another issuer',
  aud: 'the token is for another audience',
};

/**
 * The scopes of a token: separated by spaces (RFC 9068), or an array in `scp`, as some issuers
 * send.
 */
function scopesOf({ scope, scp = scope }: JWTPayload): readonly string[] {
  return typeof scp === 'string' ? scp.split(' ') : asStrings(scp);
}

/** Reads the address of the keys from the issuer's OpenID configuration. */
async function discover(issuer: string): Promise<string> {
  const url = openIdUrl(issuer);
  const response = await fetch(url, { redirect: 'error', signal: AbortSignal.timeout(FETCH_MS) });
  const configuration: unknown = response.ok ? await response.json() : undefined;
  const { issuer: name, jwks_uri: jwks } = asObject(configuration);
  if (name !== issuer || typeof jwks !== 'string')
    throw new DuolaneError(
      'network',
      `${url} did not return the OpenID configuration of ${issuer}: expected its issuer and jwks_uri`,
    );
  checkUrl(jwks);
  return jwks;
}

function checkUrl(url: string): void {
  const { protocol = '', hostname = '' } = URL.canParse(url) ? new URL(url) : {};
  if (protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname))) return;
  throw new DuolaneError('invalid', `invalid address "${url}" in auth.jwt: expected https`);
}
