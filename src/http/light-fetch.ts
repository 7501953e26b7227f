import { Agent as HttpAgent, type IncomingMessage, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { DuolaneError } from '../errors.ts';
import { onAbort } from '../stream/abort.ts';

const MAX_REDIRECTS = 5;
/** A connection that is idle for longer is not used again: the server may be closing it just then. */
const IDLE_MS = 4_000;

/** As much of a Response as one needs to read it; several times cheaper than a real one. */
export interface LightResponse {
  readonly ok: boolean;
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  /** Read once. If it is left early, the rest is read to nowhere until the signal ends it. */
  readonly body: AsyncIterable<Uint8Array> | null;
  text(): Promise<string>;
}

export interface LightInit {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal;
}

/** `fetch` over node:http, with connections of its own. */
export interface LightFetch {
  /**
   * Resolves with the head of the answer; the signal ends the body too. Redirects are followed
   * within the origin and as they came; one to another place is refused (`invalid`), since what we
   * send was not meant for it. No time limit but the signal.
   */
  (url: URL, init: LightInit): Promise<LightResponse>;
  /** Closes the connections that are idle; those in use close when they are done. */
  readonly close: () => void;
}

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
    let [at, answer] = [url, await ask(url, init, agentFor(url.protocol))];
    for (let hops = 0; isRedirect(answer, init.method); hops += 1) {
      answer.resume();
      const to = new URL(answer.headers.location!, at);
      if (to.origin !== url.origin || hops === MAX_REDIRECTS)
        throw new DuolaneError('invalid', `${url.href} has moved to ${to.href}: use that address`);
      [at, answer] = [to, await ask(to, init, agentFor(to.protocol))];
    }
    return new Answer(answer, init.signal);
  };
  return Object.assign(fetch, { close: () => agents.forEach((agent) => agent.destroy()) });
}

/** A POST is repeated only where the server says that it is to be one again. */
const isRedirect = ({ statusCode = 0, headers }: IncomingMessage, method = 'GET'): boolean =>
  headers.location !== undefined &&
  (statusCode === 307 ||
    statusCode === 308 ||
    (method === 'GET' && /^30[123]$/.test(`${statusCode}`)));

function ask(
  url: URL,
  { method = 'GET', headers = {}, body, signal }: LightInit,
  agent: HttpAgent,
): Promise<IncomingMessage> {
  signal?.throwIfAborted();
  const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) };
  const request = url.protocol === 'https:' ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const made = request(url, { method, agent, headers: { ...headers, ...length } });
    const unlisten = onAbort(signal, (reason) => {
      reject(reason);
      made.destroy();
    });
    made.on('error', reject);
    made.on('response', resolve);
    made.once('close', unlisten);
    made.end(body);
  });
}

class Answer implements LightResponse {
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
