import type { IncomingMessage } from 'node:http';
import { DuolaneError } from '../errors.ts';
import type { Cancellation } from '../stream/cancellation.ts';
import type { Abortable } from '../stream/types.ts';
import { inheritWebMembers } from './lazy-web-object.ts';

/** What is answered from the incoming message itself, without building a whole Request. */
type Light = Pick<Request, 'method' | 'url' | 'headers' | 'signal' | 'body' | 'text' | 'json'>;

/**
 * The incoming message as a web Request. It is one for everybody who looks (`instanceof` included),
 * but costs a tenth: only what a handler seldom asks for (`clone`, `formData`, …) builds the real
 * one behind it. A body is read once, by `text`, `json` or `body`, as always.
 */
class NodeRequest implements Light {
  readonly method: string;
  readonly location: URL;
  readonly leaving: Cancellation;
  readonly incoming: IncomingMessage;
  #headers: Headers | undefined;
  #whole: Request | undefined;

  constructor(incoming: IncomingMessage, location: URL, leaving: Cancellation) {
    this.incoming = incoming;
    this.method = incoming.method ?? 'GET';
    this.leaving = leaving;
    this.location = location;
  }

  get url(): string {
    return this.location.href;
  }

  get signal(): AbortSignal {
    return this.leaving.signal;
  }

  get headers(): Headers {
    return (this.#headers ??= readHeaders(this.incoming));
  }

  get body(): Request['body'] {
    return this.target.body;
  }

  async text(): Promise<string> {
    return this.#whole ? this.#whole.text() : readText(this.incoming);
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text()) as unknown;
  }

  /** The real one, made when somebody needs it. */
  get target(): Request {
    const { method, headers, url } = this;
    const body = method === 'GET' || method === 'HEAD' ? undefined : bodyOf(this.incoming);
    const more = body !== undefined && { body, duplex: 'half' };
    const init = { method, headers, ...more } as RequestInit;
    return (this.#whole ??= new Request(url, init));
  }
}

inheritWebMembers<Request>(NodeRequest, Request);

/**
 * `leaving` aborts when the client leaves; it is the request's `signal`. Undefined for a request that
 * must be answered with 400: it names no place, or a proxy before us may have read it in another way.
 */
export function toRequest(incoming: IncomingMessage, leaving: Cancellation): Request | undefined {
  if (isAmbiguous(incoming)) return undefined;
  const location = locationOf(incoming);
  return location && (new NodeRequest(incoming, location, leaving) as unknown as Request);
}

/**
 * Whether two readers may read two requests: a second Host (RFC 9112, 3.2), of which Node keeps the
 * first, or a transfer coding besides `chunked`, which Node passes over.
 */
function isAmbiguous({ rawHeaders, headers }: IncomingMessage): boolean {
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') return true;
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++;
  }
  return hosts > 1;
}

/**
 * The host is what the browser says in its header, never what stands in the target: a page of
 * another site can write `//localhost/…` there.
 */
function locationOf(incoming: IncomingMessage): URL | undefined {
  // Express cuts the mount path off `url` and keeps the whole one beside it.
  const { originalUrl, url = '/' } = incoming as { originalUrl?: string; url?: string };
  const target = originalUrl ?? url;
  const path = target.startsWith('/') ? target : withoutHost(target);
  // Put before the path, such a Host would replace it: a proxy that admits some paths saw another one.
  if (/[/\\?#@]/.test(incoming.headers.host ?? '')) return undefined;
  const href = `http://${incoming.headers.host ?? 'localhost'}${path}`;
  try {
    if (href !== last.href) last = { href, location: new URL(href) };
    return last.location;
  } catch {
    // The caller answers a target that is not a URL with 400.
    return undefined;
  }
}

/** The next request is often for the same place, and parsing costs more than comparing. */
let last = { href: '', location: new URL('http://localhost') };

// A proxy writes the whole URL as the target.
const withoutHost = (target: string): string => target.replace(/^(?:https?:\/\/[^/?#]*)?\/?/i, '/');

const light = (request: Request): NodeRequest | undefined =>
  (request as unknown) instanceof NodeRequest ? (request as unknown as NodeRequest) : undefined;

/** What aborts when the client leaves: the request's signal, or what is cheaper to listen to. */
export const disconnectSignal = (request: Request): Required<Abortable> =>
  light(request)?.leaving ?? request;

/** Ends the stream that answers the request, as if the client had left. */
export const endStream = (request: Request, reason: unknown): void =>
  light(request)?.leaving.abort(reason);

/** The request's URL, parsed once. Not to be changed. */
export const urlOf = (request: Request): URL => light(request)?.location ?? new URL(request.url);

/** One header by its name in lower case, without the web's table of all of them. */
export function headerOf(request: Request, name: string): string | null {
  const node = light(request);
  if (!node) return request.headers.get(name);
  const value = node.incoming.headers[name];
  return value === undefined ? null : String(value);
}

function readHeaders({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2)
    headers.append(rawHeaders[i] as string, rawHeaders[i + 1] as string);
  return headers;
}

/** The reason with which everything ends that works for a client that has disconnected. */
export const CLIENT_DISCONNECTED: DuolaneError = new DuolaneError(
  'closed',
  'the client disconnected',
);

const bodyOf = (incoming: IncomingMessage): unknown =>
  incoming.readableEnded ? readBefore(incoming) : ReadableStream.from(readChunks(incoming));

/**
 * The chunks of a body. Throws CLIENT_DISCONNECTED if the client disconnects in the middle: with
 * Node's own error ("aborted"), servers would report the disconnect as a failure of theirs.
 */
async function* readChunks(incoming: IncomingMessage): AsyncGenerator<Buffer, void, undefined> {
  try {
    yield* incoming as AsyncIterable<Buffer>;
  } catch (error) {
    throw incoming.complete ? error : CLIENT_DISCONNECTED;
  }
}

/** Whether the client disconnected before it had sent the request completely. */
export function isCutOff(request: Request): boolean {
  const node = light(request);
  return node !== undefined && node.leaving.aborted && !node.incoming.complete;
}

/** Express and its kin keep a body that they have read, most often parsed; otherwise it is gone. */
function readBefore(incoming: IncomingMessage): string {
  const { body } = incoming as { body?: unknown };
  if (body === undefined || typeof body === 'string') return body ?? '';
  return body instanceof Uint8Array ? toText([Buffer.from(body)]) : JSON.stringify(body);
}

/** Rejects when the client leaves in the middle. */
function readText(incoming: IncomingMessage): Promise<string> {
  if (incoming.readableEnded) return Promise.resolve(readBefore(incoming));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const onClose = (): void => reject(CLIENT_DISCONNECTED);
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.once('end', () => {
      // It closes later, too: a promise that is settled twice costs more than this.
      incoming.off('close', onClose);
      resolve(toText(chunks));
    });
    // Nothing but a disconnect fails here; `close` follows, but Node's own error would come first.
    incoming.once('error', onClose);
    incoming.once('close', onClose);
  });
}

const toText = (chunks: readonly Buffer[]): string =>
  (chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)).toString('utf8');
