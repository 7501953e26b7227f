import type { IncomingMessage } from 'node:http';
import { DuolaneError } from '../errors.ts';
import type { Cancellation } from '../stream/cancellation.ts';
import type { Abortable } from '../stream/types.ts';
import { inheritWebMembers } from './lazy-web-object.ts';
import {
  type ReceivedBytes,
  type Receiving,
  receivingTooMuch,
  UNCOUNTED_BYTES,
} from './received-bytes.ts';

/** Members that are read from the incoming message itself, without building a real Request. */
type Light = Pick<Request, 'method' | 'url' | 'headers' | 'signal' | 'body' | 'text' | 'json'>;

/**
 * The incoming message as a web Request. It behaves like one (`instanceof` included) at a tenth of
 * the cost: only rarely used members (`clone`, `formData`, …) create the real Request. As always, a
 * body can be read once, by `text`, `json` or `body`.
 */
class NodeRequest implements Light {
  readonly method: string;
  readonly location: URL;
  readonly disconnect: Cancellation;
  readonly incoming: IncomingMessage;
  owner: string | undefined;
  readonly #received: ReceivedBytes | undefined;
  #headers: Headers | undefined;
  #target: Request | undefined;

  constructor(
    incoming: IncomingMessage,
    location: URL,
    disconnect: Cancellation,
    received: ReceivedBytes | undefined,
  ) {
    this.incoming = incoming;
    this.#received = received;
    this.method = incoming.method ?? 'GET';
    this.disconnect = disconnect;
    this.location = location;
  }

  get url(): string {
    return this.location.href;
  }

  get signal(): AbortSignal {
    return this.disconnect.signal;
  }

  get headers(): Headers {
    return (this.#headers ??= readHeaders(this.incoming));
  }

  get body(): Request['body'] {
    return this.target.body;
  }

  async text(): Promise<string> {
    return this.#target ? this.#target.text() : readText(this.incoming, this.#received);
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text()) as unknown;
  }

