import { DuolaneError } from '../../errors.ts';
import { isObject, tryParse, type JsonObject } from '../../json.ts';
import { onAbort } from '../../stream/abort.ts';
import type { ClientFetch } from './a2a-transport.ts';
import { httpFailure, readResponse, refusedRedirect } from './read-response.ts';

/** How to read a card. */
export interface CardRequest {
  readonly headers?: Readonly<Record<string, string>>;
  readonly fetch?: ClientFetch;
  readonly signal?: AbortSignal;
}

/** The URL of the card: `url` itself if its path ends with `.json`. Keeps the query. */
export function cardAddress(url: string): URL {
  if (!URL.canParse(url))
    throw new DuolaneError(
      'invalid',
      `invalid agent URL ${JSON.stringify(url)}: expected an address such as https://example.com`,
    );
  const address = new URL(url);
  address.hash = '';
  if (address.pathname.endsWith('.json')) return address;
  const path = address.pathname.endsWith('/') ? address.pathname : `${address.pathname}/`;
  address.pathname = `${path}.well-known/agent-card.json`;
  return address;
}

const MAX_REDIRECTS = 5;
/** How long a server may take to send its card, with redirects. */
const CARD_MS = 30_000;

/**
 * Follows redirects within the origin only: another origin would get the caller's credentials.
 * Throws `timeout` after 30 seconds.
 */
export async function fetchCard(address: string, options: CardRequest): Promise<JsonObject> {
  const limit = new AbortController();
  const unlisten = onAbort(options.signal, (reason) => limit.abort(reason));
  const timer = setTimeout(
    () =>
      limit.abort(
        new DuolaneError(
          'timeout',
          `the server did not send the agent card at ${address} within ${CARD_MS} ms; try again`,
        ),
      ),
    CARD_MS,
  );
  try {
    return await readCardFrom(address, { ...options, signal: limit.signal });
  } finally {
    clearTimeout(timer);
    unlisten();
  }
}

async function readCardFrom(address: string, options: CardRequest): Promise<JsonObject> {
  const { fetch = globalThis.fetch, headers = {}, signal } = options;
  for (let at = address, hops = 0; ; hops++) {
    const response = await fetch(at, {
      headers: { accept: 'application/json', 'a2a-version': '1.0', ...headers },
      redirect: 'manual',
      ...(signal && { signal }),
    }).catch((cause: unknown) => {
      signal?.throwIfAborted();
      throw new DuolaneError('network', `cannot reach ${at}; check that the server is running`, {
        cause,
      });
    });
    if (response.type === 'opaqueredirect') throw refusedRedirect(at, null);
    const location = response.headers.get('location');
    if (location !== null && response.status >= 300 && response.status < 400) {
      await response.body?.cancel();
      const to = new URL(location, at);
      if (to.origin !== new URL(address).origin || hops === MAX_REDIRECTS)
        throw refusedRedirect(at, to.href);
      at = to.href;
      continue;
    }
    return await readCard(response, at, signal);
  }
}

async function readCard(
  response: Response,
  at: string,
  signal: AbortSignal | undefined,
): Promise<JsonObject> {
  const text = await readResponse(response).catch((cause: unknown) => {
    signal?.throwIfAborted();
    if (cause instanceof DuolaneError) throw cause;
    throw new DuolaneError(
      'network',
      `the connection was lost while reading the agent card at ${at}; try again`,
      { cause },
    );
  });
  if (!response.ok)
    throw httpFailure(
      response,
      `cannot read the agent card at ${at}: the server returned HTTP ${response.status}`,
    );
  const card = tryParse(text);
  if (isObject(card)) return card;
  throw new DuolaneError(
    'not_found',
    `${at} did not return an agent card: expected a JSON object; check the address`,
  );
}
