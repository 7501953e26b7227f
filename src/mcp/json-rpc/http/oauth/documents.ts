import { DuolaneError } from '../../../../errors.ts';
import { isObject, type JsonObject } from '../../../../json.ts';
import { readText } from '../body.ts';

/** The largest document or answer of an authorization server that is read. */
const MAX_BYTES = 256 * 1024;
const TIMEOUT_MS = 30_000;

export type Fetch = typeof globalThis.fetch;

/** The requests of the login; each has a time limit and follows no redirect with what it carries. */
export class Documents {
  readonly #fetch: Fetch;
  readonly #signal: AbortSignal;

  constructor(fetch: Fetch, signal: AbortSignal) {
    this.#fetch = fetch;
    this.#signal = signal;
  }

  /** Undefined if there is no such document: any refusal, or something that is no JSON object. */
  async find(url: URL): Promise<JsonObject | undefined> {
    const { ok, body } = await this.#ask(url, { headers: { accept: 'application/json' } });
    return ok ? body : undefined;
  }

  /** The answer to a POST, or the refusal in the words of OAuth (`invalid_grant: …`). */
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
      const response = await this.#fetch(safe(url), { ...init, signal });
      const { ok, status } = response;
      const body = parse(await readText(response, MAX_BYTES));
      return { ok, status, ...(body && { body }) };
    } catch (error) {
      this.#signal.throwIfAborted();
      if (error instanceof DuolaneError) throw error;
      throw new DuolaneError('network', `${url.origin} cannot be reached to log in`, {
        cause: error,
      });
    }
  }
}

/** A refusal of the authorization server, by its own name for it. */
export class OAuthRefusal extends DuolaneError {
  readonly error: string;

  constructor(error: string, why: string | undefined, url: URL) {
    const said = `${error}${why === undefined ? '' : ` (${why})`}`;
    super('unauthorized', `${url.origin} refused the login: ${said}`);
    this.error = error;
  }
}

/** Tokens and codes go over TLS, or stay on this machine. */
export function safe(url: URL): URL {
  const local = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
  if (url.protocol === 'https:' || (url.protocol === 'http:' && local)) return url;
  throw new DuolaneError('unauthorized', `${url.origin} wants a login without TLS; refused`);
}

export const urlIn = (document: JsonObject, key: string): URL | undefined => {
  const value = document[key];
  return typeof value === 'string' && URL.canParse(value) ? safe(new URL(value)) : undefined;
};

function parse(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
