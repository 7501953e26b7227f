import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { openSession } from '../../src/host/index.ts';
import { createSdkMcpServer, tool } from '../../src/mcp/index.ts';
import { serve } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/memory/memory-log.ts';
import type { ReplicaInfo, ReplicaTask } from '../../src/task/types.ts';
import { suite } from '../verifies.ts';
import { openBrowser } from './browser.ts';
import { answer, pageKit, rowsOf, run, state, ticks, words } from './kit.ts';
import { startServer } from './server.ts';

// Sign-in, questions, recordings and replicas on the page.

const opened = await openBrowser();
if (opened.missing !== undefined) process.stderr.write(`${opened.missing}\n`);
const folder = mkdtempSync(join(tmpdir(), 'duolane-people-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const built = (path: string): string =>
  fileURLToPath(new URL(`../../dist/${path}`, import.meta.url));

suite('browser', opened.missing, () => {
  const { open, expectConsole, serious } = pageKit(opened);

  test('a server with a secret asks for it once; then streams, answers and reloads work', async () => {
    await using server = await startServer(
      ['page-agent', 'form-agent'],
      ['--auth', 'bearer:sesame'],
    );
    const page = await open(server.url);
    const secret = page.getByLabel('Token or key');
    await secret.fill('wrong');
    expectConsole(/401 \(Unauthorized\)/);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('Invalid token or key.').waitFor();
    expect(await serious(page)).toEqual([]);
    await secret.fill('sesame');
    await secret.press('Enter');
    await run(page, 'page-agent', 'count 20');
    await state(page, 'completed');
    expect(await words(page)).toHaveLength(20);
    expect(await page.evaluate('document.cookie')).toBe(''); // the cookie is HttpOnly
    await page.reload();
    await state(page, 'completed');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await secret.waitFor();
    await page.reload();
    await secret.waitFor();
  });

  test('a question with a schema shows fields, and names the missing one', async () => {
    await using server = await startServer(['page-agent', 'form-agent']);
    const page = await open(server.url);
    await run(page, 'page-agent', 'ask');
    const send = page.getByRole('button', { name: 'Answer', exact: true });
    await send.click();
    await page.getByText('Street is required.').waitFor();
    await page.getByLabel(/^Street/).fill('Main Street 1');
    await page.getByLabel(/^Floor/).fill('high');
    await send.click();
    await page.getByText('Floor must be a whole number.').waitFor();
    await page.getByLabel(/^Floor/).fill('3');
    await page.getByLabel(/^Speed/).selectOption('fast');
    await page.getByLabel('As a gift').click();
    expect(await serious(page)).toEqual([]);
    await send.click();
    await state(page, 'completed');
    expect(await answer(page).innerText()).toContain(
      'accept: {"street":"Main Street 1","floor":3,"speed":"fast","gift":true}',
    );
  });

  test('a trace of the pipe plays on the page, both lanes, one task per turn', async () => {
    const trace = join(folder, 'run.jsonl');
    await record(trace);
    const url = await replay(trace);
    const page = await open(url);
    await page.getByRole('button', { name: 'End replay' }).waitFor();
    expect(await answer(page).innerText()).toContain('The tool says: seven.');
    await page.getByRole('listbox').press('Home');
    expect(await rowsOf(page, 'call').getAttribute('data-state')).toBe('answered');
    await rowsOf(page, 'control')
      .filter({ hasText: /initialize\s*\d+ ms/ })
      .first()
      .waitFor();
    await page.keyboard.press('Escape');
    expect(await ticks(page, 'broken')).toBe(0);
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    await page.locator('[data-part=run]').first().waitFor();
    expect(await page.locator('[data-part=run]').count()).toBe(2);
    await page.getByRole('link', { name: 'And again?' }).click();
    await answer(page).getByText('Once more: seven.').waitFor();
    await page.getByRole('button', { name: 'End replay' }).waitFor();
    expect(await page.getByRole('button', { name: 'Cancel' }).count()).toBe(0);
  });

  test('with several replicas the page shows what each runs, and which has no heartbeat', async () => {
    const row = (pid: number, beatAgeMs: number, tasks: readonly ReplicaTask[]): ReplicaInfo => ({
      worker: `w${pid}`,
      host: 'box',
      pid,
      since: 0,
      beatAgeMs,
      here: pid === 1,
      claims: tasks.length,
      tasks,
    });
    const held = { task: 't1', agent: 'page', owner: '', state: 'working', leaseMs: 9000 } as const;
    const rows = [row(1, 10, []), row(2, 20_000, [held])];
    const log = Object.assign(memoryLog(), { replicas: async () => rows });
    await using served = await serve(async function* () {}, { log });
    const page = await open(served.url);
    await page.getByText('box · 1 (this one)').waitFor();
    const silent = page.locator('[data-part=replica][data-silent=true]');
    expect(await silent.innerText()).toMatch(/box · 2[^]*no heartbeat for 20[^]*page, working/);
    expect(await serious(page)).toEqual([]);
  });

  const replay = async (file: string): Promise<string> => {
    const args = [built('cli/duolane.js'), 'replay', file, '--page', '--json', '--speed', '50'];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    onTestFinished(async () => {
      child.kill('SIGTERM');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    });
    const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
    return (JSON.parse(line) as { url: string }).url;
  };

  /** Two turns with our own CLI, the first with a call. */
  const record = async (trace: string): Promise<void> => {
    const answers = join(folder, 'answers.json');
    const script = [
      { tools: [{ name: 'mcp__desk__count', input: {} }] },
      { text: 'The tool says: {{last}}.' },
      { text: 'Once more: seven.' },
    ];
    writeFileSync(answers, JSON.stringify(script));
    const count = tool('count', 'Counts', {}, async () => 'seven');
    await using session = await openSession({
      model: `script:${answers}`,
      pathToClaudeCodeExecutable: built('agent-cli/main.js'),
      mcpServers: { desk: createSdkMcpServer({ name: 'desk', tools: [count] }) },
      allowedTools: ['mcp__desk__*'],
      env: { PATH: process.env['PATH'] ?? '', HOME: folder },
      includePartialMessages: true,
      trace,
    });
    for (const prompt of ['How many?', 'And again?']) {
      await session.send(prompt);
      for await (const message of session.response()) expect(message['is_error']).not.toBe(true);
    }
  };
});
