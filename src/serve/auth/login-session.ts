import { createHmac, randomBytes, scryptSync, timingSafeEqual } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import { headerOf } from '../../http/node-request.ts';
import type { Auth } from './guard.ts';
import type { SessionHead } from '../page-api-types.ts';
import type { IsOperator } from './operators.ts';
import { memoryRevocations, type Revocations } from './session-revocations.ts';
import { statusResponse, type HttpRoute } from '../router.ts';
import { bearerOf, readApiKeys, secretSchemes } from './shared-secrets.ts';

/** How browsers stay signed in. */
export interface LoginSessionOptions {
  /**
   * How long a sign-in lasts at most: 12 hours by default, 1 hour where replicas share the log and
   * no `revocations` are given. Never longer than the token that was shown.
   */
  readonly lifeMs?: number;
  /**
   * Signs the cookies, together with the secrets of `auth`. Give it to several replicas that check
   * tokens of an issuer or use `verify`; otherwise such a session is known to one process only.
   */
  readonly key?: string;
  /** Where sign-outs are kept, such as in a database that all replicas ask. By default in this process. */
  readonly revocations?: Revocations;
}

/** Who a browser is, after it has shown its secret once: an EventSource and a link cannot show it again. */
export interface LoginSessions {
  /** Whose cookie the request carries, if it is ours, has not expired and was not revoked. */
  ownerOf(request: Request): Promise<string | undefined>;
  /**
   * `POST /api/session` with the secret gives the cookie, `DELETE` revokes it, `GET` tells anyone how
   * to sign in. The guard must not take a cookie for the `POST`: it would renew itself for ever.
   */
  readonly routes: readonly HttpRoute[];
}

export interface CreateSessionsOptions extends LoginSessionOptions {
  /** Callers come over https, so the cookie is `Secure` and bound to this host. */
  readonly https?: boolean;
  /** Who may see what concerns all callers. */
  readonly isOperator?: IsOperator;
  /** Other processes accept the cookies of this one. */
  readonly shared?: boolean;
  readonly now?: () => number;
  /** A sign-in or a sign-out, for the audit log; what it throws refuses a sign-in. */
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

/** What a cookie says, signed. */
interface Claim {
  readonly owner: string;
  readonly until: number;
  readonly since: number;
  readonly id: string;
}

/**
 * Sessions as signed cookies: each says who, since when and until when, and has an id that can be
 * revoked. The key comes from the secrets, so replicas that share them share sessions, a restart
 * ends none, and a changed secret ends all. With tokens of an issuer or a `verify` function, the key
 * comes from `key`; without that, sessions last as long as this process.
 *
 * No script can read the cookie and no other site can make the browser send it (`SameSite=Strict`);
 * the guard checks the origin besides.
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
  // Owners whose names an issuer or `verify` gives have no secret here. The holders of the secrets could
  // make the key themselves if it came from those alone, and sign a cookie in the name of any of them.
  const isOpen = auth.jwt !== undefined || auth.verify !== undefined;
  const isRandom = isOpen
    ? options.key === undefined
    : holders.size === 0 && options.key === undefined;
  let key: Buffer | undefined;
  /** Slow on purpose, so that the holder of a cookie cannot find the secret by trying; made when first needed. */
  const makeKey = (): Buffer =>
    isRandom ? randomBytes(32) : scryptSync(JSON.stringify(known), 'duolane session 2', 32);
  const sign = (text: string): Buffer =>
    createHmac('sha256', (key ??= makeKey()))
      .update(text)
      .digest();

  const issue = (owner: string, forMs: number): string => {
    const since = now();
    const claim: Claim = {
      owner,
      since,
      until: since + forMs,
      id: randomBytes(16).toString('base64url'),
    };
    const text = Buffer.from(JSON.stringify(claim)).toString('base64url');
    return `${text}.${sign(text).toString('base64url')}`;
  };
  const read = (cookie: string): Claim | undefined => {
    const [text = '', signature = ''] = cookie.split('.');
    const given = Buffer.from(signature, 'base64url');
    const expected = sign(text);
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
    const claim = JSON.parse(Buffer.from(text, 'base64url').toString()) as Claim;
    // The holder of the only secret can make the key, but gets no tasks of an owner of former times.
    if (!isOpen && !holders.has(claim.owner)) return undefined;
    return claim.until > now() ? claim : undefined;
  };
  const claimOf = async (request: Request): Promise<Claim | undefined> => {
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
      {
        method: 'GET',
        path: SESSION_PATH,
        async handle({ request }) {
          const owner = (await claimOf(request))?.owner;
          const { header } = readApiKeys(apiKey);
          const head: SessionHead = {
            wanted,
            header,
            ...(owner !== undefined && { owner }),
            ...(isOperator(owner) && { operator: true }),
          };
          return Response.json(head, { headers: { 'cache-control': 'no-store' } });
        },
      },
      {
        method: 'POST',
        path: SESSION_PATH,
        async handle({ owner, request }) {
          if (owner === undefined) return answer(); // a server without auth has nothing to remember
          const expiryMs = tokenExpiry(bearerOf(request.headers)) * 1000;
          const lifeS = Math.floor(Math.min(lifeMs, expiryMs - now()) / 1000);
          // The guard accepts a token for some seconds after its end, since clocks differ.
          if (lifeS < 1) {
            await onChange?.('sign-in', owner, 'refused');
            return statusResponse(401, 'the token has expired');
          }
          await onChange?.('sign-in', owner, 'done');
          return answer(cookie(issue(owner, lifeS * 1000), lifeS));
        },
      },
      {
        method: 'DELETE',
        path: SESSION_PATH,
        async handle({ request }) {
          const claim = await claimOf(request);
          if (claim) {
            await revocations.revoke(claim.id, claim.until);
            await onChange?.('sign-out', claim.owner, 'done');
          }
          return answer(cookie('', 0));
        },
      },
    ],
  };
}

function readLife(lifeMs: number | undefined): number | undefined {
  if (lifeMs === undefined || (Number.isFinite(lifeMs) && lifeMs >= 1000)) return lifeMs;
  throw new DuolaneError(
    'invalid',
    `invalid session.lifeMs ${lifeMs}: expected a number of ms, 1000 or more`,
  );
}

const answer = (setCookie?: string): Response =>
  new Response(null, {
    status: 204,
    headers: {
      'cache-control': 'no-store',
      ...(setCookie !== undefined && { 'set-cookie': setCookie }),
    },
  });

/**
 * When a token that the guard has checked expires, in seconds of Unix time; a plain secret never
 * does. Read without a check of its own, which is safe: the result only shortens a session.
 */
function tokenExpiry(token = ''): number {
  try {
    const [, payload = ''] = token.split('.');
    const { exp } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { exp?: unknown };
    return typeof exp === 'number' ? exp : Infinity;
  } catch {
    // A token that is not a JWT has no end of its own.
    return Infinity;
  }
}
