import { createHmac, randomBytes, scryptSync, timingSafeEqual } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import { headerOf } from '../../http/node-request.ts';
import { asObject, tryParse } from '../../json.ts';
import type { Auth } from './guard.ts';
import type { SessionHead } from '../page-api-types.ts';
import type { IsOperator } from './operators.ts';
import { memoryRevocations, type Revocations } from './session-revocations.ts';
import { httpRoute, statusResponse, type HttpRoute } from '../router.ts';
import { bearerOf, readApiKeys, secretSchemes } from './shared-secrets.ts';
import { jsonResponse } from '../../http/text-response.ts';

/** How browsers stay signed in to the page. */
export interface LoginSessionOptions {
  /**
   * How long a sign-in lasts at most: 12 hours by default, 1 hour if replicas share the log and no
   * `revocations` are given. Never longer than the token that was used to sign in.
   */
  readonly lifeMs?: number;
  /**
   * Signs the cookies, together with the secrets of `auth`. Set it for replicas that check tokens
   * of an issuer or use `verify`; otherwise such a session is valid in one process only.
   */
  readonly key?: string;
  /** Where sign-outs are stored, such as a database of all replicas. By default in this process. */
  readonly revocations?: Revocations;
}

/**
 * Signed-in browsers. A browser sends its secret once and gets a cookie: an EventSource and a
 * download link cannot send headers.
 */
export interface LoginSessions {
  /**
   * The owner of the request's cookie, if its signature is valid and it has not expired or been
   * revoked.
   */
  ownerOf(request: Request): Promise<string | undefined>;
  /**
   * `POST /api/session` with the secret sets the cookie, `DELETE` revokes it, `GET` returns how to
   * sign in. The guard must not accept a cookie for the `POST`: it would renew itself forever.
   */
  readonly routes: readonly HttpRoute[];
}

export interface CreateSessionsOptions extends LoginSessionOptions {
  /** Callers use https, so the cookie is `Secure` and bound to this host. */
  readonly https?: boolean;
  /** Which owners may read what concerns all callers. */
  readonly isOperator?: IsOperator;
  /** Other processes accept the cookies of this one. */
  readonly shared?: boolean;
  readonly now?: () => number;
  /**
   * Called for a sign-in or a sign-out, for the audit log. If it throws, the sign-in is refused.
   */
  readonly onChange?: (
    kind: 'sign-in' | 'sign-out',
    owner: string,
    outcome: 'done' | 'refused',
  ) => Promise<void>;
}

export const SESSION_PATH = '/api/session';
const COOKIE = 'duolane-session';
const LIFE_MS = 12 * 60 * 60 * 1000;
const SHARED_LIFE_MS = 60 * 60 * 1000;

/** The signed content of a cookie. */
interface CookieClaims {
  readonly owner: string;
  readonly until: number;
  readonly since: number;
  readonly id: string;
}

/**
 * Creates login sessions as signed cookies. A cookie holds the owner, its start, its end, and an id
 * that can be revoked. The signing key is derived from the secrets: replicas with the same secrets
 * accept each other's cookies, a restart ends no session, and a changed secret ends all. With
 * tokens of an issuer or a `verify` function the key comes from `key`; without it, sessions end
 * with this process.
 *
 * No script can read the cookie (`HttpOnly`), and no other site can make the browser send it
 * (`SameSite=Strict`); the guard checks the origin as well.
 */
