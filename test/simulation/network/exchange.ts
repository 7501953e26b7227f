import { CLIENT_DISCONNECTED } from '../../../src/http/node-request.ts';
import { streamSource } from '../../../src/http/sse-response.ts';
import { responseText } from '../../../src/http/text-response.ts';
import type { Machine, World } from '../world.ts';
import type { Endpoint, NetFault, Network } from './network.ts';

/** How many bytes may be under way that the client has not read. */
const WINDOW_BYTES = 2048;

const EMPTY = new Set([101, 202, 204, 205, 304]);

const failed = (code: string): TypeError =>
  new TypeError('fetch failed', { cause: Object.assign(new Error(code), { code }) });

/** One request and its response, on a connection of its own. */
export class Exchange {
  readonly response: Promise<Response>;
  readonly name: string;
  readonly #network: Network;
  readonly #world: World;
  readonly #client: Machine;
  readonly #init: RequestInit;
  readonly #fault: NetFault | undefined;
  readonly #url: URL;
  #server: Endpoint | undefined;
  #disconnect: AbortController | undefined;
  #resolve: (response: Response) => void = () => {};
  #reject: (error: unknown) => void = () => {};
  #unlisten: () => void = () => {};

  // ——— the side of the client
  readonly #arrived: Uint8Array[] = [];
  #body: ReadableStreamDefaultController<Uint8Array> | undefined;
  #wants: (() => void) | undefined;
  /** How the body ends after what has arrived. */
  #end: { readonly error?: unknown } | undefined;
  #isOver = false;

  // ——— the side of the server
  #unread = 0;
  #room: (() => void) | undefined;
  #sent = 0;
  #texts: AsyncIterator<string | Uint8Array> | undefined;
  #isGone = false;

  #lastToClient = 0;
  #lastToServer = 0;
  #stalledUntil = 0;

  constructor(network: Network, url: URL, init: RequestInit, fault: NetFault | undefined) {
    this.#network = network;
    this.#world = network.world;
    this.#client = network.world.current;
    this.#url = url;
    this.#init = init;
    this.#fault = fault;
    this.name = `${init.method ?? 'GET'} ${url.pathname} of ${this.#client.name}`;
    this.response = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const { signal } = init;
    if (signal?.aborted) {
      this.#isOver = true;
      this.#reject(signal.reason);
      return;
    }
    if (signal) {
      const leave = (): void => this.#leave(signal.reason);
      signal.addEventListener('abort', leave, { once: true });
      this.#unlisten = () => signal.removeEventListener('abort', leave);
    }
    network.opened(this);
    this.#begin();
  }

  #begin(): void {
    const how = this.#fault?.how;
    if (how === 'refuse') return this.#failLater('ECONNREFUSED');
    if (how === 'proxy' && (this.#fault?.ms ?? 0) % 2 === 0) return this.#answerAsProxy();
    const endpoint = this.#network.endpoint(this.#url);
    if (!endpoint) return this.#failLater('ECONNREFUSED');
    this.#server = endpoint;
    if (how === 'stall' && this.#fault?.bytes === 0) this.#stall();
    this.#toServer(this.name, () => this.#arrive(endpoint));
    if (how === 'twice') this.#toServer(`${this.name} again`, () => this.#arriveAgain(endpoint));
  }

  // ——— the way between both

  #toClient(label: string, run: () => void): void {
    const world = this.#world;
    const at = Math.max(this.#lastToClient, world.now + this.#network.delay(), this.#stalledUntil);
    this.#lastToClient = at;
    world.at(at, this.#client, label, () => {
      if (!this.#isOver) run();
    });
  }

  #toServer(label: string, run: () => void): void {
    const machine = this.#server?.machine;
    if (!machine) return;
    const world = this.#world;
    const at = Math.max(this.#lastToServer, world.now + this.#network.delay(), this.#stalledUntil);
    this.#lastToServer = at;
    world.at(at, machine, label, run);
  }

  #stall(): void {
    const until = this.#world.now + (this.#fault?.ms ?? 0);
    this.#stalledUntil = until;
    this.#network.stalledUntil = Math.max(this.#network.stalledUntil, until);
  }

  /** The machine that serves the request; undefined before there is one. */
  get server(): Machine | undefined {
    return this.#server?.machine;
  }

  /** A machine was killed. */
  lose(machine: Machine): void {
    if (machine === this.#server?.machine) this.#failLater('ECONNRESET');
    if (machine !== this.#client) return;
    this.#over();
    this.#toServer('disconnect', () => this.#disconnected());
  }

  // ——— the client

  #failLater(code: string): void {
    this.#toClient(code, () => this.#finish({ error: failed(code) }));
  }

  /** The client does not want the rest. */
  #leave(reason: unknown): void {
    if (this.#isOver) return;
    this.#reject(reason);
    this.#body?.error(reason);
    this.#over();
    this.#toServer('disconnect', () => this.#disconnected());
  }

  #over(): void {
    this.#isOver = true;
    this.#unlisten();
    this.#arrived.length = 0;
    this.#wants?.();
    this.#network.closed(this);
  }

  /** The body ends when the client has read what has arrived. */
  #finish(end: { readonly error?: unknown }): void {
    this.#end ??= end;
    // Fails immediately, as `fetch` does: what was not read is lost.
    if ('error' in end) {
      this.#reject(end.error);
      this.#body?.error(end.error);
      return this.#over();
    }
    this.#give();
  }

