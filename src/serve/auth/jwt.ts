import type { JWTPayload, JWTVerifyGetKey } from 'jose';
import { DuolaneError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { isLoopback } from './loopback.ts';
import { isOwner } from './shared-secrets.ts';

/** Tokens of an authorization server (OAuth 2, OpenID Connect), checked here against its public keys. */
export interface JwtAuth {
  /** Who signs: exactly the `iss` of its tokens. */
  readonly issuer: string;
  /** Whom a token must be for: this, or one of these, in its `aud`. */
  readonly audience: string | readonly string[];
  /** Where the issuer's keys are (JWKS). By default its OpenID configuration says. */
  readonly jwks?: string;
  /** What a token may be signed with; never `none`, never a shared secret. */
  readonly algorithms?: readonly string[];
  /** How far the issuer's clock may be off. */
  readonly clockSkewMs?: number;
  /** What a token must grant, each of them. */
  readonly scopes?: readonly string[];
  /** The claim that says whose token it is. */
  readonly ownerClaim?: string;
  /** Keys that nobody knows make the server read the JWKS again, but not more often than this. */
  readonly cooldownMs?: number;
}

/** Whose token it is, or what is wrong with it, in the words of RFC 6750. */
export type TokenResult =
  | {
      readonly owner: string;
      /** Unix ms: from then on it is refused. */
      readonly until: number;
    }
  | { readonly error: 'invalid_token' | 'insufficient_scope'; readonly description: string };

/** Throws `network` when the issuer's keys cannot be read: that says nothing about the token. */
export type CheckToken = (token: string) => Promise<TokenResult>;

const ALGORITHMS = 'ES256 ES384 ES512 EdDSA Ed25519 PS256 PS384 PS512 RS256 RS384 RS512'.split(' ');
const FETCH_MS = 5000;

/** The address of an issuer's OpenID configuration. */
export const openIdUrl = (issuer: string): string =>
  `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;

/** Reads nothing before the first token. Throws `invalid` for keys that a stranger could replace on the way. */
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
    throw new DuolaneError('invalid', `auth.jwt.algorithms: ${weak} is no public-key signature`);

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
    // Not a signed token at all: no reason to ask anybody for keys.
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
        throw new DuolaneError('network', `the keys of ${issuer} cannot be read`, { cause: error });
      const missing = reason === 'missing' && `the token has no ${claim}`;
      const description = missing || WORDS[claim];
      return description === undefined ? INVALID : { error: 'invalid_token', description };
    }
    const owner = payload[ownerClaim];
    if (typeof owner !== 'string' || !isOwner(owner))
      return { error: 'invalid_token', description: 'the token does not say whose it is' };
    const granted = scopesOf(payload);
    if (scopes.every((scope) => granted.includes(scope)))
      return { owner, until: Number(payload.exp) * 1000 + clockSkewMs };
    return { error: 'insufficient_scope', description: 'the token does not grant enough' };
  };
}

const INVALID: TokenResult = { error: 'invalid_token', description: 'the token is not valid' };

/** What jose calls a key set that it could not get or read. */
const UNREADABLE: ReadonlySet<string> = new Set([
  'ERR_JOSE_GENERIC',
  'ERR_JWKS_INVALID',
  'ERR_JWKS_TIMEOUT',
]);

const WORDS: Readonly<Record<string, string>> = {
  exp: 'the token has expired',
  nbf: 'the token is not valid yet',
  iss: 'the token is of another issuer',
  aud: 'the token is for somebody else',
};

/** A text with spaces between (RFC 9068), or a list, as some issuers have it under `scp`. */
function scopesOf({ scope, scp = scope }: JWTPayload): readonly unknown[] {
  if (typeof scp === 'string') return scp.split(' ');
  return Array.isArray(scp) ? scp : [];
}

async function discover(issuer: string): Promise<string> {
  const url = openIdUrl(issuer);
  const response = await fetch(url, { redirect: 'error', signal: AbortSignal.timeout(FETCH_MS) });
  const said: unknown = response.ok ? await response.json() : undefined;
  const { issuer: name, jwks_uri: jwks } = isObject(said) ? said : {};
  if (name !== issuer || typeof jwks !== 'string')
    throw new DuolaneError('network', `${url} is no OpenID configuration of ${issuer}`);
  checkUrl(jwks);
  return jwks;
}

function checkUrl(url: string): void {
  const { protocol = '', hostname = '' } = URL.canParse(url) ? new URL(url) : {};
  if (protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname))) return;
  throw new DuolaneError('invalid', `auth.jwt: ${url} must be an https address`);
}
