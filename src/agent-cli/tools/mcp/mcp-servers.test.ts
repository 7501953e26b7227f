import { expect, test } from 'vitest';
import { DuolaneError } from '../../../errors.ts';
import type { JsonObject } from '../../../json.ts';
import { createRegistry } from '../../../mcp/registry/registry.ts';
import type { SourceChange, Tool } from '../../../mcp/types.ts';
import { ControlLink } from '../../../wire/control-link.ts';
import { Server, type ServerEvents } from './mcp-server.ts';
import { McpServers } from './mcp-servers.ts';

const SDK = { type: 'sdk' };

function open(log: ServerEvents['log'] = () => {}): McpServers {
  return new McpServers({
    lane: new ControlLink({ side: 'agent', write: () => {}, handle: () => ({ ok: true }) }),
    events: { elicit: async () => ({}), log },
    help: {
      cwd: '.',
      env: {},
      clientInfo: { name: 't', version: '1' },
      maySample: () => false,
      onRequest: async () => ({}),
    },
  });
}
const names = (servers: McpServers): unknown[] => servers.list().map(({ name }) => name);

test('two replacements at the same time run one after the other', async () => {
  await using servers = open();
  await servers.replace({ a: SDK });
  const [, second] = await Promise.all([servers.replace({}), servers.replace({ a: SDK, b: SDK })]);
  expect(second).toMatchObject({ added: ['a', 'b'] });
  expect(names(servers)).toEqual(['a', 'b']);
});

test('a server that is removed while it reconnects stays removed', async () => {
  await using servers = open();
  await servers.replace({ a: SDK });
  const removed = servers.replace({});
  const again = servers.toggle('a', true);
  await removed;
  await expect(again).rejects.toMatchObject({ code: 'not_found' });
  expect(names(servers)).toEqual([]);
});

test('tools of two servers with one name for the model are omitted, which is logged once', async () => {
  const logged: unknown[] = [];
  await using servers = open((...entry) => void logged.push(entry));
  const listing = (...tools: string[]): JsonObject => ({
    toolsListResult: { tools: tools.map((name) => ({ name, inputSchema: { type: 'object' } })) },
  });
  servers.add('a', SDK, listing('b__c', 'd'));
  servers.add('a__b', SDK, listing('c'));
  for (let times = 0; times < 2; times++)
    expect(servers.tools().map(({ spec }) => spec.name)).toEqual(['mcp__a__d']);
  expect(logged).toEqual([['a__b', 'warning', expect.stringContaining('"mcp__a__b__c"')]]);
});

test('a failure to list changed tools is logged', async () => {
  const logged: unknown[] = [];
  let change = (): void => {};
  const changed = new Promise<void>((resolve) => (change = resolve));
  let lists = 0;
  const source = {
    info: createRegistry({ name: 's', tools: [] }).info,
    async *listTools(): AsyncGenerator<Tool> {
      if (lists++ > 0) throw new DuolaneError('network', 'it is gone');
    },
    async *callTool() {},
    async *listen(): AsyncGenerator<SourceChange> {
      await changed;
      yield { type: 'tools' };
    },
    async [Symbol.asyncDispose]() {},
  };
  const dialer = { transport: 'stdio', source: 'flag', config: {}, dial: async () => source };
  const server = new Server('s', dialer, {
    elicit: async (): Promise<JsonObject> => ({}),
    log: (...entry) => void logged.push(entry),
  });
  server.connect();
  await server.ready();
  change();
  await expect.poll(() => logged).toHaveLength(1);
  expect(JSON.stringify(logged)).toContain('it is gone');
  await server.disconnect();
});