  #head(status: number, headers: Headers): void {
    const isEmpty = EMPTY.has(status);
    const body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => void (this.#body = controller),
        pull: () =>
          new Promise<void>((resolve) => {
            this.#wants = resolve;
            this.#give();
          }),
        cancel: () => this.#leave(new Error('the body was cancelled')),
      },
      { highWaterMark: 0 },
    );
    this.#resolve(new Response(isEmpty ? null : body, { status, headers }));
    if (isEmpty) this.#over();
  }

  #give(): void {
    const wants = this.#wants;
    if (!wants || this.#isOver) return;
    const chunk = this.#arrived.shift();
    if (chunk) {
      this.#body?.enqueue(chunk);
      this.#toServer('ack', () => this.#acknowledged(chunk.length));
    } else if (this.#end) {
      this.#body?.close();
      this.#over();
    } else return;
    this.#wants = undefined;
    wants();
  }

  #answerAsProxy(): void {
    const text = 'Bad gateway\n';
    this.#toClient('502', () => {
      this.#head(502, new Headers({ 'content-type': 'text/html' }));
      this.#arrived.push(Buffer.from(text));
      this.#finish({});
    });
  }

  // ——— the server

  #request(signal: AbortSignal, machine: Machine): Request {
    const { method = 'GET', headers, body } = this.#init;
    const request = new Request(this.#url, {
      method,
      headers: headers ?? {},
      ...(typeof body === 'string' && { body }),
      signal,
    });
    this.#network.received(request.signal, machine);
    return request;
  }

  #arrive(endpoint: Endpoint): void {
    if (this.#isGone) return;
    const disconnect = new AbortController();
    this.#disconnect = disconnect;
    this.#serve(endpoint, this.#request(disconnect.signal, endpoint.machine)).catch(
      (error: unknown) =>
        this.#world.broken('a handler does not reject', String((error as Error).stack)),
    );
  }

  /** The same request once more, whose response is not read. */
  #arriveAgain(endpoint: Endpoint): void {
    const disconnect = new AbortController();
    const run = async (): Promise<void> => {
      const response = await endpoint.handle(this.#request(disconnect.signal, endpoint.machine));
      disconnect.abort(CLIENT_DISCONNECTED);
      await streamSource(response)?.texts[Symbol.asyncIterator]().return?.();
    };
    run().catch((error: unknown) =>
      this.#world.broken('a handler does not reject', String((error as Error).stack)),
    );
  }

  async #serve(endpoint: Endpoint, request: Request): Promise<void> {
    const response = await endpoint.handle(request);
    const { status } = response;
    const how = this.#fault?.how;
    if (how === 'lose') return this.break();
    if (how === 'proxy') {
      this.#answerAsProxy();
      return this.#disconnected();
    }
    const known = responseText(response);
    const source = streamSource(response);
    const headers = new Headers(known?.fields ?? source?.fields ?? response.headers);
    this.#toClient(`head ${status}`, () => this.#head(status, headers));
    if (known) {
      this.#send(known.text, false);
      return this.#complete();
    }
    const bytes = source?.texts ?? (response.body as AsyncIterable<Uint8Array> | null) ?? [];
    const iterable = bytes as AsyncIterable<string | Uint8Array>;
    if (Array.isArray(bytes)) return this.#complete();
    const texts = iterable[Symbol.asyncIterator]();
    this.#texts = texts;
    if (this.#isGone) return void (await texts.return?.());
    for (;;) {
      const { done, value } = await texts.next();
      if (this.#isGone) return;
      if (done) return this.#complete();
      if (!this.#send(value, true)) return;
      if (this.#unread > WINDOW_BYTES) await new Promise<void>((resolve) => (this.#room = resolve));
      if (this.#isGone) return;
    }
  }

  /** Sends a part of the body. Returns false if the connection breaks there. */
  #send(text: string | Uint8Array, isStream: boolean): boolean {
    const bytes = Buffer.from(text as string);
    const { how, bytes: limit = Infinity } = this.#fault ?? {};
    const breaks = how === 'cut' || (how === 'end' && isStream);
    const before = breaks ? Math.max(0, limit - this.#sent) : Infinity;
    if (how === 'stall' && this.#sent <= limit && limit < this.#sent + bytes.length) this.#stall();
    this.#sent += bytes.length;
    const passed = bytes.subarray(0, Math.min(before, bytes.length));
    const { random } = this.#network;
    const cut = random.chance(0.2) ? random.int(0, passed.length) : passed.length;
    for (const piece of [passed.subarray(0, cut), passed.subarray(cut)]) this.#sendPiece(piece);
    if (before >= bytes.length) return true;
    if (how === 'cut') this.break();
    else {
      this.#toClient('end', () => this.#finish({}));
      this.#disconnected();
    }
    return false;
  }

  /** The response is written: from now on its request cannot be aborted. */
  #complete(): void {
    this.#isGone = true;
    this.#toClient('end', () => this.#finish({}));
  }

  #sendPiece(piece: Uint8Array): void {
    if (piece.length === 0) return;
    this.#unread += piece.length;
    this.#toClient(`bytes ${piece.length}`, () => {
      this.#arrived.push(piece);
      this.#give();
    });
  }

  #acknowledged(bytes: number): void {
    this.#unread -= bytes;
    if (this.#unread <= WINDOW_BYTES) this.#wakeWriter();
  }

  #wakeWriter(): void {
    this.#room?.();
    this.#room = undefined;
  }

  /** The connection breaks: both sides learn it, each in its time. */
  break(): void {
    this.#failLater('ECONNRESET');
    this.#disconnected();
  }

  /** What the HTTP server does when the client has disconnected. */
  #disconnected(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#disconnect?.abort(CLIENT_DISCONNECTED);
    this.#wakeWriter();
    this.#texts
      ?.return?.()
      .catch((error: unknown) =>
        this.#world.broken('a stream closes', String((error as Error).stack)),
      );
  }
}
