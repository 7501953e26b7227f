import { Agent as HttpAgent, type IncomingMessage, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { DuolaneError } from '../errors.ts';
import { onAbort } from '../stream/abort.ts';
import { type Address, pinnedLookup } from './public-address.ts';

const MAX_REDIRECTS = 5;
/**
 * A connection that was idle for longer is not reused: the server may be closing it at that moment.
 */
const IDLE_MS = 4_000;

/** `fetch` of the platform, or a function that replaces it. */
export type Fetch = typeof globalThis.fetch;

/**
 * The members of a web Response that are needed to read it; several times cheaper than a real one.
 */
export interface LightResponse {
  readonly ok: boolean;
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  /**
   * Can be read once. If the reader breaks out, the rest is discarded as it arrives, until the
   * signal aborts.
   */
  readonly body: AsyncIterable<Uint8Array> | null;
  text(): Promise<string>;
}

export interface LightInit {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal;
}

/** `fetch` over node:http, with its own connections. */
export interface LightFetch {
  /**
   * Resolves with the head of the response; the signal also ends the body. Redirects within the
   * origin are followed. A redirect to another origin throws `invalid`, because the request was not
   * meant for it. The signal is the only time limit.
   */
  (url: URL, init: LightInit): Promise<LightResponse>;
  /** Closes idle connections; those in use close when their request is done. */
  readonly close: () => void;
}

/** Creates a `LightFetch` with its own connection pool. */
export function lightFetch(): LightFetch {
  const agents = new Map<string, HttpAgent>();
  const agentFor = (protocol: string): HttpAgent => {
    const known = agents.get(protocol);
    if (known) return known;
    const options = { keepAlive: true, scheduling: 'lifo', timeout: IDLE_MS } as const;
    const agent = protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options);
    agents.set(protocol, agent);
    return agent;
  };
  const fetch = async (url: URL, init: LightInit): Promise<LightResponse> => {
    let [at, response] = [url, await sendRequest(url, init, agentFor(url.protocol))];
    for (let hops = 0; isRedirect(response, init.method); hops += 1) {
      response.resume();
      const to = new URL(response.headers.location!, at);
      if (to.origin !== url.origin || hops === MAX_REDIRECTS)
        // Origins only: path and query of an address are often a secret, and this message may reach
        // callers of a server that uses the other one.
        throw new DuolaneError(
          'invalid',
          `cannot follow the redirect of ${url.origin}: it leads to ${to.origin}; use that address`,
        );
      [at, response] = [to, await sendRequest(to, init, agentFor(to.protocol))];
    }
    return new NodeResponse(response, init.signal);
  };
  return Object.assign(fetch, { close: () => agents.forEach((agent) => agent.destroy()) });
}

/**
 * Sends one request to one of these addresses, whatever the name of the URL resolves to now. With
 * TLS, the certificate must still be for that name. Follows no redirect.
 */
export async function fetchFrom(
  addresses: readonly Address[],
  url: URL,
  init: LightInit,
): Promise<LightResponse> {
  const options = { lookup: pinnedLookup(addresses), keepAlive: false };
  const agent = url.protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options);
  return new NodeResponse(await sendRequest(url, init, agent), init.signal);
}

/**
 * Whether to follow the response. A POST is only repeated for a status that asks for the same
 * method.
 */
const isRedirect = ({ statusCode = 0, headers }: IncomingMessage, method = 'GET'): boolean =>
  headers.location !== undefined &&
  (statusCode === 307 ||
    statusCode === 308 ||
    (method === 'GET' && /^30[123]$/.test(`${statusCode}`)));

function sendRequest(
  url: URL,
  { method = 'GET', headers = {}, body, signal }: LightInit,
  agent: HttpAgent,
): Promise<IncomingMessage> {
  signal?.throwIfAborted();
  const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) };
  const open = url.protocol === 'https:' ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const request = open(url, { method, agent, headers: { ...headers, ...length } });
    const unlisten = onAbort(signal, (reason) => {
      reject(reason);
      request.destroy();
    });
    request.on('error', reject);
    let isAnswered = false;
    request.on('response', (response) => {
      isAnswered = true;
      resolve(response);
    });
    request.once('close', () => {
      unlisten();
      if (isAnswered) return;
      // A connection that switches protocols (101) emits neither a response nor an error, so the
      // request would never end, whatever the signal does. No effect after an error.
      reject(new DuolaneError('network', `${url.origin} sent no response: the connection closed`));
    });
    request.end(body);
  });
}

class NodeResponse implements LightResponse {
  readonly ok: boolean;
  readonly status: number;
  readonly headers: LightResponse['headers'];
  readonly #message: IncomingMessage;
  readonly #signal: AbortSignal | undefined;

  constructor(message: IncomingMessage, signal: AbortSignal | undefined) {
    const { statusCode = 0, headers } = message;
    this.status = statusCode;
    this.ok = statusCode >= 200 && statusCode < 300;
    this.headers = {
      get(name) {
        const value = headers[name.toLowerCase()];
        return Array.isArray(value) ? value.join(', ') : (value ?? null);
      },
    };
    this.#message = message;
    this.#signal = signal;
  }

  get body(): AsyncIterable<Uint8Array> {
    return this.#read();
  }

  async text(): Promise<string> {
    const parts: Uint8Array[] = [];
    for await (const part of this.#read()) parts.push(part);
    return (parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)).toString('utf8');
  }

  async *#read(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      yield* this.#message.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>;
    } catch (error) {
      this.#signal?.throwIfAborted();
      throw error;
    } finally {
      this.#message.resume();
    }
  }
}
