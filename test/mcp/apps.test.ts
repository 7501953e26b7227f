import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { dialGrpc, offerGrpc } from '../../src/mcp/grpc/index.ts';
import { dialHttp } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import type { Tool, ToolSource } from '../../src/mcp/types.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { call, toArray } from '../contracts/tool-source.contract.ts';

const URI = 'ui://clock/main';
const TYPE = 'text/html;profile=mcp-app';
/** What a client with MCP Apps declares. */
const APPS = { 'io.modelcontextprotocol/ui': { mimeTypes: [TYPE] } };
const TOOL: Tool = {
  name: 'clock',
  inputSchema: { type: 'object' },
  _meta: { ui: { resourceUri: URI, visibility: ['model', 'app'] } },
};
const RESOURCE = {
  uri: URI,
  name: 'clock',
  mimeType: TYPE,
  _meta: { ui: { prefersBorder: true } },
};
const PAGE = {
  uri: URI,
  mimeType: TYPE,
  text: `<!doctype html><p>${'é😀'.repeat(100_000)}</p>`, // several chunks over gRPC
  _meta: { ui: { csp: { connectDomains: ['https://time.example'] }, domain: 'x' } },
};
const RESULT = { content: [], structuredContent: { now: 1 }, _meta: { ui: { viewId: 'v' } } };

/** A server with an app, and the capabilities of the client of its last call. */
function clock(): { source: ToolSource; client: () => JsonObject | undefined } {
  let client: JsonObject | undefined;
  const items = <T>(item: T) => ({
    checkpoint: undefined,
    async *[Symbol.asyncIterator]() {
      yield item;
    },
  });
  const source: ToolSource = {
    info: { name: 'clock', version: '1' },
    listTools: () => items(TOOL),
    async *callTool({ clientCapabilities }) {
      client = clientCapabilities;
      yield { type: 'result', result: RESULT };
    },
    listResources: () => items(RESOURCE),
    async *readResource() {
      yield PAGE;
    },
  };
  return { source, client: () => client };
}

type Hop = (source: ToolSource, scope: Disposer) => Promise<ToolSource>;

const http =
  (protocol: 'session' | 'stateless'): Hop =>
  async (source, scope) => {
    const { url } = scope.use(await offerHttp(source));
    return scope.use(await dialHttp({ url, protocol, capabilities: { extensions: APPS } }));
  };

const grpc: Hop = async (source, scope) => {
  const { url } = scope.use(await offerGrpc(source));
  return scope.use(await dialGrpc({ url }));
};

const CHAINS: Readonly<Record<string, readonly Hop[]>> = {
  'HTTP with a session': [http('session')],
  'stateless HTTP': [http('stateless')],
  gRPC: [grpc],
  'a bridge from a session to gRPC': [http('session'), grpc],
  'a bridge from gRPC to a session': [grpc, http('session')],
  'a bridge between both protocols': [http('session'), http('stateless')],
};

describe('MCP Apps', () => {
  test.each(Object.entries(CHAINS))('pass through %s unchanged', async (_, hops) => {
    await using scope = new Disposer();
    let { source } = clock();
    for (const hop of hops) source = await hop(source, scope);
    expect(await toArray(source.listTools())).toEqual([TOOL]);
    expect(await toArray(source.listResources!())).toEqual([RESOURCE]);
    expect(await toArray(source.readResource!(URI))).toEqual([PAGE]);
    const [last] = await toArray(source.callTool(call('clock')));
    expect(last).toEqual({ type: 'result', result: RESULT });
  });

  test.each(['session', 'stateless'] as const)(
    'a tool learns that its client shows apps (%s)',
    async (protocol) => {
      await using scope = new Disposer();
      const { source, client } = clock();
      const dialled = await http(protocol)(source, scope);
      await toArray(dialled.callTool(call('clock')));
      expect(client()).toMatchObject({ extensions: APPS });
    },
  );
});
