import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect } from 'vitest';
import { cli } from '../../src/adapters/cli-agent.ts';
import type { Agent } from '../../src/event/types.ts';
import { createSdkMcpServer, tool } from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import type { ToolContext, ToolResult } from '../../src/mcp/types.ts';
import { toA2A } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/index.ts';
import { all, Caller } from '../a2a/support.ts';
import { startModelServer } from '../support/model-server.ts';
import { verifies } from '../verifies.ts';
import { adapterContract, type Scene } from './adapter.contract.ts';

// The open agent CLI as built into dist, on the same scripted model as every framework.

interface A2AMessage {
  readonly parts: readonly { readonly text?: string }[];
}

const home = mkdtempSync(join(tmpdir(), 'duolane-adapter-cli-'));
afterAll(() => rmSync(home, { recursive: true, force: true, maxRetries: 5 }));

const toolName = (name: string): string => `mcp__scene__${name}`;

function build({ url, tools, output }: Scene): Agent {
  const scene = createSdkMcpServer({
    name: 'scene',
    tools: tools.map(({ name, description, schema, run }) =>
      tool(name, description, schema, async (args: JsonObject, { signal }: ToolContext) => {
        const made = await run(args, signal);
        return typeof made === 'string' ? made : (made as ToolResult);
      }),
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
  'served: it starts with a status that is not final, streams the text, and ends with the complete text',
  async () => {
    const text = Array.from({ length: 20 }, (_, i) => `word ${i}, `);
    const whole = text.join('');
    await using model = await startModelServer([{ text, pieceDelayMs: 10 }]);
    const options = { log: memoryLog(), chars: 1 };
    await using served = await toA2A(build({ url: model.url, tools: [] }), options);
    const events = await all(new Caller(served.url, '0.3').say('hi'));
    const results = events.map(({ result }) => result);
    const said = results.flatMap(({ kind, final, status }) => {
      if (kind !== 'status-update') return [];
      const { state, message } = status as { state: string; message?: A2AMessage };
      if (!message) return [];
      return [{ state, final, text: message.parts.map((part) => part.text ?? '').join('') }];
    });
    expect(said[0]).toEqual({ state: 'working', final: false, text: 'Starting...' });
    expect(said.at(-1)).toEqual({ state: 'completed', final: true, text: whole });
    const growing = said.slice(1, -1);
    for (const [i, { state, final, text: words }] of growing.entries()) {
      expect([state, final]).toEqual(['working', false]);
      expect(whole.startsWith(words) && words.length >= (growing[i - 1]?.text.length ?? 1)).toBe(
        true,
      );
    }
    // Pieces may join on their way; that there were several is what matters.
    expect(new Set(growing.map(({ text: words }) => words)).size).toBeGreaterThan(2);
  },
);