  /** The real Request, created on first use. */
  get target(): Request {
    const { method, headers, url } = this;
    const body =
      method === 'GET' || method === 'HEAD' ? undefined : bodyOf(this.incoming, this.#received);
    const more = body !== undefined && { body, duplex: 'half' };
    const init = { method, headers, ...more } as RequestInit;
    return (this.#target ??= new Request(url, init));
  }
}

inheritWebMembers<Request>(NodeRequest, Request);

/**
 * Converts an incoming message to a Request whose `signal` is that of `disconnect`, which aborts
 * when the client disconnects. Returns `undefined` for a request that must get status 400: its
 * target is not a URL, or a proxy in front of us may have read it differently. `received` counts
 * the bytes of its body.
 */
export function toRequest(
  incoming: IncomingMessage,
  disconnect: Cancellation,
  received?: ReceivedBytes,
): Request | undefined {
  if (isAmbiguous(incoming)) return undefined;
  const location = locationOf(incoming);
  if (!location) return undefined;
  return new NodeRequest(incoming, location, disconnect, received) as unknown as Request;
}

/**
 * Whether two programs may read the request differently: a second Host header (RFC 9112, 3.2), of
 * which Node keeps the first, or a transfer coding besides `chunked`, which Node ignores.
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
 * The URL of the request. The host comes from the Host header, which the browser sets, never from
 * the request target: a page of another site can write `//localhost/…` there.
 */
function locationOf(incoming: IncomingMessage): URL | undefined {
  // Express removes the mount path from `url` and keeps the complete path in `originalUrl`.
  const { originalUrl, url = '/' } = incoming as { originalUrl?: string; url?: string };
  const target = originalUrl ?? url;
  const path = target.startsWith('/') ? target : withoutHost(target);
  // Such a Host would replace the path in the URL below: a proxy that only admits certain paths
  // would have checked another path.
  if (/[/\\?#@]/.test(incoming.headers.host ?? '')) return undefined;
  const href = `http://${incoming.headers.host ?? 'localhost'}${path}`;
  try {
    if (href !== last.href) last = { href, location: new URL(href) };
    return last.location;
  } catch {
    // The target is not a URL: the caller responds with 400.
    return undefined;
  }
}

/** The last URL: the next request often has the same one, and comparing is cheaper than parsing. */
let last = { href: '', location: new URL('http://localhost') };

// A client of a proxy sends the complete URL as the request target.
const withoutHost = (target: string): string => target.replace(/^(?:https?:\/\/[^/?#]*)?\/?/i, '/');

const asNodeRequest = (request: Request): NodeRequest | undefined =>
  (request as unknown) instanceof NodeRequest ? (request as unknown as NodeRequest) : undefined;

/**
 * What aborts when the client disconnects: a Cancellation, which is cheap to listen to, or the
 * signal.
 */
export const disconnectSignal = (request: Request): Required<Abortable> =>
  asNodeRequest(request)?.disconnect ?? request;

/** Ends the stream that responds to the request, as if the client had disconnected. */
export const endStream = (request: Request, reason: unknown): void =>
  asNodeRequest(request)?.disconnect.abort(reason);

/** Sets whose request it is: one owner gets at most half of `maxUnsentBytes`. */
export function setRequestOwner(request: Request, owner: string): void {
  const node = asNodeRequest(request);
  if (node) node.owner = owner;
}

/** The owner that `setRequestOwner` was called with. */
export const requestOwner = (request: Request): string | undefined => asNodeRequest(request)?.owner;

/** The URL of the request, parsed once. Do not modify it. */
export const urlOf = (request: Request): URL =>
  asNodeRequest(request)?.location ?? new URL(request.url);

/** One header by its name in lower case, without creating a `Headers` object. */
export function headerOf(request: Request, name: string): string | null {
  const node = asNodeRequest(request);
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

/** The abort reason for work whose client has disconnected. */
export const CLIENT_DISCONNECTED: DuolaneError = new DuolaneError(
  'closed',
  'the client disconnected',
);

const bodyOf = (incoming: IncomingMessage, received: ReceivedBytes | undefined): unknown =>
  incoming.readableEnded
    ? readBefore(incoming)
    : ReadableStream.from(readChunks(incoming, received));

/**
 * The chunks of a body. Throws CLIENT_DISCONNECTED if the client disconnects in the middle: with
 * Node's own error ("aborted"), servers would report the disconnect as a failure of theirs.
 */
async function* readChunks(
  incoming: IncomingMessage,
  received: ReceivedBytes | undefined,
): AsyncGenerator<Buffer, void, undefined> {
  let isCut = false;
  const receiving = received?.begin(() => {
    isCut = true;
    incoming.destroy();
  });
  let bytes = 0;
  try {
    for await (const chunk of incoming as AsyncIterable<Buffer>) {
      if (receiving?.hold((bytes += chunk.length)) === false) throw receivingTooMuch();
      yield chunk;
    }
  } catch (error) {
    if (isCut) throw receivingTooMuch();
    throw incoming.complete || error instanceof DuolaneError ? error : CLIENT_DISCONNECTED;
  } finally {
    receiving?.end();
  }
}

/** Whether the client disconnected before it had sent the request completely. */
export function isCutOff(request: Request): boolean {
  const node = asNodeRequest(request);
  return node !== undefined && node.disconnect.aborted && !node.incoming.complete;
}

/** Returns a body that was read before. Express and similar frameworks keep it, usually parsed. */
function readBefore(incoming: IncomingMessage): string {
  const { body } = incoming as { body?: unknown };
  if (body === undefined || typeof body === 'string') return body ?? '';
  return body instanceof Uint8Array ? toText([Buffer.from(body)]) : JSON.stringify(body);
}

/** Reads the body as text. Rejects if the client disconnects before its end. */
function readText(incoming: IncomingMessage, received?: ReceivedBytes): Promise<string> {
  if (incoming.readableEnded) return Promise.resolve(readBefore(incoming));
  return new Promise((resolve, reject) => {
    let chunks: Buffer[] = [];
    let bytes = 0;
    let receiving: Receiving | undefined;
    /** The rest of the body is read and dropped, so that the client gets its response. */
    const refuse = (): void => {
      incoming.off('data', onData).resume();
      chunks = [];
      reject(receivingTooMuch());
    };
    const onData = (chunk: Buffer): void => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes <= UNCOUNTED_BYTES) return;
      receiving ??= received?.begin(refuse);
      if (receiving?.hold(bytes) === false) refuse();
    };
    const onClose = (): void => {
      receiving?.end();
      reject(CLIENT_DISCONNECTED);
    };
    incoming.on('data', onData);
    incoming.once('end', () => {
      // Every listener would keep this promise and so the text in memory until the response, which
      // may take long.
      incoming.off('data', onData).off('close', onClose).off('error', onClose);
      receiving?.end();
      resolve(toText(chunks));
    });
    // Nothing but a disconnect fails here; `close` follows, but Node's own error would come first.
    incoming.once('error', onClose);
    incoming.once('close', onClose);
  });
}

const toText = (chunks: readonly Buffer[]): string =>
  (chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)).toString('utf8');
