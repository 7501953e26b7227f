import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { describe, expect } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { StreamingAdapter } from '../../src/mcp/sources/streaming-adapter.ts';
import { dialGrpc, offerGrpc } from '../../src/mcp/grpc/index.ts';
import { dialMessages } from '../../src/mcp/json-rpc/client/dial-messages.ts';
import { dialHttp, dialSse } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import { serveMessages } from '../../src/mcp/json-rpc/server/serve-messages.ts';
import { dialTransport } from '../../src/mcp/json-rpc/stdio.ts';
import type { MessageTransport, ToolSource } from '../../src/mcp/types.ts';
import { Channel } from '../../src/stream/channel.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { importsOf, readSource, sourceFiles } from '../source.ts';
import { officialCatalogue, ourCatalogue, TOOL_COUNT } from '../support/mcp/catalogue.ts';
import { childTransport } from '../support/child-transport.ts';
import { officialSse } from '../support/mcp/mcp-http.ts';
import { missing, serverV1 } from '../support/mcp/mcp-sdk.ts';
import { messagePair } from '../support/mcp/message-pair.ts';
import { call, toArray, toolSourceContract } from '../contracts/tool-source.contract.ts';
import { suite, verifies } from '../verifies.ts';

/** An application: it does not know, and does not ask, what its source comes over. */
async function program(source: ToolSource): Promise<unknown> {
  const adapter = new StreamingAdapter(source);
  const streamed: string[] = [];
  for await (const { name } of adapter.streamListTools()) streamed.push(name);
  const listed = await adapter.listTools();
  const events = await toArray(source.callTool(call('burst', { count: 10 })));
  const echoed = await toArray(source.callTool(call('echo', { text: 'hi' })));
  return {
    streamed,
    same: JSON.stringify(listed.tools.map(({ name }) => name)) === JSON.stringify(streamed),
    more: listed.nextCursor,
    types: events.map(({ type }) => type),
    text: echoed.flatMap((event) => (event.type === 'result' ? event.result.content : [])),
  };
}

const stdioServer = fileURLToPath(new URL('../fixtures/mcp-stdio-server.ts', import.meta.url));

/** Five ways to the same tools. */
const TRANSPORTS: Record<string, (scope: Disposer) => Promise<ToolSource>> = {
  async memory(scope) {
    const [near, far] = messagePair();
    scope.use(serveMessages(ourCatalogue().source, far));
    return scope.use(await dialMessages(near));
  },
  stdio: async (scope) =>
    scope.use(await dialTransport(childTransport(['--import', 'tsx', stdioServer]))),
  async http(scope) {
    const { url } = scope.use(await offerHttp(ourCatalogue().source));
    return scope.use(await dialHttp({ url }));
  },
  async sse(scope) {
    const official = serverV1();
    officialCatalogue(official);
    const { url } = scope.use(await officialSse(official));
    return scope.use(await dialSse({ url }));
  },
  async grpc(scope) {
    const { url } = scope.use(await offerGrpc(ourCatalogue().source));
    return scope.use(await dialGrpc({ url }));
  },
};

suite('the official MCP SDK', missing, () => {
  verifies(
    ['S246', 'S247'],
    'one program has the same results over memory, stdio, HTTP, SSE and gRPC',
    async () => {
      const expected = await program(ourCatalogue().source);
      expect(expected).toMatchObject({ same: true, more: undefined, text: [{ text: 'hi' }] });
      for (const [name, open] of Object.entries(TRANSPORTS)) {
        await using scope = new Disposer();
        expect([name, await program(await open(scope))]).toEqual([name, expected]);
      }
    },
  );
});

/** A transport that the library does not know: the port of a worker. */
function portRoad(port: MessagePort): MessageTransport {
  const incoming = new Channel<JsonObject>({ capacity: 64 });
  port.on('message', (message: JsonObject) => void incoming.push(message).catch(() => {}));
  port.on('close', () => incoming.close());
  return {
    incoming,
    send: async (message) => port.postMessage(message),
    close: async () => port.close(),
  };
}

async function overPort(source: ToolSource, scope: Disposer): Promise<ToolSource> {
  const { port1, port2 } = new MessageChannel();
  scope.use(serveMessages(source, portRoad(port2)));
  return scope.use(await dialMessages(portRoad(port1)));
}

toolSourceContract('a custom transport', async () => {
  const { source, ...rest } = ourCatalogue();
  const scope = new Disposer();
  const led = await overPort(source, scope);
  return { ...rest, source: led, [Symbol.asyncDispose]: () => scope[Symbol.asyncDispose]() };
});

verifies('S248', 'such a transport works behind all our server sides', async () => {
  await using scope = new Disposer();
  const { url } = scope.use(await offerGrpc(await overPort(ourCatalogue().source, scope)));
  const far = scope.use(await dialGrpc({ url }));
  expect(await toArray(far.listTools())).toHaveLength(TOOL_COUNT);
  expect(await program(far)).toEqual(await program(ourCatalogue().source));
});

describe('knowledge of protocols', () => {
  const files = sourceFiles().filter((file) => !file.includes('/gen/'));
  const imports = files.flatMap((file) => importsOf(file));
  const withoutComments = (text: string): string =>
    text.replaceAll(/\/\/.*|\/\*[^]*?\*\/|^import .*;$/gm, '');

  verifies(['S249', 'S255'], 'gRPC has no cursors, in its code or on its wire', () => {
    const code = files.filter((file) => file.startsWith('mcp/grpc/'));
    expect(code.length).toBeGreaterThan(10);
    const proto = readFileSync(
      new URL('../../proto/mcp/stream/v1/mcp.proto', import.meta.url),
      'utf8',
    );
    for (const text of [proto, ...code.map(readSource)])
      expect(withoutComments(text)).not.toMatch(/cursor/i);
  });

  verifies('S263', 'only the bridge knows both protocols', () => {
    const knows = (file: string, folder: string): boolean =>
      imports.some(
        (one) =>
          one.file === file &&
          (one.target?.startsWith(`mcp/${folder}/`) ||
            // The door of MCP has the JSON-RPC ends.
            (folder === 'json-rpc' && one.target === 'mcp/index.ts' && one.kind !== 'type')),
      );
    const both = files.filter((file) => knows(file, 'grpc') && knows(file, 'json-rpc'));
    expect(both.toSorted()).toEqual(['cli/commands/bridge.ts', 'cli/commands/dial-source.ts']);
  });

  verifies(
    'S264',
    'a program without gRPC never loads it: it has an entry point of its own',
    () => {
      const loaded = new Set<string>();
      const visit = (file: string): void => {
        if (loaded.has(file)) return;
        loaded.add(file);
        for (const one of imports)
          if (one.file === file && one.target !== undefined && one.kind === 'static')
            visit(one.target);
      };
      for (const door of ['index.ts', 'mcp/index.ts', 'host/index.ts']) visit(door);
      expect(loaded.size).toBeGreaterThan(50);
      expect([...loaded].filter((file) => /^(mcp\/)?grpc\//.test(file))).toEqual([]);
      const { exports } = JSON.parse(
        readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
      ) as { exports: Record<string, string> };
      expect(exports['./mcp/grpc']).toBe('./dist/mcp/grpc/index.js');
    },
  );
});
