import { PassThrough } from 'node:stream';
import { dialGrpc, offerGrpc } from '../../src/mcp/grpc/index.ts';
import { mcpHandler, offerHttp, offerStdio, serveMessages } from '../../src/mcp/index.ts';
import type { MessageTransport, ToolSource } from '../../src/mcp/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { Channel } from '../../src/stream/channel.ts';
import { upstreamOf as openUpstream } from './upstream.ts';

/** The transport of the SDK, as far as this file uses it. */
export interface SdkTransport {
  onmessage?: ((message: JsonObject, extra?: unknown) => void) | undefined;
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  start(): Promise<void>;
  send(message: JsonObject, options?: unknown): Promise<void>;
  close(): Promise<void>;
}

interface SdkPeer {
  connect(transport: SdkTransport): Promise<void>;
  close(): Promise<void>;
}

interface SdkClient extends SdkPeer {
  setVersionNegotiation(options: object): void;
  getNegotiatedProtocolVersion(): string | undefined;
}

type Fetch = (url: URL | string, init?: RequestInit) => Promise<Response>;

/** What the suite and the SDK provide. */
export interface Suite {
  readonly InMemoryTransport: { createLinkedPair(): [SdkTransport, SdkTransport] };
  readonly StdioServerTransport: new (input: PassThrough, output: PassThrough) => SdkTransport;
  readonly StreamableHTTPClientTransport: new (url: URL, options: object) => SdkTransport;
  readonly SSEClientTransport: new (url: URL) => SdkTransport;
  readonly ReadBuffer: new () => {
    append(chunk: Buffer): void;
    readMessage(): JsonObject | null;
  };
  readonly serializeMessage: (message: JsonObject) => string;
  readonly createMcpHandler: (
    makeServer: MakeServer,
    options: object,
  ) => { fetch(request: Request): Promise<Response>; close(): Promise<void> };
  readonly startLegacySseHost: (
    makeServer: MakeServer,
  ) => Promise<{ readonly url: URL; close(): Promise<void> }>;
  readonly hostPerSession: (makeServer: MakeServer) => HttpHost;
  readonly hostStateless: (makeServer: MakeServer) => HttpHost;
  readonly sniffTransport: (
    transport: SdkTransport,
    party: string,
    options: object,
  ) => SdkTransport;
}

interface HttpHost {
  handleRequest(request: Request): Promise<Response>;
  close(): Promise<void>;
}

type MakeServer = (context?: unknown) => SdkPeer;

const STATELESS = '2026-07-28';
const URL_IN_PROCESS = new URL('http://localhost/mcp');

/** The server of the suite, as the bridge reaches it. */
interface Hosted {
  readonly source: ToolSource & Partial<AsyncDisposable>;
  close(): Promise<void>;
}

/** Replaces the suite's `wire()`: client, bridge, server, each over the transport of the case. */
export const bridgedWire =
  (suite: Suite) =>
  async (
    transport: string,
    makeServer: MakeServer,
    client: SdkClient,
    sniff: { readonly entry?: object } = {},
  ): Promise<object> => {
    const hosted = await host(suite, transport, makeServer, sniff.entry);
    const { source, [Symbol.asyncDispose]: unbridge } = await bridge(hosted.source);
    try {
      const front = await offer(suite, transport, source, client, sniff);
      return {
        ...front,
        [Symbol.asyncDispose]: async () => {
          await client.close();
          await front.close();
          await unbridge();
          await hosted.close();
        },
      };
    } catch (error) {
      await unbridge();
      await hosted.close();
      throw error;
    }
  };

/** Puts gRPC between, if the run asks for it. */
async function bridge(source: ToolSource): Promise<AsyncDisposable & { source: ToolSource }> {
  if (process.env['DUOLANE_SDK_BRIDGE'] !== 'grpc')
    return { source, [Symbol.asyncDispose]: async () => {} };
  const offered = await offerGrpc(source);
  const dialled = await dialGrpc({ url: offered.url });
  return {
    source: dialled,
    [Symbol.asyncDispose]: async () => {
      await dialled[Symbol.asyncDispose]();
      await offered[Symbol.asyncDispose]();
    },
  };
}

