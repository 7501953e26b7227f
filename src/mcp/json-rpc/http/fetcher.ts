import { setMaxListeners } from 'node:events';
import { DuolaneError } from '../../../errors.ts';
import type { JsonObject } from '../../../json.ts';
import { onAbort } from '../../../stream/abort.ts';

export interface HttpOptions {
  readonly url: string | URL;
  /** Sent with every request, such as `authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Your own `fetch`, for a proxy or other time limits; Node's gives up on 5 minutes of silence. */
  readonly fetch?: typeof globalThis.fetch;
}

export interface Asked {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body?: JsonObject;
}

/** The requests of one connection, in exchanges. `close` ends all of them, bodies included. */
export class Fetcher {
  readonly url: URL;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: typeof globalThis.fetch;
  readonly #scope = new AbortController();

  constructor({ url, headers = {}, fetch = globalThis.fetch }: HttpOptions) {
    this.url = new URL(url);
    this.#headers = headers;
    this.#fetch = fetch;
    setMaxListeners(0, this.#scope.signal); // one for each exchange, and they all leave
  }

  /** Close it when the last body has been read: until then it is tied to the signal. */
  open(signal?: AbortSignal): Exchange {
    return new Exchange(
      (url, init) =>
        this.#fetch(url, { ...init, headers: { ...this.#headers, ...(init.headers as object) } }),
      [signal, this.#scope.signal],
    );
  }

  close(reason: DuolaneError): void {
    this.#scope.abort(reason);
  }
}

/** A request and what follows from it, which ends as one. */
export class Exchange implements Disposable {
  readonly #fetch: (url: URL, init: RequestInit) => Promise<Response>;
  readonly #scope = new AbortController();
  readonly #unlisten: readonly (() => void)[];

  constructor(
    fetch: (url: URL, init: RequestInit) => Promise<Response>,
    signals: readonly (AbortSignal | undefined)[],
  ) {
    this.#fetch = fetch;
    this.#unlisten = signals.map((signal) =>
      onAbort(signal, (reason) => this.#scope.abort(reason)),
    );
  }

  /** Aborts with the caller's signal, with the connection, and at the end of the exchange. */
  get signal(): AbortSignal {
    return this.#scope.signal;
  }

  /** Throws the signal's reason if that was it, `network` if the server cannot be reached. */
  async ask(url: URL, { method, headers, body }: Asked): Promise<Response> {
    try {
      return await this.#fetch(url, {
        method,
        headers: defined(headers),
        signal: this.signal,
        ...(body && { body: JSON.stringify(body) }),
      });
    } catch (error) {
      this.signal.throwIfAborted();
      throw unreachable(url, error);
    }
  }

  /** Drops what has not been read. */
  [Symbol.dispose](): void {
    for (const stop of this.#unlisten) stop();
    this.#scope.abort(new DuolaneError('closed', 'the exchange is over'));
  }
}

const defined = (headers: Asked['headers']): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );

function unreachable(url: URL, error: unknown): DuolaneError {
  const cause: unknown = error instanceof Error && error.cause ? error.cause : error;
  const why = cause instanceof Error && cause.message ? cause.message : String(error);
  return new DuolaneError('network', `the tool server at ${url.origin} cannot be reached: ${why}`, {
    cause: error,
  });
}
