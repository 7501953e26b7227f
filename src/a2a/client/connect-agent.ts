import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { CLIENT_10 } from '../protocol/client-dialect.ts';
import { RESUME_EXTENSION } from '../protocol/model.ts';
import { CLIENT_03 } from '../v0.3/json-rpc-dialect.ts';
import { CLIENT_03_REST } from '../v0.3/rest-dialect.ts';
import { A2AClient } from './a2a-client.ts';
import type { A2ATransport, ClientFetch } from './a2a-transport.ts';
import {
  chooseInterface,
  type ClientBinding,
  type HttpBinding,
  type Interface,
  type Preference,
} from './choose-interface.ts';
import { cardAddress, fetchCard } from './fetch-card.ts';
import { A2AHttpTransport } from './http-transport.ts';

/** Options of `connectAgent`. */
export interface HttpConnectOptions extends Preference<HttpBinding> {
  /** Headers of every request, such as `authorization`; sent to the origin of the card only. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Further origins that the card may name and that also get the headers. */
  readonly origins?: readonly string[];
  /** URIs of extensions that the caller supports; the agent may require some. */
  readonly extensions?: readonly string[];
  /** Replaces the global `fetch`. */
  readonly fetch?: ClientFetch;
  readonly signal?: AbortSignal;
  /** Reconnects a stream that has sent no byte for this time. */
  readonly silenceMs?: number;
}

/** The bindings that need `fetch` only, so that they work in browsers and workers too. */
const HTTP_BINDINGS: readonly ClientBinding[] = ['JSONRPC', 'HTTP+JSON'];

/**
 * Reads the card of an agent and chooses a version and a binding that both sides support. It runs
 * wherever `fetch` does: browsers, workers, Node, Bun, Deno. `agent` is the agent's base URL, the
 * URL of its card, or a card that the caller has and trusts.
 *
 * @example
 * const client = await connectAgent('http://127.0.0.1:3000');
 * for await (const event of client.stream('hello')) console.log(event);
 */
export function connectAgent(
  agent: string | JsonObject,
  options: HttpConnectOptions = {},
): Promise<A2AClient> {
  return connectOver(agent, options, HTTP_BINDINGS, openHttp);
}

/** Connects over one of these bindings, with the transport that `open` makes for it. */
export async function connectOver<
  Options extends HttpConnectOptions | (Omit<HttpConnectOptions, 'binding'> & Preference),
>(
  agent: string | JsonObject,
  options: Options,
  bindings: readonly ClientBinding[],
  open: (chosen: Interface, options: Options) => A2ATransport | Promise<A2ATransport>,
): Promise<A2AClient> {
  if (typeof agent !== 'string') {
    const chosen = chooseInterface(agent, options, bindings, false);
    return new A2AClient(agent, chosen, await open(chosen, options));
  }
  const home = cardAddress(agent);
  const card = await fetchCard(home.href, options);
  const chosen = chooseInterface(card, options, bindings, home.protocol === 'https:');
  checkOrigin(chosen, home, options.origins ?? []);
  return new A2AClient(card, chosen, await open(chosen, options));
}

/** Throws if the card names a foreign origin, which would get the caller's credentials. */
function checkOrigin({ url, binding }: Interface, home: URL, trusted: readonly string[]): void {
  const { origin, hostname, protocol, host } = new URL(url);
  const named = origin === 'null' ? `${protocol}//${host}` : origin;
  // The gRPC binding has its own port, so only the host name has to match. Credentials for a card
  // that was read over TLS are sent over TLS only.
  const isSafe = protocol === 'grpcs:' || home.protocol !== 'https:';
  const own = binding === 'GRPC' ? isSafe && hostname === home.hostname : origin === home.origin;
  if (own || trusted.includes(named)) return;
  throw new DuolaneError(
    'invalid',
    `the agent card at ${home.href} names the origin ${named}; add it to the option "origins" to trust it`,
  );
}

/** Opens JSON-RPC or REST over `fetch`. */
export function openHttp(
  chosen: Interface,
  options: Omit<HttpConnectOptions, 'binding'>,
): A2ATransport {
  const { url, binding, version, tenant } = chosen;
  const { headers = {}, extensions = [], fetch = globalThis.fetch, silenceMs = 60_000 } = options;
  const dialect03 = binding === 'JSONRPC' ? CLIENT_03 : CLIENT_03_REST;
  const dialect = version === '1.0' ? CLIENT_10 : dialect03;
  return new A2AHttpTransport({
    url,
    tenant,
    headers,
    extensions: [RESUME_EXTENSION, ...extensions],
    binding: binding as HttpBinding,
    dialect,
    fetch,
    silenceMs,
  });
}
