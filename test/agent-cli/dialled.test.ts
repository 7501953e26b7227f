import { expect, test } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { peer } from '../peers.ts';
import { everything } from '../support/mcp/everything-server.ts';
import { suite, verifies } from '../verifies.ts';
import { RawHost, Workspace } from './workspace.ts';

const servers = await peer('mcp-servers');

async function callEcho(ws: Workspace, mcpServers: JsonObject): Promise<RawHost> {
  const model = await ws.script([
    { tools: [{ name: 'mcp__all__echo', input: { message: 'over the wire' } }] },
    { text: 'done' },
  ]);
  const config = ['--mcp-config', JSON.stringify({ mcpServers })];
  const host = new RawHost(ws, [...config, '--allowedTools', 'mcp__all', '--model', model]);
  host.prompt('go');
  return host;
}

suite('MCP servers of other projects, over a network', servers.reason, () => {
  for (const [type, mode] of [
    ['http', 'streamableHttp'],
    ['sse', 'sse'],
  ] as const)
    verifies(['S233', 'S235'], `a server of the type ${type} is connected and called`, async () => {
      await using ws = await Workspace.open();
      await using server = await everything(servers, mode);
      await using host = await callEcho(ws, { all: { type, url: server.url } });
      const init = await host.type('system', 'init');
      expect(init['mcp_servers']).toEqual([{ name: 'all', status: 'connected', source: 'flag' }]);
      const offered = (init['tools'] as string[]).filter((name) => name.startsWith('mcp__all__'));
      expect(offered).toContain('mcp__all__echo');
      expect(offered.length).toBeGreaterThan(5);
      expect(await host.result()).toMatchObject({ result: 'done', permission_denials: [] });
      expect(JSON.stringify(host.seen)).toContain('Echo: over the wire');
      expect(await host.end()).toBe(0);
    });
});

test('a server with an invalid address fails with an error that names it', async () => {
  await using ws = await Workspace.open();
  await using host = await callEcho(ws, {
    away: { type: 'sse', url: 'http://127.0.0.1:9/sse' },
    bad: { type: 'http', url: 'nowhere' },
    odd: { type: 'pigeon', url: 'http://127.0.0.1:9/' },
  });
  await host.result();
  host.request('s', 'mcp_status');
  const { mcpServers } = (await host.answered('s'))['response'] as { mcpServers: JsonObject[] };
  expect(mcpServers.map(({ name, status, error }) => [name, status, error])).toEqual([
    ['away', 'failed', expect.stringContaining('http://127.0.0.1:9')],
    ['bad', 'failed', 'invalid url "nowhere" of MCP server "bad": expected a URL'],
    ['odd', 'failed', 'unknown server type "pigeon"; available: stdio, http, sse'],
  ]);
});
