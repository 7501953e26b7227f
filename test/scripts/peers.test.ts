import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { peer } from '../peers.ts';
import { openSandbox } from './sandbox.ts';
import { suite } from '../verifies.ts';

const [agentSdk, mcpSdk, a2aSdk] = await Promise.all(['agent-sdk', 'mcp-sdk', 'a2a-sdk'].map(peer));

suite('agent-sdk', agentSdk?.reason, () => {
  test('the official agent SDK imports, without the CLI that it would bring', async () => {
    const sdk = await agentSdk?.import('@anthropic-ai/claude-agent-sdk');
    expect(sdk).toMatchObject({ query: expect.any(Function), tool: expect.any(Function) });
    const packages = join(agentSdk?.path ?? '', 'node_modules', '@anthropic-ai');
    expect(existsSync(join(packages, 'claude-agent-sdk'))).toBe(true);
    expect(existsSync(join(packages, `claude-agent-sdk-${process.platform}-${process.arch}`))).toBe(
      false,
    );
  });
});

suite('mcp-sdk', mcpSdk?.reason, () => {
  test('the official MCP SDK imports, in both of its lines', async () => {
    const one = await mcpSdk?.import('@modelcontextprotocol/sdk/client/index.js');
    const two = await mcpSdk?.import('@modelcontextprotocol/client');
    expect([one?.['Client'], two?.['Client']]).toEqual([
      expect.any(Function),
      expect.any(Function),
    ]);
    expect(one?.['Client']).not.toBe(two?.['Client']);
    expect(await mcpSdk?.import('@modelcontextprotocol/server')).toHaveProperty('McpServer');
  });
});

suite('a2a-sdk', a2aSdk?.reason, () => {
  test('the official A2A SDK imports, for protocol 1.0 and 0.3', async () => {
    for (const name of ['@a2a-js/sdk/server', 'a2a-sdk-03/server'])
      expect(await a2aSdk?.import(name)).toHaveProperty('DefaultRequestHandler');
  });

  test('resolve finds a module from the folder of the peer', () => {
    const path = fileURLToPath(a2aSdk?.resolve('@a2a-js/sdk') ?? '');
    expect(path.startsWith(join(a2aSdk?.path ?? '', 'node_modules'))).toBe(true);
    expect(() => a2aSdk?.resolve('vitest-no-such-package')).toThrow('Cannot find package');
  });
});

test('an unknown peer is an error, not a skip', async () => {
  await expect(peer('no-such-peer')).rejects.toThrow('unknown peer "no-such-peer"');
});

test('without a network a peer reports why it is not available', async () => {
  using box = openSandbox();
  const dependencies = { 'left-pad': '1.3.0' };
  const packages = { '': { dependencies }, 'node_modules/left-pad': { version: '1.3.0' } };
  box.write('peers/pad/package.json', JSON.stringify({ dependencies }));
  box.write('peers/pad/package-lock.json', JSON.stringify({ lockfileVersion: 3, packages }));
  box.write(
    'scripts/ask.mjs',
    `import { ensurePeer, everydayPeers } from './peers.mjs';
     const peer = await ensurePeer('pad');
     console.log(everydayPeers().join(), peer.available, peer.reason);
     await peer.import('left-pad').catch((error) => console.log(error.message === peer.reason));`,
  );
  const { lines } = await box.run('ask.mjs', {
    npm_config_registry: 'http://127.0.0.1:1/',
    npm_config_cache: join(box.path, 'cache'),
    npm_config_fetch_retry_mintimeout: '1',
  });
  expect(lines).toEqual([
    'pad false peer pad is not installed: the npm registry cannot be reached (ECONNREFUSED); connect once and run this again',
    'true',
  ]);
});
