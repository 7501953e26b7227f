import { DuolaneError, unauthorized } from '../../../../../errors.ts';
import { isObject, type JsonObject, tryParse } from '../../../../../json.ts';
import type { Fetch } from '../../../../../http/light-fetch.ts';
import { addressesOf, isPrivateAddress } from '../../../../../http/public-address.ts';
import { readText } from '../../message-body.ts';

/** The size limit of a response of an authorization server. */
const MAX_BYTES = 256 * 1024;
const TIMEOUT_MS = 30_000;
const MAX_REDIRECTS = 5;

/**
 * The HTTP requests of a login, each with a timeout. A POST follows no redirect. A GET follows a
 * few, and each hop is checked like the first: it needs TLS, and no private address unless the tool
 * server that the user dialled has one itself. The tool server names these URLs, and must not get
 * this machine to read from its network.
 */
export class Documents {
  readonly #fetch: Fetch;
  readonly #signal: AbortSignal;
  readonly #server: URL;
  #allowsPrivate: Promise<boolean> | undefined;

  constructor(fetch: Fetch, signal: AbortSignal, server: URL) {
    this.#fetch = fetch;
    this.#signal = signal;
    this.#server = server;
  }

  /** Reads a document; `undefined` for an error response or a body that is not a JSON object. */
  async find(url: URL): Promise<JsonObject | undefined> {
    const { ok, body } = await this.#ask(url, { headers: { accept: 'application/json' } });
    return ok ? body : undefined;
  }

  /** Sends a POST. Throws the error of the authorization server (`invalid_grant: …`). */
  async post(
    url: URL,
    body: string,
    headers: Readonly<Record<string, string>>,
  ): Promise<JsonObject> {
    const init = { method: 'POST', redirect: 'error', headers, body } as const;
    const answer = await this.#ask(url, init);
    if (answer.ok && answer.body) return answer.body;
    const { error, error_description: why } = answer.body ?? {};
    throw new OAuthRefusal(
      typeof error === 'string' ? error : `HTTP ${answer.status}`,
      typeof why === 'string' ? why : undefined,
      url,
    );
  }

  async #ask(
    url: URL,
    init: RequestInit,
  ): Promise<{ readonly ok: boolean; readonly status: number; readonly body?: JsonObject }> {
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(TIMEOUT_MS)]);
    try {
      const response = await this.#follow(url, { ...init, signal });
      const { ok, status } = response;
      const body = tryParse(await readText(response, MAX_BYTES));
      return { ok, status, ...(isObject(body) && { body }) };
    } catch (error) {
      this.#signal.throwIfAborted();
      if (error instanceof DuolaneError) throw error;
      throw new DuolaneError('network', `cannot log in: ${url.origin} cannot be reached`, {
        cause: error,
      });
    }
  }

  async #follow(first: URL, init: RequestInit): Promise<Response> {
    let url = first;
    for (let hops = 0; hops <= MAX_REDIRECTS; hops += 1) {
      await this.#check(url);
      const response = await this.#fetch(url, { redirect: 'manual', ...init });
      const location = response.headers.get('location');
      if (response.status < 300 || response.status > 399 || location === null) return response;
      await response.body?.cancel();
      if (!URL.canParse(location, url.href)) break;
      url = new URL(location, url);
    }
    throw unauthorized(
      `cannot log in: ${first.origin} redirects more than ${MAX_REDIRECTS} times or to an invalid address`,
    );
  }

  async #check(url: URL): Promise<void> {
    safe(url);
    if (url.origin === this.#server.origin) return;
    this.#allowsPrivate ??= isPrivate(this.#server);
    if ((await this.#allowsPrivate) || !(await isPrivate(url))) return;
    throw unauthorized(
      `cannot log in at ${url.origin}: it is a private address, named by the public server ${this.#server.origin}`,
    );
  }
}

/** Whether a host has a private address. A name that cannot be resolved has none. */
async function isPrivate(url: URL): Promise<boolean> {
  // The request that follows reports the name.
  const found = await addressesOf(url).catch(() => []);
  return found.some(({ address }) => isPrivateAddress(address));
}

/** An error response of the authorization server, with its OAuth error code. */
export class OAuthRefusal extends DuolaneError {
  readonly error: string;

  constructor(error: string, why: string | undefined, url: URL) {
    const detail = `${error}${why === undefined ? '' : ` (${why})`}`;
    super('unauthorized', `${url.origin} refused the login: ${detail}`);
    this.error = error;
  }
}

/** Checks that tokens and codes are sent over TLS, or stay on this machine. */
export function safe(url: URL): URL {
  const local = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
  if (url.protocol === 'https:' || (url.protocol === 'http:' && local)) return url;
  throw unauthorized(`cannot log in at ${url.origin}: expected an https address`);
}

export const urlIn = (document: JsonObject, key: string): URL | undefined => {
  const value = document[key];
  return typeof value === 'string' && URL.canParse(value) ? safe(new URL(value)) : undefined;
};
