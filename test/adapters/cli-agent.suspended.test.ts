import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { cli } from '../../src/adapters/cli-agent.ts';
import { createSdkMcpServer, tool } from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { createRunner, memoryLog } from '../../src/task/index.ts';
import { answer, turn, until } from '../task/replica-world.ts';

/** Calls a tool, then says what it was given; notes its process and every request that it gets. */
const MODEL = `
  import { appendFileSync } from 'node:fs';
  export default async function* model({ messages }) {
    appendFileSync(process.env.NOTES, JSON.stringify({ pid: process.pid, messages }) + '\\n');
    const blocks = messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
    if (blocks.some(({ type }) => type === 'tool_result')) return yield 'done';
    yield { type: 'tool_use', id: 'toolu_1', name: 'mcp__notes__approve' };
    yield { type: 'tool_input', json: '{}' };
  }
`;

interface Noted {
  readonly pid: number;
  readonly messages: readonly { readonly content: unknown }[];
}

function place(): { readonly home: string; readonly noted: () => readonly Noted[] } {
  const home = mkdtempSync(join(tmpdir(), 'duolane-parked-'));
  onTestFinished(() => rmSync(home, { recursive: true, force: true, maxRetries: 3 }));
  writeFileSync(join(home, 'model.mjs'), MODEL);
  const file = join(home, 'notes.jsonl');
  const noted = (): readonly Noted[] =>
    existsSync(file)
      ? readFileSync(file, 'utf8')
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line) as Noted)
      : [];
  return { home, noted };
}

const agentOf = (home: string): ReturnType<typeof cli> =>
  cli({
    cwd: home,
    env: { HOME: home, CLAUDE_CONFIG_DIR: join(home, 'config'), NOTES: join(home, 'notes.jsonl') },
    inheritEnv: ['PATH'],
    model: `module:${join(home, 'model.mjs')}`,
    allowedTools: ['mcp__notes__*'],
    mcpServers: {
      notes: createSdkMcpServer({
        name: 'notes',
        tools: [
          tool('approve', 'Asks', { type: 'object' }, async (_, ctx) => {
            const { action } = await ctx.ask({ id: 'review', kind: 'approval' });
            return `it was: ${action}`;
          }),
        ],
      }),
    },
  });

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

/** Waits for processes to exit, which no event reports. */
async function gone(pids: () => readonly number[]): Promise<void> {
  while (pids().some(isAlive)) await sleep(20);
}

test.each([
  ['parked', 'while the runner goes on'],
  ['stopped', 'by a graceful stop'],
])('a run that is %s by a question keeps no process, and its answer is sent once', async (how) => {
  const { home, noted } = place();
  await using log = memoryLog();
  const first = createRunner({
    log,
    agents: { a: agentOf(home) },
    suspendAfterMs: how === 'parked' ? 50 : 600_000,
  });
  await first.submit(turn('a', 't1', { parts: [{ text: 'go' }] }));
  const asked = await until(log, 't1', ({ pending }) => pending.length === 1);
  if (how === 'stopped') await first[Symbol.asyncDispose]();
  await gone(() => noted().map(({ pid }) => pid));
  expect(noted()).toHaveLength(1);
  await using second =
    how === 'stopped' ? createRunner({ log, agents: { a: agentOf(home) } }) : first;
  await second.submit(answer('a', 't1', asked.pending[0]?.id ?? ''));
  const { state } = await until(
    log,
    't1',
    ({ state: now }) => now === 'completed' || now === 'failed',
  );
  expect(state).toBe('completed');
  const last = noted().at(-1);
  const results = (last?.messages ?? [])
    .flatMap(({ content }) => (Array.isArray(content) ? (content as JsonObject[]) : []))
    .filter(({ type }) => type === 'tool_result');
  expect(results).toHaveLength(1);
  expect(JSON.stringify(results)).toContain('it was: accept');
  expect(JSON.stringify(last?.messages)).not.toContain('interrupted');
});
