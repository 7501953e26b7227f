/** The server of `bench/mcp.ts`: `ours|sdk stdio|http <tools>`. Over HTTP it prints its address. */
import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import { listen } from '../src/http/node-server.ts';
import type { JsonObject } from '../src/json.ts';
import { offerHttp } from '../src/mcp/json-rpc/http/server/offer-http.ts';
import { offerStdio } from '../src/mcp/json-rpc/stdio.ts';
import type { Tool, ToolSource } from '../src/mcp/types.ts';

const PAGE = 1_000;
const [, , who, road, count] = process.argv;

const toolOf = (n: number): Tool => ({
  name: `tool-${n}`,
  description: `Does the thing number ${n} and says what came of it`,
  inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
});

const source: ToolSource = {
  info: { name: 'bench', version: '1' },
  async *listTools() {
    for (let n = 0; n < Number(count); n += 1) yield toolOf(n);
  },
  async *callTool({ name, args }) {
    if (name === 'burst')
      for (let done = 1; done <= 10; done += 1) yield { type: 'progress', progress: done };
    yield { type: 'result', result: { content: [{ type: 'text', text: args['text'] }] } };
  },
};

type Handle = (request: JsonObject, context: JsonObject) => unknown;
interface SdkServer {
  setRequestHandler(method: string, handle: Handle): void;
  connect(transport: unknown): Promise<void>;
}

function sdkServer(load: (name: string) => unknown): SdkServer {
  const { Server } = load('@modelcontextprotocol/server') as {
    Server: new (info: JsonObject, options: JsonObject) => SdkServer;
  };
  const server = new Server({ name: 'bench', version: '1' }, { capabilities: { tools: {} } });
  server.setRequestHandler('tools/list', (request) => {
    const { cursor = '0' } = (request['params'] ?? {}) as { cursor?: string };
    const [from, to] = [Number(cursor), Math.min(Number(cursor) + PAGE, Number(count))];
    const tools = Array.from({ length: to - from }, (_, n) => toolOf(from + n));
    return { tools, ...(to < Number(count) && { nextCursor: String(to) }) };
  });
  server.setRequestHandler('tools/call', async (request, context) => {
    const {
      name,
      arguments: args,
      _meta,
    } = request['params'] as {
      name: string;
      arguments: JsonObject;
      _meta?: JsonObject;
    };
    const { notify } = context['mcpReq'] as { notify: (message: JsonObject) => Promise<void> };
    const progressToken = _meta?.['progressToken'];
    if (name === 'burst')
      for (let progress = 1; progress <= 10; progress += 1)
        void notify({ method: 'notifications/progress', params: { progressToken, progress } });
    return { content: [{ type: 'text', text: args['text'] }] };
  });
  return server;
}

if (who === 'ours') {
  if (road === 'stdio') offerStdio(source, { pageSize: PAGE });
  else process.stdout.write(`${(await offerHttp(source, { pageSize: PAGE })).url}\n`);
} else {
  const load = createRequire(new URL('../peers/mcp-sdk/package.json', import.meta.url));
  const server = sdkServer(load);
  if (road === 'stdio') {
    const { StdioServerTransport } = load('@modelcontextprotocol/server/stdio') as {
      StdioServerTransport: new () => unknown;
    };
    await server.connect(new StdioServerTransport());
  } else {
    const { WebStandardStreamableHTTPServerTransport: Transport } = load(
      '@modelcontextprotocol/server',
    ) as {
      WebStandardStreamableHTTPServerTransport: new (options: JsonObject) => {
        handleRequest(request: Request): Promise<Response>;
      };
    };
    const transport = new Transport({ sessionIdGenerator: () => randomUUID() });
    await server.connect(transport);
    const { url } = await listen((request) => transport.handleRequest(request));
    process.stdout.write(`${url}/mcp\n`);
  }
}
