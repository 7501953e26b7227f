import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';
import { once } from 'node:events';
import { listen } from '../../../src/http/node-server.ts';
import type { JsonObject } from '../../../src/json.ts';
import { dialHttp, mcpHandler, type ToolSource } from '../../../src/mcp/index.ts';
import { sseHandler } from '../../../src/mcp/json-rpc/http/server/sse-handler.ts';
import { META } from '../../../src/mcp/json-rpc/protocol-versions.ts';
import { Disposer } from '../../../src/stream/disposer.ts';
import { sleep, untilAborted } from '../../../src/stream/abort.ts';

/** What an endpoint holds for its clients. */
export interface HeldForClients {
  readonly sessions: number;
  /** Sessions of the server behind the bridge. */
  readonly upstream: number;
  /** Calls that run in the source. */
  readonly calls: number;
  /** Listeners for changes at the source. */
  readonly listeners: number;
  readonly sockets: number;
  readonly heapMb: number;
}

export interface ClientSoakOptions {
  readonly clients: number;
  /** How many clients are connected at the same time; 20 by default. */
  readonly concurrency?: number;
  /** Whether the clients use a bridge instead of the server itself. */
  readonly bridged?: boolean;
  /** Called with the status and the body of a response that refuses a client. */
  readonly onRefused?: (response: string) => void;
  readonly onProgress?: (clients: number, held: HeldForClients) => void;
}

export interface ClientSoakReport {
  readonly before: HeldForClients;
  readonly after: HeldForClients;
  /** Clients that the server refused. */
  readonly refused: number;
}

/**
 * Lets clients of every kind connect, start a call that never ends, and disconnect without a
 * message: of the session protocol, of the SSE transport of 2024, and of the stateless protocol.
 * Returns what the endpoint holds before the first and after the last one.
 */
export async function soakClients({
  clients,
  concurrency = 20,
  bridged = false,
  onProgress,
  onRefused = () => {},
}: ClientSoakOptions): Promise<ClientSoakReport> {
  await using scope = new Disposer();
  const counted = new WaitingSource();
  // A client of a busy machine may pause for a second between two requests.
  const limits = { idleMs: 3_000, onError: () => {} };
  const server = scope.use(mcpHandler(counted.source, limits));
  let url = scope.use(await listen(server.handle)).url;
  let [front, source]: [typeof server | undefined, ToolSource] = [undefined, counted.source];
  if (bridged) {
    source = scope.use(await dialHttp({ url: `${url}/mcp`, protocol: 'auto' }));
    front = scope.use(mcpHandler(source, limits));
  }
  const old = scope.use(sseHandler(source, limits));
  const handle = (front ?? server).handle;
  url = scope.use(
    await listen((of) => (new URL(of.url).pathname === '/sse' ? old.handle(of) : handle(of))),
  ).url;
  const held = (): HeldForClients => {
    globalThis.gc?.();
    const info = process.getActiveResourcesInfo();
    return {
      sessions: (front?.sessions ?? server.sessions) + old.sessions,
      upstream: front ? server.sessions : 0,
      calls: counted.calls,
      listeners: counted.listeners,
      sockets: info.filter((kind) => kind === 'TCPSocketWrap').length,
      heapMb: Math.round(process.memoryUsage().heapUsed / 2 ** 20),
    };
  };
  let [refused, begun] = [0, 0];
  const next = async (): Promise<void> => {
    while (begun < clients) {
      const kind = KINDS[(begun += 1) % KINDS.length]!;
      if (onProgress && begun % 1_000 === 0) onProgress(begun, held());
      await using client = new CuttingClient(url);
      const refusal = await kind(client);
      if (refusal.statusCode === 200) continue;
      refused += 1;
      onRefused(`${refusal.statusCode} ${await textOf(refusal)}`);
    }
  };
  const atStart = held();
  // The first clients load the code, so that the heap is comparable.
  for (const kind of [...KINDS, ...KINDS]) {
    await using client = new CuttingClient(url);
    await kind(client);
  }
  const { sockets: noSockets } = atStart;
  await untilIdle(held, noSockets);
  const before = held();
  await Promise.all(Array.from({ length: concurrency }, next));
  await untilIdle(held, before.sockets);
  return { before, after: held(), refused };
}

/** Waits until nothing is held; throws if that does not happen. */
async function untilIdle(held: () => HeldForClients, sockets: number): Promise<void> {
  let left = '';
  for (let tries = 0; tries < 1_200; tries += 1) {
    const now = held();
    const { sessions, upstream, calls, listeners } = now;
    if (sessions + upstream + calls + listeners === 0 && now.sockets <= sockets) return;
    left = JSON.stringify(now);
    await sleep(100);
  }
  throw new Error(`the endpoint still holds ${left}`);
}

/** A source whose calls end only by their abort. */
class WaitingSource {
  calls = 0;
  listeners = 0;

