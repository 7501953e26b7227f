import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import type { Agent } from '../../src/event/types.ts';
import { peer } from '../peers.ts';
import { sdkAgent, serveScene } from '../support/acp-scene.ts';
import { suite } from '../verifies.ts';
import { adapterContract, type Scene } from '../adapters/adapter.contract.ts';

// An agent that is built with the official SDK of the protocol, on the same scripted model as every
// framework. Its tools are in this process, behind MCP.

const sdk = await peer('acp');
const folder = mkdtempSync(join(tmpdir(), 'duolane-adapter-acp-'));
const scenes: AsyncDisposable[] = [];
afterAll(async () => {
  for (const scene of scenes) await scene[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

async function build({ url, tools }: Scene): Promise<Agent> {
  const scene = await serveScene(tools);
  scenes.push(scene);
  const ask = tools.filter(({ approval }) => approval).map(({ name }) => name);
  return sdkAgent(
    { sdk: sdk.resolve('@agentclientprotocol/sdk/unstable'), model: url, sessions: folder, ask },
    { mcpServers: { scene: { type: 'http', url: scene.url } } },
  );
}

suite('acp', sdk.reason, () => {
  adapterContract('an ACP agent', {
    build,
    toolName: (name) => `mcp__scene__${name}`,
    gaps: {
      arguments: 'the protocol has no partial arguments',
      structured: 'the protocol has no output in a schema',
    },
    startsOver: true,
    graceMs: 10_000,
  });
});