export function createSessions(
  auth: Auth = {},
  options: CreateSessionsOptions = {},
): LoginSessions {
  const { bearer, apiKey } = auth;
  const { https = false, shared = false, now = Date.now, onChange } = options;
  const { isOperator = () => true } = options;
  const longest = shared && !options.revocations ? SHARED_LIFE_MS : LIFE_MS;
  const lifeMs = readLife(options.lifeMs) ?? longest;
  const revocations = options.revocations ?? memoryRevocations(now);
  const wanted = Object.values(auth).some((way) => way !== undefined);
  const name = https ? `__Host-${COOKIE}` : COOKIE;
  const known = [bearer ?? null, apiKey ?? null, options.key ?? null];
  const holders = new Set(
    secretSchemes(bearer, apiKey).flatMap(({ owners }) => owners.map(({ owner }) => owner)),
  );
  // Owners that come from an issuer or `verify` have no secret on this server. If the key came from
  // the secrets alone, their holders could compute it and sign a cookie in the name of such an
  // owner.
  const isOpen = auth.jwt !== undefined || auth.verify !== undefined;
  const isRandom = isOpen
    ? options.key === undefined
    : holders.size === 0 && options.key === undefined;
  let key: Buffer | undefined;
  /**
   * Derives the key with scrypt, which is slow on purpose: the holder of a cookie must not be able
   * to guess the secret by trying. Called on first use.
   */
  const makeKey = (): Buffer =>
    isRandom ? randomBytes(32) : scryptSync(JSON.stringify(known), 'duolane session 2', 32);
  const sign = (text: string): Buffer =>
    createHmac('sha256', (key ??= makeKey()))
      .update(text)
      .digest();

  const issue = (owner: string, forMs: number): string => {
    const since = now();
    const claim: CookieClaims = {
      owner,
      since,
      until: since + forMs,
      id: randomBytes(16).toString('base64url'),
    };
    const text = Buffer.from(JSON.stringify(claim)).toString('base64url');
    return `${text}.${sign(text).toString('base64url')}`;
  };
  const read = (cookie: string): CookieClaims | undefined => {
    const [text = '', signature = ''] = cookie.split('.');
    const given = Buffer.from(signature, 'base64url');
    const expected = sign(text);
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
    const claim = JSON.parse(Buffer.from(text, 'base64url').toString()) as CookieClaims;
    // The holder of the only secret can compute the key. This keeps that holder from signing a
    // cookie for an owner that was configured earlier and still has tasks.
    if (!isOpen && !holders.has(claim.owner)) return undefined;
    return claim.until > now() ? claim : undefined;
  };
  const claimOf = async (request: Request): Promise<CookieClaims | undefined> => {
    const cookies = headerOf(request, 'cookie')?.split(';') ?? [];
    const ours = cookies.map((each) => each.trim()).find((each) => each.startsWith(`${name}=`));
    const claim = ours === undefined ? undefined : read(ours.slice(name.length + 1));
    return claim && !(await revocations.isRevoked(claim.id, claim.since)) ? claim : undefined;
  };
  const cookie = (value: string, maxAgeS: number): string =>
    `${name}=${value}; Path=/; Max-Age=${maxAgeS}; HttpOnly; SameSite=Strict${https ? '; Secure' : ''}`;

  return {
    ownerOf: async (request) => (await claimOf(request))?.owner,
    routes: [
      httpRoute('GET', SESSION_PATH, async ({ request }) => {
        const owner = (await claimOf(request))?.owner;
        const { header } = readApiKeys(apiKey);
        const head: SessionHead = {
          wanted,
          header,
          ...(owner !== undefined && { owner }),
          ...(isOperator(owner) && { operator: true }),
        };
        return jsonResponse(head, { headers: { 'cache-control': 'no-store' } });
      }),
      httpRoute('POST', SESSION_PATH, async ({ owner, request }) => {
        if (owner === undefined) return noContent(); // a server without auth needs no cookie
        const expiryMs = tokenExpiry(bearerOf(request.headers)) * 1000;
        const lifeS = Math.floor(Math.min(lifeMs, expiryMs - now()) / 1000);
        // The guard accepts a token for some seconds after its end (`clockSkewMs`).
        if (lifeS < 1) {
          await onChange?.('sign-in', owner, 'refused');
          return statusResponse(401, 'the token has expired');
        }
        await onChange?.('sign-in', owner, 'done');
        return noContent(cookie(issue(owner, lifeS * 1000), lifeS));
      }),
      httpRoute('DELETE', SESSION_PATH, async ({ request }) => {
        const claim = await claimOf(request);
        if (claim) {
          await revocations.revoke(claim.id, claim.until);
          await onChange?.('sign-out', claim.owner, 'done');
        }
        return noContent(cookie('', 0));
      }),
    ],
  };
}

function readLife(lifeMs: number | undefined): number | undefined {
  if (lifeMs === undefined || (Number.isFinite(lifeMs) && lifeMs >= 1000)) return lifeMs;
  throw new DuolaneError(
    'invalid',
    `invalid session.lifeMs "${lifeMs}": expected a number of ms, 1000 or more`,
  );
}

const noContent = (setCookie?: string): Response =>
  new Response(null, {
    status: 204,
    headers: {
      'cache-control': 'no-store',
      ...(setCookie !== undefined && { 'set-cookie': setCookie }),
    },
  });

/**
 * When a token that the guard has accepted expires, in seconds of Unix time; a secret never
 * expires. The signature is not checked again, which is safe: the result can only shorten a
 * session.
 */
function tokenExpiry(token = ''): number {
  const [, payload = ''] = token.split('.');
  const { exp } = asObject(tryParse(Buffer.from(payload, 'base64url').toString()));
  // A token that is not a JWT does not expire.
  return typeof exp === 'number' ? exp : Infinity;
}