  readonly source: ToolSource = {
    info: { name: 'waiting', version: '1' },
    listTools: () => ({
      checkpoint: undefined,
      async *[Symbol.asyncIterator]() {
        yield { name: 'wait', inputSchema: { type: 'object' as const } };
      },
    }),
    callTool: (_, options) => this.#wait(options?.signal),
    listen: (options) => this.#listen(options?.signal),
  };

  async *#wait(signal?: AbortSignal): AsyncGenerator<never, void, undefined> {
    this.calls += 1;
    try {
      await untilAborted(signal!);
    } finally {
      this.calls -= 1;
    }
    signal!.throwIfAborted();
  }

  async *#listen(signal?: AbortSignal): AsyncGenerator<{ type: 'listening' }, void, undefined> {
    this.listeners += 1;
    try {
      yield { type: 'listening' };
      await untilAborted(signal!);
    } finally {
      this.listeners -= 1;
    }
  }
}

const CALL = { name: 'wait', arguments: {} };
const rpc = (id: number | undefined, method: string, params: JsonObject = {}): JsonObject => ({
  jsonrpc: '2.0',
  ...(id !== undefined && { id }),
  method,
  params,
});
const INITIALIZE = rpc(0, 'initialize', {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'soak', version: '1' },
});

/** Each kind of client: resolves to the last response, which refuses it or not. */
const KINDS: ReadonlyArray<(client: CuttingClient) => Promise<IncomingMessage>> = [
  async (client) => {
    const response = await client.post('/mcp', INITIALIZE);
    if (response.statusCode !== 200) return response;
    const session = { 'mcp-session-id': String(response.headers['mcp-session-id']) };
    await drained(response);
    await drained(await client.post('/mcp', rpc(undefined, 'notifications/initialized'), session));
    const stream = await client.get('/mcp', session);
    client.begin('/mcp', rpc(1, 'tools/call', CALL), session);
    return stream;
  },
  async (client) => {
    const stream = await client.get('/sse');
    if (stream.statusCode !== 200) return stream;
    const [chunk] = (await once(stream, 'data')) as [Buffer];
    const [, path = ''] = /data: (\S+)/.exec(String(chunk)) ?? [];
    for (const message of [INITIALIZE, rpc(undefined, 'notifications/initialized')])
      await drained(await client.post(path, message));
    client.begin(path, rpc(1, 'tools/call', CALL));
    return stream;
  },
  async (client) => {
    const _meta = { [META.version]: '2026-07-28', [META.capabilities]: {} };
    const headers = { 'mcp-protocol-version': '2026-07-28' };
    const notifications = { toolsListChanged: true };
    const stream = await client.post(
      '/mcp',
      rpc(1, 'subscriptions/listen', { notifications, _meta }),
      { ...headers, 'mcp-method': 'subscriptions/listen' },
    );
    client.begin('/mcp', rpc(2, 'tools/call', { ...CALL, _meta }), {
      ...headers,
      'mcp-method': 'tools/call',
      'mcp-name': CALL.name,
    });
    return stream;
  },
];

const drained = async (response: IncomingMessage): Promise<void> => {
  response.resume();
  if (!response.readableEnded) await once(response, 'end');
};

const textOf = async (response: IncomingMessage): Promise<string> => {
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return text;
};

/** A client that ends by closing its sockets. */
class CuttingClient implements AsyncDisposable {
  readonly #url: string;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #open: ClientRequest[] = [];

  constructor(url: string) {
    this.#url = url;
  }

  post(path: string, body: JsonObject, headers = {}): Promise<IncomingMessage> {
    return response(this.begin(path, body, headers));
  }

  get(path: string, headers = {}): Promise<IncomingMessage> {
    return response(this.#request('GET', path, headers).end());
  }

  /** Sends a message and does not wait for the response. */
  begin(path: string, body: JsonObject, headers = {}): ClientRequest {
    return this.#request('POST', path, headers).end(JSON.stringify(body));
  }

  #request(method: string, path: string, headers: object): ClientRequest {
    const accept = 'application/json, text/event-stream';
    const sent = request(new URL(path, this.#url), {
      method,
      agent: this.#agent,
      headers: { 'content-type': 'application/json', accept, ...headers },
    });
    // This client cuts its own connections, which is an error of the request.
    sent.on('error', () => {}).on('response', (of) => of.on('error', () => {}));
    this.#open.push(sent);
    return sent;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The last request has left this process, so that some of them reach their handler.
    await new Promise((resolve) => setImmediate(resolve));
    for (const sent of this.#open) sent.destroy();
    this.#agent.destroy();
  }
}

const response = async (sent: ClientRequest): Promise<IncomingMessage> => {
  const [received] = (await once(sent, 'response')) as [IncomingMessage];
  return received;
};
