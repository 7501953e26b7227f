import { type LightFetch, lightFetch, type LightResponse } from '../../../../http/light-fetch.ts';
import { setMaxListeners } from 'node:events';
import { DuolaneError } from '../../../../errors.ts';
import { type JsonObject, omitUndefined } from '../../../../json.ts';
import { onAbort } from '../../../../stream/abort.ts';
import { encodeRpc } from '../../../../wire/json-rpc.ts';
import { readErrorBody } from './http-errors.ts';
import type { OAuthOptions } from './oauth/types.ts';

/** Authorizes requests that the server refuses. */
export interface Authorizer {
  /** Returns the headers for a request. It may take some time if a token has to be refreshed. */
  headers(signal: AbortSignal): Promise<Readonly<Record<string, string>>>;
  /**
   * Handles a refusal and returns whether a retry may succeed; `used` is the authorization that was
   * refused.
   */
  refused(response: LightResponse, used: string | undefined, signal: AbortSignal): Promise<boolean>;
  close(reason: DuolaneError): void;
  /** Whether it is getting a token, for which a person may be needed. */
  readonly isWorking: boolean;
}

/** How to reach a server over HTTP. */
export interface HttpOptions {
  readonly url: string | URL;
  /** Sent with every request, such as `authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * A `fetch` of your own, for a proxy or other timeouts. By default requests use node:http, with
   * connections that close with this source, and no timeout other than the signals.
   */
  readonly fetch?: typeof globalThis.fetch;
  /** Logs in by OAuth if the server requires it. Without it, the error is `unauthorized`. */
  readonly oauth?: OAuthOptions;
}

/** How often one request may be refused: first to log in, then to request more scopes. */
const MAX_REFUSALS = 3;

const FINISH_MS = 500;

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body?: JsonObject;
}

/**
 * The requests of one connection, grouped in exchanges. `close` ends all of them, including their
 * bodies.
 */
export class HttpConnection {
  readonly url: URL;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: typeof globalThis.fetch | LightFetch;
  readonly #authorizer: Authorizer | undefined;
  readonly #scope = new AbortController();

  constructor({ url, headers = {}, fetch }: HttpOptions, authorizer?: Authorizer) {
    this.url = new URL(url);
    this.#authorizer = authorizer;
    this.#headers = headers;
    this.#fetch = fetch ?? lightFetch();
    // one listener for each exchange, which removes it at its end
    setMaxListeners(0, this.#scope.signal);
  }

  /**
   * Starts an exchange. Dispose it when the last body has been read; until then it follows the
   * signal.
   */
  open(signal?: AbortSignal): Exchange {
    const signals = [signal, this.#scope.signal];
    return new Exchange(this.#fetch, this.#headers, signals, this.#authorizer);
  }

  /** Whether the authorizer is getting a token. */
  get isLoggingIn(): boolean {
    return this.#authorizer?.isWorking === true;
  }

  close(reason: DuolaneError): void {
    this.#scope.abort(reason);
    this.#authorizer?.close(reason);
    if ('close' in this.#fetch) this.#fetch.close();
  }
}

/** A request and its follow-up requests, which end together. */
export class Exchange implements Disposable {
  readonly #fetch: typeof globalThis.fetch | LightFetch;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #authorizer: Authorizer | undefined;
  readonly #scope = new AbortController();
  readonly #unlisten: readonly (() => void)[];

  constructor(
    fetch: typeof globalThis.fetch | LightFetch,
    headers: Readonly<Record<string, string>>,
    signals: readonly (AbortSignal | undefined)[],
    authorizer: Authorizer | undefined,
  ) {
    this.#fetch = fetch;
    this.#headers = headers;
    this.#authorizer = authorizer;
    this.#unlisten = signals.map((signal) =>
      onAbort(signal, (reason) => this.#scope.abort(reason)),
    );
  }

  /** Aborts with the caller's signal, with the connection, and at the end of the exchange. */
  get signal(): AbortSignal {
    return this.#scope.signal;
  }

  /**
   * Sends a request. Throws the reason of the signal, or `network` if the server cannot be reached.
   */
  async ask(url: URL, asked: HttpRequest): Promise<LightResponse> {
    const authorizer = this.#authorizer;
    if (!authorizer) return this.#ask(url, asked);
    let unauthorized = false;
    for (let refusals = 1; ; refusals += 1) {
      const more = await authorizer.headers(this.signal);
      const response = await this.#ask(url, asked, more);
      const { status } = response;
      if ((status !== 401 && status !== 403) || refusals > MAX_REFUSALS) return response;
      // Do not log in twice if the first login did not help.
      if (status === 401 && unauthorized) return response;
      unauthorized ||= status === 401;
      if (!(await authorizer.refused(response, more['authorization'], this.signal)))
        return response;
      await readErrorBody(response);
    }
  }

  async #ask(
    url: URL,
    { method, headers, body }: HttpRequest,
    more?: Readonly<Record<string, string>>,
  ): Promise<LightResponse> {
    const own = omitUndefined<Record<string, string>>(headers);
    const init = {
      method,
      headers: { ...this.#headers, ...more, ...own },
      signal: this.signal,
      ...(body && { body: encodeRpc(body) }),
    };
    try {
      return await this.#fetch(url, init);
    } catch (error) {
      this.signal.throwIfAborted();
      throw unreachable(url, error);
    }
  }

  /**
   * Ends the exchange after the response has arrived: gives the rest of the stream a moment to end,
   * so that its connection can be reused. The caller's signal has no effect any more.
   */
  finish(): void {
    for (const stop of this.#unlisten) stop();
    setTimeout(() => this[Symbol.dispose](), FINISH_MS).unref();
  }

  /** Ends the exchange and drops what was not read. */
  [Symbol.dispose](): void {
    for (const stop of this.#unlisten) stop();
    this.#scope.abort(new DuolaneError('closed', 'the exchange has ended'));
  }
}

function unreachable(url: URL, error: unknown): DuolaneError {
  const cause: unknown = error instanceof Error && error.cause ? error.cause : error;
  const why = cause instanceof Error && cause.message ? cause.message : String(error);
  return new DuolaneError('network', `the tool server at ${url.origin} cannot be reached: ${why}`, {
    cause: error,
  });
}
