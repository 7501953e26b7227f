import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { listen } from '../../../src/http/node-server.ts';
import type { JsonObject } from '../../../src/json.ts';
import type { SdkTransport } from '../../../src/mcp/json-rpc/in-process.ts';
import { load, type OfficialServer } from './mcp-sdk.ts';

export interface HttpServer extends AsyncDisposable {
  readonly url: string;
}

type WebTransport = SdkTransport & { handleRequest(request: Request): Promise<Response> };
type WebTransportClass = new (options: JsonObject) => WebTransport;

const PACKAGES = {
  v1: '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js',
  v2: '@modelcontextprotocol/server',
} as const;

/** An official server object behind the official Streamable HTTP transport, for one session. */
export async function officialHttp(
  version: 'v1' | 'v2',
  { server }: OfficialServer,
): Promise<HttpServer> {
  const { WebStandardStreamableHTTPServerTransport: Transport } = load(PACKAGES[version]) as {
    WebStandardStreamableHTTPServerTransport: WebTransportClass;
  };
  const transport = new Transport({ sessionIdGenerator: () => randomUUID() });
  await server.connect(transport);
  const listening = await listen((request) => transport.handleRequest(request));
  return {
    url: `${listening.url}/mcp`,
    async [Symbol.asyncDispose]() {
      await server.close();
      await listening[Symbol.asyncDispose]();
    },
  };
}

interface OfficialHandler {
  readonly fetch: (request: Request) => Promise<Response>;
  readonly close: () => Promise<void>;
  readonly notify: { toolsChanged(): void };
}

/** A fresh v2 server object for each request, as the official handler of 2026-07-28 expects it. */
export async function officialStateless(
  make: () => OfficialServer,
): Promise<HttpServer & Pick<OfficialServer, 'add'>> {
  const { createMcpHandler } = load('@modelcontextprotocol/server') as {
    createMcpHandler: (factory: () => unknown, options: JsonObject) => OfficialHandler;
  };
  const tools: Parameters<OfficialServer['add']>[] = [];
  const handler = createMcpHandler(
    () => {
      const official = make();
      for (const each of tools) official.add(...each);
      return official.server;
    },
    { legacy: 'reject' },
  );
  const listening = await listen((request) => handler.fetch(request));
  return {
    url: `${listening.url}/mcp`,
    add(...definition) {
      tools.push(definition);
      handler.notify.toolsChanged();
    },
    async [Symbol.asyncDispose]() {
      await handler.close();
      await listening[Symbol.asyncDispose]();
    },
  };
}

type NodeTransport = SdkTransport & {
  handlePostMessage(request: IncomingMessage, response: ServerResponse): Promise<void>;
};

/** The same behind the official transport of 2024. */
export async function officialSse({ server }: OfficialServer): Promise<HttpServer> {
  const { SSEServerTransport } = load('@modelcontextprotocol/sdk/server/sse.js') as {
    SSEServerTransport: new (path: string, response: ServerResponse) => NodeTransport;
  };
  let transport: NodeTransport | undefined;
  const http = createServer((request, response) => {
    if (request.method === 'GET') {
      transport = new SSEServerTransport('/messages', response);
      void server.connect(transport);
    } else void transport?.handlePostMessage(request, response);
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/sse`,
    async [Symbol.asyncDispose]() {
      await server.close();
      http.closeAllConnections();
      http.close();
      await once(http, 'close');
    },
  };
}

/** The client's transport of each line of the official SDK. */
export const httpV1 = (url: string): SdkTransport =>
  clientTransport('@modelcontextprotocol/sdk/client/streamableHttp.js', url);

export const httpV2 = (url: string): SdkTransport =>
  clientTransport('@modelcontextprotocol/client', url);

export function sseV1(url: URL): SdkTransport {
  const { SSEClientTransport } = load('@modelcontextprotocol/sdk/client/sse.js') as {
    SSEClientTransport: new (url: URL) => SdkTransport;
  };
  return new SSEClientTransport(url);
}

function clientTransport(name: string, url: string): SdkTransport {
  const { StreamableHTTPClientTransport: Transport } = load(name) as {
    StreamableHTTPClientTransport: new (url: URL) => SdkTransport;
  };
  return new Transport(new URL(url));
}
