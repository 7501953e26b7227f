import { createHmac, randomBytes, scryptSync, timingSafeEqual } from 'node:crypto';
import { headerOf } from '../http/request.ts';
import type { Auth } from './guard.ts';
import type { SessionHead } from './page-types.ts';
import type { Route } from './router.ts';
import { bearerOf, readApiKeys } from './secrets.ts';

/** Who a browser is, after it has shown its secret once: an EventSource and a link cannot show it again. */
export interface Sessions {
  /** Whose cookie the request carries, if it is ours and has not run out. */
  ownerOf(request: Request): string | undefined;
  /** `POST /api/session` with the secret gives the cookie, `DELETE` takes it back, `GET` tells anyone how to show it. */
  readonly routes: readonly Route[];
}

const COOKIE = 'duolane-session';
const LIFE_S = 12 * 60 * 60;

/**
 * Sessions without a memory: the cookie says who and until when, and is signed. The key comes from the
 * secrets, so replicas that share them share sessions, a restart ends none, and a changed secret
 * ends all. Without secrets (tokens of an issuer, a `verify` function) they last as long as this
 * process, and never longer than the token that was shown.
 *
 * No script can read the cookie and no other site can make the browser send it (`SameSite=Strict`);
 * the guard checks the origin besides.
 */
export function createSessions(auth: Auth = {}, now: () => number = Date.now): Sessions {
  const { bearer, apiKey } = auth;
  const wanted = Object.values(auth).some((way) => way !== undefined);
  const secrets = JSON.stringify([bearer ?? null, apiKey ?? null]);
  let key: Buffer | undefined;
  /** Slow on purpose, and so made when first needed: who has a cookie must not find the secret by trying. */
  const makeKey = (): Buffer =>
    bearer === undefined && apiKey === undefined
      ? randomBytes(32)
      : scryptSync(secrets, 'duolane session', 32);
  const sign = (text: string): Buffer =>
    createHmac('sha256', (key ??= makeKey()))
      .update(text)
      .digest();

  const issue = (owner: string, lifeS: number): string => {
    const claim = Buffer.from(JSON.stringify([owner, now() + lifeS * 1000])).toString('base64url');
    return `${claim}.${sign(claim).toString('base64url')}`;
  };
  const read = (cookie: string): string | undefined => {
    const [claim = '', signature = ''] = cookie.split('.');
    const given = Buffer.from(signature, 'base64url');
    const expected = sign(claim);
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
    const [owner, until] = JSON.parse(Buffer.from(claim, 'base64url').toString()) as [
      string,
      number,
    ];
    return until > now() ? owner : undefined;
  };
  const ownerOf = (request: Request): string | undefined => {
    const cookies = headerOf(request, 'cookie')?.split(/;\s*/) ?? [];
    const ours = cookies.find((each) => each.startsWith(`${COOKIE}=`));
    return ours === undefined ? undefined : read(ours.slice(COOKIE.length + 1));
  };
  return {
    ownerOf,
    routes: [
      {
        method: 'GET',
        path: '/api/session',
        handle({ request }) {
          const owner = ownerOf(request);
          const { header } = readApiKeys(apiKey);
          const head: SessionHead = { wanted, header, ...(owner !== undefined && { owner }) };
          return Response.json(head);
        },
      },
      {
        method: 'POST',
        path: '/api/session',
        handle({ owner, url, request }) {
          if (owner === undefined) return answer(); // nobody is asked who he is: nothing to remember
          const expiry = tokenExpiry(bearerOf(request.headers));
          const lifeS = Math.min(LIFE_S, Math.floor((expiry * 1000 - now()) / 1000));
          return answer(cookie(issue(owner, lifeS), lifeS, url));
        },
      },
      { method: 'DELETE', path: '/api/session', handle: ({ url }) => answer(cookie('', 0, url)) },
    ],
  };
}

const cookie = (value: string, maxAge: number, { protocol }: URL): string =>
  `${COOKIE}=${value}; Path=/; Max-Age=${maxAge}; HttpOnly; SameSite=Strict${protocol === 'https:' ? '; Secure' : ''}`;

const answer = (setCookie?: string): Response =>
  new Response(null, {
    status: 204,
    headers: {
      'cache-control': 'no-store',
      ...(setCookie !== undefined && { 'set-cookie': setCookie }),
    },
  });

/** When a token that the guard has checked runs out, in seconds of Unix time; a plain secret never does. */
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
