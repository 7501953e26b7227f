import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';

/** What is answered from the incoming message itself, without building a whole Request. */
type Light = Pick<Request, 'method' | 'url' | 'headers' | 'signal' | 'body' | 'text' | 'json'>;

/**
 * The incoming message as a web Request. It is one for everybody who looks (`instanceof` included),
 * but costs a tenth: only what a handler seldom asks for (`clone`, `formData`, …) builds the real
 * one behind it. A body is read once, by `text`, `json` or `body`, as always.
 */
class NodeRequest implements Light {
  readonly method: string;
  readonly url: string;
  readonly signal: AbortSignal;
  readonly #incoming: IncomingMessage;
  #headers: Headers | undefined;
  #whole: Request | undefined;

  constructor(incoming: IncomingMessage, signal: AbortSignal) {
    this.#incoming = incoming;
    this.method = incoming.method ?? 'GET';
    this.signal = signal;
    // Express cuts the mount path off `url` and keeps the whole one beside it.
    const { originalUrl = incoming.url } = incoming as { originalUrl?: string };
    const base = `http://${incoming.headers.host ?? 'localhost'}`;
    this.url = new URL(originalUrl ?? '/', base).href;
  }

  get headers(): Headers {
    return (this.#headers ??= readHeaders(this.#incoming));
  }

  get body(): Request['body'] {
    return this.whole.body;
  }

  async text(): Promise<string> {
    if (this.#whole) return this.#whole.text();
    const chunks: Buffer[] = [];
    for await (const chunk of this.#incoming) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks).toString('utf8');
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text()) as unknown;
  }

  /** The real one, made when somebody needs it. */
  get whole(): Request {
    const { method, headers, url } = this;
    const body = method === 'GET' || method === 'HEAD' ? undefined : Readable.toWeb(this.#incoming);
    const init = { method, headers, ...(body && { body, duplex: 'half' }) } as RequestInit;
    return (this.#whole ??= new Request(url, init));
  }
}

// Whatever else a Request has comes from the real one.
for (const name of Object.getOwnPropertyNames(Request.prototype)) {
  if (name in NodeRequest.prototype || ['method', 'url', 'signal'].includes(name)) continue;
  Object.defineProperty(NodeRequest.prototype, name, {
    configurable: true,
    get(this: NodeRequest): unknown {
      const { whole } = this;
      const member: unknown = Reflect.get(whole, name);
      return typeof member === 'function' ? (member.bind(whole) as unknown) : member;
    },
  });
}
Object.setPrototypeOf(NodeRequest.prototype, Request.prototype);

/** `signal` is the request's own: it aborts when the client leaves. */
export const toRequest = (incoming: IncomingMessage, signal: AbortSignal): Request =>
  new NodeRequest(incoming, signal) as unknown as Request;

function readHeaders({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2)
    headers.append(rawHeaders[i] as string, rawHeaders[i + 1] as string);
  return headers;
}
