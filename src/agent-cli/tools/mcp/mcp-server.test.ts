import { expect, test } from 'vitest';
import type { Items } from '../../../stream/types.ts';
import type { Tool, ToolSource } from '../../../mcp/types.ts';
import { Server, type ServerDialer, type ServerEvents } from './mcp-server.ts';

const toolOf = (name: string, description = ''): Tool => ({
  name,
  description,
  inputSchema: { type: 'object' },
});

/** A server with this list of tools; it ignores the signal. */
function serverOf(
  list: () => AsyncGenerator<Tool>,
  listMs?: number,
  log: ServerEvents['log'] = () => {},
): Server {
  const source: ToolSource & AsyncDisposable = {
    info: { name: 's', version: '1' },
    listTools: () => list() as unknown as Items<Tool>,
    async *callTool() {},
    async [Symbol.asyncDispose]() {},
  };
  const dialer: ServerDialer = {
    transport: 'stdio',
    source: 'flag',
    config: {},
    dial: async () => source,
  };
  const never = (): never => {
    throw new Error('not in this test');
  };
  return new Server('s', dialer, { elicit: never, log }, listMs);
}

async function* endless(description: string): AsyncGenerator<Tool> {
  for (let i = 0; ; i++) yield toolOf(`t${i}`, description);
}

async function* silent(): AsyncGenerator<Tool> {
  await new Promise(() => {});
  yield toolOf('never');
}

test.each([
  ['tools without end', () => endless(''), undefined, '10000 tools'],
  ['long descriptions', () => endless('x'.repeat(1 << 20)), undefined, '16777216 characters'],
  ['nothing', silent, 50, 'timed out after 50 ms'],
])('a server that lists %s fails, and its session does not wait', async (_, list, ms, why) => {
  const server = serverOf(list, ms);
  server.connect();
  await server.ready();
  expect(server.describe()).toMatchObject({
    status: 'failed',
    error: expect.stringContaining(why) as string,
  });
  expect(server.tools()).toEqual([]);
});

test('a server that lists its tools is connected', async () => {
  const server = serverOf(async function* () {
    yield toolOf('one');
  });
  server.connect();
  await server.ready();
  expect(server.status).toBe('connected');
  expect(server.tools().map(({ spec }) => spec.name)).toEqual(['mcp__s__one']);
});

test('tools that a model API would refuse are omitted, and the log says so', async () => {
  const logged: unknown[] = [];
  const tools = ['a.b', 'a_b', '', 'x'.repeat(200)].map((name) => toolOf(name));
  const server = serverOf(
    async function* () {
      yield* tools;
      yield { name: 'c', inputSchema: { properties: {} } };
    },
    undefined,
    (...entry) => void logged.push(entry),
  );
  server.connect();
  await server.ready();
  expect(server.tools().map(({ spec }) => [spec.name, spec.input_schema['type']])).toEqual([
    ['mcp__s__a_b', 'object'],
    ['mcp__s__c', 'object'],
  ]);
  expect(JSON.stringify(logged)).toContain('3 tools are omitted');
  await server.disconnect();
});
