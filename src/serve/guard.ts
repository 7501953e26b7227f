import { createHash, timingSafeEqual } from 'node:crypto';
import { DuolaneError } from '../errors.ts';

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]', '::1']);

/** Whether an address can be reached from this machine only; `127.0.0.1.example.com` is no address. */
export const isLoopback = (host: string): boolean =>
  LOOPBACK.has(host) || /^127(?:\.\d{1,3}){3}$/.test(host);

export interface Auth {
  /** Callers say `Authorization: Bearer <token>`. */
  readonly bearer?: string;
  /** Who asks, or undefined to refuse. */
  readonly verify?: (request: Request) => Promise<string | undefined>;
}

/**
 * Who may ask. Throws `invalid` for an address beyond this machine without a way to tell callers
 * apart: a server that approves actions is not opened by accident.
 */
export function createGuard(
  host: string,
  auth: Auth | undefined,
): (request: Request) => Promise<Passed> {
  if (!isLoopback(host) && !auth?.bearer && !auth?.verify) {
    throw new DuolaneError(
      'invalid',
      `refusing to listen on ${host} without auth: anyone who reaches it could run the agent. Give auth.bearer (--auth bearer:<token>), or listen on 127.0.0.1`,
    );
  }
  return async (request) => {
    const refused = checkOrigin(request, host);
    if (refused) return { response: refused };
    if (auth?.verify) {
      const owner = await auth.verify(request);
      return owner === undefined ? { response: unauthorized() } : { owner };
    }
    if (auth?.bearer === undefined) return {};
    const given = /^Bearer (.+)$/i.exec(request.headers.get('authorization') ?? '')?.[1] ?? '';
    return equal(given, auth.bearer) ? { owner: 'bearer' } : { response: unauthorized() };
  };
}

export interface Passed {
  readonly owner?: string;
  /** The refusal, when there is one. */
  readonly response?: Response;
}

/**
 * A page of another site must not reach a server on this machine: neither by a name that it made
 * resolve to it (Host), nor by a cross-site request (Origin).
 */
function checkOrigin(request: Request, bound: string): Response | undefined {
  const { hostname, host } = new URL(request.url);
  if (isLoopback(bound) && !isLoopback(hostname))
    return refuse(`Host ${hostname} is not this server`);
  const origin = request.headers.get('origin');
  // `null` and junk are origins too; they match no host.
  const from = origin !== null && URL.canParse(origin) ? new URL(origin).host : '';
  if (origin !== null && from !== host) return refuse(`Origin ${origin} may not ask here`);
  return undefined;
}

const refuse = (why: string): Response =>
  new Response(`${why}\n`, { status: 403, headers: { 'content-type': 'text/plain' } });

const unauthorized = (): Response =>
  new Response('This server wants a token: Authorization: Bearer <token>\n', {
    status: 401,
    headers: { 'content-type': 'text/plain', 'www-authenticate': 'Bearer' },
  });

/** Compares hashes, so that neither length nor content shows in the time it takes. */
const equal = (a: string, b: string): boolean => timingSafeEqual(hash(a), hash(b));
const hash = (text: string): Buffer => createHash('sha256').update(text).digest();
