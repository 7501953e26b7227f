import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { connectA2A } from '../../src/a2a/index.ts';
import { all, Caller, taskIdOf, textOf, wordOf } from '../../test/a2a/support.ts';

const built = (name: string): string =>
  fileURLToPath(new URL(`../../dist/examples/hello/${name}.js`, import.meta.url));

function start(name: string) {
  const home = mkdtempSync(join(tmpdir(), 'duolane-hello-'));
  const env = { PATH: process.env['PATH'], HOME: home };
  const child = spawn(process.execPath, [built(name)], {
    cwd: home,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(async () => {
    if (child.exitCode === null) child.kill('SIGINT');
    if (child.exitCode === null) await once(child, 'exit');
    rmSync(home, { recursive: true, force: true, maxRetries: 3 });
  });
  return { child, lines: createInterface({ input: child.stdout }) };
}

test('the agent answers with the result of our function, and exits', async () => {
  const { child, lines } = start('main');
  const [line] = (await once(lines, 'line')) as [string];
  expect(line).toBe('Apollo 11 landed on 20 July 1969.');
  const [code] =
    child.exitCode === null ? ((await once(child, 'exit')) as [number]) : [child.exitCode];
  expect(code).toBe(0);
});

test('the simulation of the guide finds nothing wrong', async () => {
  const { child, lines } = start('simulate');
  const said: string[] = [];
  lines.on('line', (line) => said.push(line));
  await once(lines, 'close');
  expect(child.exitCode ?? (await once(child, 'exit'))[0]).toBe(0);
  expect(said).toEqual([
    expect.stringMatching(/^agent: 50 schedules, [1-9]\d* crashes$/),
    expect.stringMatching(/^tools: 50 schedules, [1-9]\d* aborts$/),
  ]);
});

test('the tools of the guide count, reject with a helpful message, and report progress', async () => {
  const { child, lines } = start('tools');
  const said: string[] = [];
  lines.on('line', (line) => said.push(line));
  await once(lines, 'close');
  expect(child.exitCode ?? (await once(child, 'exit'))[0]).toBe(0);
  expect(said.slice(0, 2)).toEqual(['count', 'recount']);
  expect(said.slice(2).map((line) => JSON.parse(line) as unknown)).toMatchObject([
    { type: 'result', result: { structuredContent: { part: 'bolt', count: 120 } } },
    {
      type: 'result',
      result: {
        isError: true,
        content: [{ text: expect.stringContaining('no part "screw"; there are bolt, nut') }],
      },
    },
    { type: 'progress', progress: 1, total: 2, message: 'bolt' },
    { type: 'progress', progress: 2, total: 2, message: 'nut' },
    { type: 'result', result: { content: [{ text: '2 kinds of part' }] } },
  ]);
});

test.each([
  ['session', ['Apollo 11 landed on 20 July 1969.', "[ 'mcp__moon__landing' ]"]],
  ['log', ['1 turn.submitted', '2 run.started', '3 text.delta', '4 text.end', '5 run.finished']],
  ['mcp', [expect.stringMatching(/^MCP server at http/), 'landing', expect.stringMatching(/1969/)]],
  [
    'eval',
    ['contract', 'outcome', 'text', 'total', 'short'].map((score) => `greets by name ${score} 1`),
  ],
] as const)('the program %s of a guide prints what the guide describes', async (name, expected) => {
  const { child, lines } = start(name);
  const printed: string[] = [];
  lines.on('line', (line) => printed.push(line));
  await once(lines, 'close');
  expect(child.exitCode ?? (await once(child, 'exit'))[0]).toBe(0);
  expect(printed).toEqual(expected);
});

test('the program of the client guide streams, answers a question, and exits', async () => {
  const { child, lines } = start('browser-client');
  const seen: string[] = [];
  for await (const line of lines) seen.push(line);
  expect(seen).toContain('Which city?');
  expect(seen.at(-1)).toBe('TASK_STATE_COMPLETED A day in Lyon: start early.');
  if (child.exitCode === null) await once(child, 'exit');
  expect(child.exitCode).toBe(0);
});

test('the program of the front-end guide reads a UI message stream to its end', async () => {
  const { child, lines } = start('front-end');
  const printed: string[] = [];
  lines.on('line', (line) => printed.push(line));
  await once(lines, 'close');
  expect(child.exitCode ?? (await once(child, 'exit'))[0]).toBe(0);
  expect(printed.join('\n')).toMatch(
    /"type":"start".*"delta":"Hello\.".*"type":"finish".*\[DONE\]/s,
  );
});

test('the served agent asks for a name and greets with it', async () => {
  const { lines } = start('serve');
  const [line] = (await once(lines, 'line')) as [string];
  const url = /clients: (\S+)$/.exec(line)?.[1] ?? '';
  await using client = await connectA2A(url);
  expect(client.card).toMatchObject({ name: 'agent' });
  const caller = new Caller(url);
  const asked = await all(caller.say('hi'));
  expect(wordOf(asked.at(-1)!)).toBe('input-required');
  const greeted = await all(caller.say('Ada', { taskId: taskIdOf(asked) }));
  expect(textOf(greeted)).toBe('Hello Ada.');
});
