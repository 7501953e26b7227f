import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { acp } from '../../src/adapters/acp/acp-agent.ts';
import type { AcpOptions } from '../../src/adapters/acp/acp-options.ts';
import { checkLaws, normalizeAgent } from '../../src/event/index.ts';
import type { Agent, AgentEvent, Snapshot } from '../../src/event/types.ts';
import { contextFor, foldRun, newTask } from '../contracts/agent.contract.ts';
import { peer } from '../peers.ts';
import { turnOf } from '../support/arbitraries.ts';
import { startModelServer } from '../support/model-server.ts';
import { suite, testIf } from '../verifies.ts';

// Agents of others, as they are on npm, with a scripted model on loopback.

const agents = await peer('acp-agents');
const home = mkdtempSync(join(tmpdir(), 'duolane-acp-agents-'));
afterAll(() => rmSync(home, { recursive: true, force: true, maxRetries: 5 }));

const env = {
  PATH: process.env['PATH'],
  HOME: home,
  XDG_CONFIG_HOME: join(home, 'config'),
  XDG_DATA_HOME: join(home, 'data'),
  XDG_CACHE_HOME: join(home, 'cache'),
  XDG_STATE_HOME: join(home, 'state'),
  NO_COLOR: '1',
};

const openCode = (url: string): string =>
  JSON.stringify({
    autoupdate: false,
    share: 'disabled',
    model: 'scripted/m',
    small_model: 'scripted/small',
    provider: {
      scripted: {
        npm: '@ai-sdk/openai-compatible',
        options: { baseURL: `${url}/v1`, apiKey: 'dummy' },
        models: { m: {}, small: {} },
      },
    },
  });

const AGENTS: Readonly<Record<string, (url: string) => AcpOptions>> = {
  gemini: (url) => ({
    args: ['--acp', '-m', 'gemini-2.5-flash'],
    auth: 'gemini-api-key',
    env: {
      ...env,
      GEMINI_API_KEY: 'dummy',
      GOOGLE_GEMINI_BASE_URL: url,
      GEMINI_TELEMETRY_ENABLED: 'false',
      GEMINI_CLI_TRUST_WORKSPACE: 'true',
    },
  }),
  'claude-agent-acp': (url) => ({
    env: {
      ...env,
      ANTHROPIC_API_KEY: 'dummy',
      ANTHROPIC_BASE_URL: url,
      DISABLE_TELEMETRY: '1',
      DISABLE_AUTOUPDATER: '1',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    },
  }),
  opencode: (url) => ({
    args: ['acp'],
    env: {
      ...env,
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
      OPENCODE_CONFIG_CONTENT: openCode(url),
    },
  }),
};

/** The registry may lack OpenCode for other platforms, so the package of one of them is used. */
const command = (name: string): string =>
  name === 'opencode'
    ? join(agents.path, 'node_modules', 'opencode-linux-x64', 'bin', name)
    : join(agents.path, 'node_modules', '.bin', name);

async function run(
  agent: Agent,
  message: string,
  task: Snapshot,
  text: string,
): Promise<{ readonly events: readonly AgentEvent[]; readonly task: Snapshot }> {
  const turn = turnOf(message, { parts: [{ text }] });
  const events: AgentEvent[] = [];
  for await (const event of normalizeAgent(agent, { graceMs: 10_000 })(turn, contextFor(task).ctx))
    events.push(event);
  expect(checkLaws(events)).toEqual([]);
  return { events, task: message === 'm1' ? foldRun(task, events) : task };
}

suite('acp-agents', agents.reason, () => {
  for (const [name, options] of Object.entries(AGENTS))
    testIf(
      existsSync(command(name)) ? undefined : `${name} has no package for this platform`,
      `${name}: streams its text, and a new process continues the conversation`,
      async () => {
        await using model = await startModelServer(() => ({
          text: ['Hello ', 'there.'],
          usage: { input: 7, output: 3 },
        }));
        const agent = acp(command(name), { cwd: home, ...options(model.url) });
        const first = await run(agent, 'm1', newTask(), 'My name is Rumpelstiltskin.');
        expect(first.events.at(-1)).toMatchObject({
          outcome: 'completed',
          text: 'Hello there.',
          usage: { inputTokens: 7, outputTokens: 3 },
        });
        expect(first.task.sessionId).toEqual(expect.any(String));
        const asked = model.calls.length;
        const second = await run(agent, 'm2', first.task, 'And now?');
        expect(second.events.at(-1)).toMatchObject({ outcome: 'completed', text: 'Hello there.' });
        // Gemini CLI does not load its session here, so that a new one gets the conversation as text.
        if (name !== 'gemini')
          expect(second.events[0]).toMatchObject({ sessionId: first.task.sessionId });
        const requests = model.calls.slice(asked).map(({ body }) => JSON.stringify(body));
        expect(
          requests.some((body) => body.includes('Rumpelstiltskin') && body.includes('And now?')),
        ).toBe(true);
      },
    );

  test('codex-acp: starts, and says how to authenticate', async () => {
    const agent = acp(command('codex-acp'), { cwd: home, env });
    const { events } = await run(agent, 'm1', newTask(), 'hi');
    expect(events.at(-1)).toMatchObject({
      outcome: 'failed',
      error: { code: 'unauthorized', message: expect.stringContaining('"api-key"') as string },
    });
  });
});