/** Starts the suite's server as the suite does, and dials it. */
async function host(
  suite: Suite,
  transport: string,
  makeServer: MakeServer,
  entry: object | undefined,
): Promise<Hosted> {
  const servers: SdkPeer[] = [];
  const closeServers = async (): Promise<void> => {
    for (const server of servers) await server.close();
  };
  const http = (handle: (request: Request) => Promise<Response>, close: () => Promise<void>) => ({
    source: openUpstream.http(URL_IN_PROCESS, (url, init) =>
      handle(new Request(url as string | URL, init)),
    ),
    close,
  });
  const make = (): SdkPeer => {
    const server = makeServer();
    servers.push(server);
    return server;
  };
  switch (transport) {
    case 'inMemory':
      return {
        source: openUpstream.messages(async () => {
          const [ours, theirs] = suite.InMemoryTransport.createLinkedPair();
          await make().connect(theirs);
          return messagesOf(ours);
        }),
        close: closeServers,
      };
    case 'stdio':
      return {
        source: openUpstream.messages(async () => {
          const [toServer, toClient] = [new PassThrough(), new PassThrough()];
          await make().connect(new suite.StdioServerTransport(toServer, toClient));
          return messagesOf(overPipes(suite, toClient, toServer));
        }),
        close: closeServers,
      };
    case 'streamableHttp':
    case 'streamableHttpStateless': {
      const hosted = (transport === 'streamableHttp' ? suite.hostPerSession : suite.hostStateless)(
        makeServer,
      );
      const { source, close } = http(
        (request) => hosted.handleRequest(request),
        () => hosted.close(),
      );
      return { source, close };
    }
    case 'entryStateless':
    case 'entryModern': {
      const legacy = transport === 'entryStateless' ? 'stateless' : 'reject';
      const hosted = suite.createMcpHandler(makeServer, { legacy, ...entry });
      const { source, close } = http(
        (request) => hosted.fetch(request),
        () => hosted.close(),
      );
      return { source, close };
    }
    default: {
      const hosted = await suite.startLegacySseHost(makeServer);
      return { source: openUpstream.sse(hosted.url), close: () => hosted.close() };
    }
  }
}

/** Offers the source over the transport of the case, and connects the suite's client to it. */
async function offer(
  suite: Suite,
  transport: string,
  source: ToolSource,
  client: SdkClient,
  sniff: object,
): Promise<{ close(): Promise<void> }> {
  const connect = (to: SdkTransport, options: object = sniff): Promise<void> =>
    client.connect(suite.sniffTransport(to, 'client', options));
  switch (transport) {
    case 'inMemory': {
      const [theirs, ours] = suite.InMemoryTransport.createLinkedPair();
      const served = serveMessages(source, messagesOf(ours));
      await connect(theirs);
      return { close: async () => served[Symbol.asyncDispose]() };
    }
    case 'stdio': {
      const [input, output] = [new PassThrough(), new PassThrough()];
      const served = offerStdio(source, { input, output });
      await connect(overPipes(suite, output, input));
      return { close: async () => served[Symbol.asyncDispose]() };
    }
    case 'sse': {
      const offered = await offerHttp(source, { port: 0, sse: '/sse' });
      const url = new URL('/sse', offered.url);
      await connect(new suite.SSEClientTransport(url));
      return { url, close: async () => offered[Symbol.asyncDispose]() } as never;
    }
    default:
      return offerInProcess(suite, transport, source, client, connect, sniff);
  }
}

async function offerInProcess(
  suite: Suite,
  transport: string,
  source: ToolSource,
  client: SdkClient,
  connect: (to: SdkTransport, options?: object) => Promise<void>,
  sniff: object,
): Promise<{ close(): Promise<void> }> {
  const handler = mcpHandler(source);
  const httpLog: object[] = [];
  const fetch: Fetch = async (url, init) => {
    const request = new Request(url, init);
    const response = await handler.handle(request);
    httpLog.push({
      method: request.method.toUpperCase(),
      requestHeaders: request.headers,
      ...(typeof init?.body === 'string' && { requestBody: init.body }),
      status: response.status,
      contentType: response.headers.get('content-type') ?? '',
      response: response.clone(),
    });
    return response;
  };
  const stateless = transport === 'entryModern';
  if (stateless) client.setVersionNegotiation({ mode: { pin: STATELESS } });
  await connect(
    new suite.StreamableHTTPClientTransport(URL_IN_PROCESS, { fetch }),
    stateless ? { allowInputRequiredResults: true, ...sniff } : sniff,
  );
  const log = transport.startsWith('entry') ? { httpLog } : {};
  return {
    fetch,
    url: URL_IN_PROCESS,
    ...log,
    close: async () => handler[Symbol.asyncDispose](),
  } as never;
}

/** A transport of the SDK as one of ours. */
function messagesOf(transport: SdkTransport): MessageTransport {
  const incoming = new Channel<JsonObject>({ capacity: 10_000 });
  transport.onmessage = (message) => void incoming.push(message).catch(() => {});
  transport.onclose = () => incoming.close();
  const started = transport.start();
  return {
    incoming,
    async send(message) {
      await started;
      await transport.send(message);
    },
    close: async () => {
      incoming.close();
      await transport.close();
    },
  };
}

/** The suite's client side of stdio, over pipes of this process. */
function overPipes(suite: Suite, input: PassThrough, output: PassThrough): SdkTransport {
  const buffer = new suite.ReadBuffer();
  const transport: SdkTransport = {
    async start() {
      input.on('data', (chunk: Buffer) => {
        buffer.append(chunk);
        for (let next = buffer.readMessage(); next; next = buffer.readMessage())
          transport.onmessage?.(next);
      });
      input.on('error', (error) => transport.onerror?.(error));
      input.on('close', () => transport.onclose?.());
    },
    async send(message) {
      output.write(suite.serializeMessage(message));
    },
    async close() {
      output.end();
    },
  };
  return transport;
}
