import { isIP } from 'node:net';
import { DuolaneError, unauthorized } from '../../../../../errors.ts';
import { isObject, type JsonObject, tryParse } from '../../../../../json.ts';
import {
  type Fetch,
  fetchFrom,
  type LightInit,
  type LightResponse,
} from '../../../../../http/light-fetch.ts';
import { type Address, addressesOf, isPrivateAddress } from '../../../../../http/public-address.ts';
import { readText } from '../../message-body.ts';

/** The size limit of a response of an authorization server. */
const MAX_BYTES = 256 * 1024;
const TIMEOUT_MS = 30_000;
const MAX_REDIRECTS = 5;

/**
 * The HTTP requests of a login, each with a timeout. A POST follows no redirect. A GET follows a
 * few, and each hop is checked like the first: it needs TLS, and no private address unless the tool
 * server that the user dialled has one itself. The tool server names these URLs, and must not get
 * this machine to read from its network. A request connects to the addresses that were checked. A
 * `fetch` of the program resolves names itself, so only the names are checked for it.
 */
export class Documents {
  readonly #fetch: Fetch | undefined;
  readonly #signal: AbortSignal;
  readonly #server: URL;
  readonly #resolve: (url: URL) => Promise<readonly Address[]>;
  #allowsPrivate: Promise<boolean> | undefined;

  constructor(
    fetch: Fetch | undefined,
    signal: AbortSignal,
    server: URL,
    resolve: (url: URL) => Promise<readonly Address[]> = addressesOf,
  ) {
    this.#fetch = fetch;
    this.#signal = signal;
    this.#server = server;
    this.#resolve = resolve;
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
    const init = { method: 'POST', headers, body };
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
    init: LightInit,
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

  async #follow(first: URL, init: LightInit): Promise<LightResponse> {
    let url = first;
    for (let hops = 0; hops <= MAX_REDIRECTS; hops += 1) {
      const response = await this.#send(url, init);
      const location = response.headers.get('location');
      if (response.status < 300 || response.status > 399 || location === null) return response;
      for await (const _ of response.body ?? []) break; // discards the rest
      if (init.method === 'POST' || !URL.canParse(location, url.href)) break;
      url = new URL(location, url);
    }
    throw unauthorized(
      `cannot log in: ${first.origin} redirects a POST, more than ${MAX_REDIRECTS} times or to an invalid address`,
    );
  }

  async #send(url: URL, init: LightInit): Promise<LightResponse> {
    const addresses = await this.#checked(url);
    if (!this.#fetch) return fetchFrom(addresses, url, init);
    return this.#fetch(url, { ...init, redirect: 'manual' });
  }

  /** The addresses of a URL. Throws `unauthorized` if one of them must not be used. */
  async #checked(url: URL): Promise<readonly Address[]> {
    safe(url);
    const found = await this.#addresses(url);
    if (url.origin === this.#server.origin || !hasPrivate(found)) return found;
    this.#allowsPrivate ??= this.#isServerPrivate();
    if (await this.#allowsPrivate) return found;
    throw unauthorized(
      `cannot log in at ${url.origin}: it is a private address, named by the public server ${this.#server.origin}`,
    );
  }

  #addresses(url: URL): Promise<readonly Address[]> {
    if (!this.#fetch) return this.#resolve(url);
    // The program's `fetch` may reach names that this machine cannot resolve.
    return this.#resolve(url).catch(() => []);
  }

  /**
   * Whether the tool server is in a private network itself. Its owner controls what its name
   * resolves to, and could add a private address or return one for this question only. So a name
   * counts as private only if all its addresses are, and if a server there has its certificate.
   */
  async #isServerPrivate(): Promise<boolean> {
    const server = this.#server;
    const host = server.hostname.replace(/^\[|\]$/g, '');
    if (isLocal(server)) return true;
    if (isIP(host) !== 0) return isPrivateAddress(host);
    // A name that cannot be resolved has no private address.
    const found = await this.#addresses(server).catch(() => []);
    if (found.length === 0 || !found.every(({ address }) => isPrivateAddress(address)))
      return false;
    if (this.#fetch) return true;
    if (server.protocol !== 'https:') return false;
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(TIMEOUT_MS)]);
    const end = new AbortController();
    try {
      const url = new URL('/', server);
      await fetchFrom(found, url, { signal: AbortSignal.any([signal, end.signal]) });
      return true;
    } catch {
      // No server there has the certificate.
      this.#signal.throwIfAborted();
      return false;
    } finally {
      end.abort();
    }
  }
}

const hasPrivate = (found: readonly Address[]): boolean =>
  found.some(({ address }) => isPrivateAddress(address));

/** An error response of the authorization server, with its OAuth error code. */
export class OAuthRefusal extends DuolaneError {
  readonly error: string;

  constructor(error: string, why: string | undefined, url: URL) {
    const detail = `${error}${why === undefined ? '' : ` (${why})`}`;
    super('unauthorized', `${url.origin} refused the login: ${detail}`);
    this.error = error;
  }
}

const isLocal = ({ hostname }: URL): boolean =>
  /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);

/** Checks that tokens and codes are sent over TLS, or stay on this machine. */
export function safe(url: URL): URL {
  if (url.protocol === 'https:' || (url.protocol === 'http:' && isLocal(url))) return url;
  throw unauthorized(`cannot log in at ${url.origin}: expected an https address`);
}

export const urlIn = (document: JsonObject, key: string): URL | undefined => {
  const value = document[key];
  return typeof value === 'string' && URL.canParse(value) ? safe(new URL(value)) : undefined;
};
