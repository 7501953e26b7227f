import { createHash, timingSafeEqual } from 'node:crypto';
import type { SecurityScheme } from '../a2a/index.ts';
import { DuolaneError } from '../errors.ts';

/** Whether an address can be reached from this machine only. */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' || /^\[?::1\]?$/.test(host) || /^127(\.\d{1,3}){3}$/.test(host);

/** Secrets by the name of who holds them; a single one is for a single owner, named after the scheme. */
export type Secrets = string | Readonly<Record<string, string>>;

/** How callers are told apart. With several, any one lets a caller in. */
export interface Auth {
  /** Callers say `Authorization: Bearer <token>`. */
  readonly bearer?: Secrets;
  /** Callers say `<header>: <key>`, by default `X-API-Key`. */
  readonly apiKey?: Secrets | { readonly header: string; readonly keys: Secrets };
  /** Who asks, or undefined to refuse. What it throws is a failure of the server. */
  readonly verify?: (request: Request) => Promise<string | undefined>;
}

/** Whether a request may pass, and as whom. */
export type Guard = (request: Request, options?: { readonly open?: boolean }) => Promise<Passed>;

export interface Passed {
  readonly owner?: string;
  /** The refusal, when there is one. */
  readonly response?: Response;
}

interface Scheme {
  readonly name: string;
  readonly owners: readonly { readonly owner: string; readonly hash: Buffer }[];
  readonly read: (request: Request) => string | undefined;
}

/**
 * Who may ask. Throws `invalid` for an address beyond this machine without a way to tell callers
 * apart: a server that approves actions is not opened by accident. What is `open` (a card, a health
 * check) needs no secret.
 */
export function createGuard(host: string, auth: Auth = {}): Guard {
  const schemes = readSchemes(auth);
  if (!isLoopback(host) && schemes.length === 0 && !auth.verify) {
    throw new DuolaneError(
      'invalid',
      `refusing to listen on ${host} without auth: anyone who reaches it could run the agent. Give auth.bearer (--auth bearer:<token>), or listen on 127.0.0.1`,
    );
  }
  return async (request, { open = false } = {}) => {
    const refused = checkOrigin(request, host);
    if (refused) return { response: refused };
    if (schemes.length === 0 && !auth.verify) return {};
    const owner = ownerOf(request, schemes) ?? (await auth.verify?.(request));
    if (owner !== undefined) return { owner };
    return open ? {} : { response: unauthorized(schemes) };
  };
}

/** What the card says about it. A `verify` function says so itself, in the card's `securitySchemes`. */
export function authSchemes(auth: Auth): Readonly<Record<string, SecurityScheme>> {
  return {
    ...(auth.bearer !== undefined && {
      bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } },
    }),
    ...(auth.apiKey !== undefined && {
      apiKey: {
        apiKeySecurityScheme: { location: 'header', name: readApiKey(auth.apiKey).header },
      },
    }),
  };
}

function readSchemes({ bearer, apiKey }: Auth): readonly Scheme[] {
  const { header, keys } = readApiKey(apiKey);
  return [
    {
      name: 'bearer',
      owners: owners('bearer', bearer),
      read: ({ headers }: Request) =>
        /^Bearer (.+)$/i.exec(headers.get('authorization') ?? '')?.[1],
    },
    {
      name: 'apiKey',
      owners: owners('apiKey', keys),
      read: ({ headers }: Request) => headers.get(header) ?? undefined,
    },
  ].filter((scheme) => scheme.owners.length > 0);
}

function readApiKey(given: Auth['apiKey']): { readonly header: string; readonly keys?: Secrets } {
  if (given === undefined) return { header: 'x-api-key' };
  const named = typeof given === 'object' && 'header' in given && 'keys' in given;
  return named
    ? (given as { header: string; keys: Secrets })
    : { header: 'x-api-key', keys: given as Secrets };
}

function owners(name: string, secrets: Secrets | undefined): Scheme['owners'] {
  const named = typeof secrets === 'string' ? { [name]: secrets } : (secrets ?? {});
  return Object.entries(named).map(([owner, secret]) => {
    if (secret === '') throw new DuolaneError('invalid', `the ${name} secret of ${owner} is empty`);
    return { owner, hash: hash(secret) };
  });
}

function ownerOf(request: Request, schemes: readonly Scheme[]): string | undefined {
  for (const { owners: known, read } of schemes) {
    const given = read(request);
    if (given === undefined) continue;
    // Hashes are compared, all of them, so that neither length nor place shows in the time it takes.
    const digest = hash(given);
    const found = known.filter(({ hash: secret }) => timingSafeEqual(secret, digest));
    if (found[0]) return found[0].owner;
  }
  return undefined;
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

const unauthorized = (schemes: readonly Scheme[]): Response => {
  const names = schemes.map(({ name }) => name).join(' or ') || 'credentials';
  return new Response(`This server wants ${names}; its agent card says how.\n`, {
    status: 401,
    headers: { 'content-type': 'text/plain', 'www-authenticate': 'Bearer' },
  });
};

const hash = (text: string): Buffer => createHash('sha256').update(text).digest();
