import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect } from 'vitest';
import { cli } from '../../src/adapters/cli.ts';
import type { Agent } from '../../src/event/types.ts';
import { createSdkMcpServer, tool } from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import type { ToolContext } from '../../src/mcp/types.ts';
import { toA2A } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/index.ts';
import { all, Caller } from '../a2a/support.ts';
import { startModelServer } from '../support/model-server.ts';
import { verifies } from '../verifies.ts';
import { adapterContract, type Scene } from './adapter.contract.ts';

// The open agent CLI as built into dist, on the same scripted model as every framework.

const home = mkdtempSync(join(tmpdir(), 'duolane-adapter-cli-'));
afterAll(() => rmSync(home, { recursive: true, force: true, maxRetries: 5 }));

const toolName = (name: string): string => `mcp__scene__${name}`;

function build({ url, tools, output }: Scene): Agent {
  const scene = createSdkMcpServer({
    name: 'scene',
    tools: tools.map(({ name, description, schema, run }) =>
      tool(name, description, schema, async (args: JsonObject, { signal }: ToolContext) =>
        String(await run(args, signal)),
      ),
    ),
  });
  return cli({
    cwd: home,
    env: {
      HOME: home,
      CLAUDE_CONFIG_DIR: join(home, 'config'),
      OPENAI_API_KEY: 'dummy',
      DUOLANE_RETRY_BASE_MS: '1',
    },
    inheritEnv: ['PATH'],
    model: `openai:scripted@${url}/v1`,
    mcpServers: { scene },
    allowedTools: tools.filter(({ approval }) => !approval).map(({ name }) => toolName(name)),
    ...(output && { outputFormat: { type: 'json_schema', schema: output } }),
  });
}

adapterContract('the agent CLI', {
  build,
  toolName,
  retries: 'own',
  structured: (input) => [{ tools: [{ name: 'StructuredOutput', input }] }, { text: 'Done.' }],
  graceMs: 10_000,
});

verifies(
  ['S147', 'S148'],
  'served: it starts with the word that it does, not final, and ends with the whole text',
  async () => {
    await using model = await startModelServer([{ text: 'All of it.' }]);
    await using served = await toA2A(build({ url: model.url, tools: [] }), { log: memoryLog() });
    const events = await all(new Caller(served.url, '0.3').say('hi'));
    const results = events.map(({ result }) => result);
    const first = results.find(({ status }) => 'message' in (status as object));
    expect(first).toMatchObject({
      final: false,
      status: { state: 'working', message: { parts: [{ text: 'Starting...' }] } },
    });
    expect(results.at(-1)).toMatchObject({
      final: true,
      status: { state: 'completed', message: { parts: [{ text: 'All of it.' }] } },
    });
  },
);
