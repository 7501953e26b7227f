import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { dialGrpc, offerGrpc } from '../../src/mcp/grpc/index.ts';
import {
  dialHttp,
  dialMessages,
  type MessageTransport,
  offerHttp,
  relaySource,
  serveMessages,
  type ToolSource,
} from '../../src/mcp/index.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { call, toArray, toolSourceContract } from '../../test/contracts/tool-source.contract.ts';
import { peer } from '../../test/peers.ts';
import { ourCatalogue, TOOL_COUNT } from '../../test/support/mcp/catalogue.ts';
import { load, missing, type SdkClient } from '../../test/support/mcp/mcp-sdk.ts';
import { suite } from '../../test/verifies.ts';
import { webSocketTransport } from './transport.ts';
import type { Ws } from './ws.ts';

const ws = await peer('ws');
const maxPayload = 16 * 2 ** 20;

const loaded: unknown = ws.reason === undefined ? await ws.import('ws') : {};
const { WebSocket, WebSocketServer } = loaded as Ws;

suite('ws', ws.reason, () => {
  /** Serves a source on a port of its own. */
  const serveSockets = async (source: ToolSource, scope: Disposer): Promise<string> => {
    const server = new WebSocketServer({ host: '127.0.0.1', port: 0, maxPayload });
    server.on('connection', (socket) => serveMessages(source, webSocketTransport(socket)));
    await once(server, 'listening');
    scope.defer(() => {
      server.close();
      for (const socket of server.clients) socket.terminate();
    });
    return `ws://127.0.0.1:${server.address().port}`;
  };
  const connect = async (url: string): Promise<MessageTransport> => {
    const socket = new WebSocket(url, 'mcp', { maxPayload });
    await once(socket, 'open');
    return webSocketTransport(socket);
  };

  toolSourceContract('a WebSocket', async () => {
    const { source, ...rest } = ourCatalogue();
    const scope = new Disposer();
    const url = await serveSockets(source, scope);
    const dialled = scope.use(await dialMessages(await connect(url)));
    return { ...rest, source: dialled, [Symbol.asyncDispose]: () => scope[Symbol.asyncDispose]() };
  });

  test('a bridge gives each of its clients a WebSocket, over HTTP and over gRPC', async () => {
    await using scope = new Disposer();
    const url = await serveSockets(ourCatalogue().source, scope);
    const http = scope.use(await offerHttp(relaySource(() => connect(url))));
    for (const protocol of ['session', 'stateless'] as const) {
      const far = scope.use(await dialHttp({ url: http.url, protocol }));
      expect(await toArray(far.listTools())).toHaveLength(TOOL_COUNT);
    }
    const near = scope.use(await dialMessages(await connect(url)));
    const grpc = scope.use(await offerGrpc(near));
    const far = scope.use(await dialGrpc({ url: grpc.url }));
    expect(await toArray(far.callTool(call('burst', { count: 10 })))).toHaveLength(11);
  });

  test('a frame that is not a JSON object ends the connection with a reason, and no other', async () => {
    await using scope = new Disposer();
    const url = await serveSockets(ourCatalogue().source, scope);
    const other = scope.use(await dialMessages(await connect(url)));
    for (const text of ['{', '[]', '7']) {
      const socket = new WebSocket(url, 'mcp', { maxPayload });
      await once(socket, 'open');
      socket.send(text, () => {});
      const [code, reason] = (await once(socket, 'close')) as [number, Buffer];
      expect([code, String(reason)]).toEqual([1007, 'expected a JSON object']);
    }
    expect(await toArray(other.listTools())).toHaveLength(TOOL_COUNT);
  });

  suite('the official MCP SDK', missing, () => {
    test('the WebSocket transport of the official SDK is a client of it', async () => {
      await using scope = new Disposer();
      const url = await serveSockets(ourCatalogue().source, scope);
      const { Client } = load('@modelcontextprotocol/sdk/client/index.js') as {
        Client: new (info: object) => SdkClient;
      };
      const { WebSocketClientTransport } = load(
        '@modelcontextprotocol/sdk/client/websocket.js',
      ) as {
        WebSocketClientTransport: new (url: URL) => Parameters<SdkClient['connect']>[0];
      };
      // Node 20 has no WebSocket of its own.
      const before = globalThis.WebSocket;
      Object.assign(globalThis, { WebSocket });
      scope.defer(() => Object.assign(globalThis, { WebSocket: before }));
      const client = new Client({ name: 'test', version: '1' });
      await client.connect(new WebSocketClientTransport(new URL(url)));
      scope.defer(() => client.close());
      expect((await client.listTools()).tools.length).toBeGreaterThan(0);
      expect(await client.callTool({ name: 'echo', arguments: { text: 'hi' } })).toMatchObject({
        content: [{ text: 'hi' }],
      });
    });
  });

  test('the program offers, dials and bridges', async () => {
    const program = fileURLToPath(
      new URL('../../dist/examples/websocket/main.js', import.meta.url),
    );
    const { stdout } = await promisify(execFile)(process.execPath, [program]);
    expect(stdout).toBe(
      'over WebSocket: landing\nthrough a bridge: [{"type":"text","text":"20 July 1969"}]\n',
    );
  });
});
