import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'duolane-mains-'));
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));

/** Runs the built program with no key and no terminal; `close` comes when nobody holds its output. */
async function run(name: string, ...args: string[]): Promise<{ code: number; output: string }> {
  const file = fileURLToPath(new URL(`../../dist/examples/${name}/main.js`, import.meta.url));
  const child = spawn(process.execPath, [file, ...args], {
    cwd: folder,
    env: { PATH: process.env['PATH'], HOME: folder },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  const [code] = (await once(child, 'close')) as [number];
  return { code, output };
}

test('tickets files one, approved for want of a reviewer, and says so', async () => {
  const { code, output } = await run('tickets');
  expect(output).toContain('(no terminal: approved)');
  expect(output).toContain("Ticket 'Fix login bug' created successfully (ID: TKT-42)");
  expect(code).toBe(0);
});

test('distill prints the spec, and fails with the reason for what is no transcript', async () => {
  const { code, output } = await run('distill');
  expect(JSON.parse(output)).toMatchObject({ name: 'order-agent' });
  expect(code).toBe(0);
  expect(await run('distill', process.execPath.replace(/node$/, 'no-such-file'))).toMatchObject({
    code: 1,
    output: expect.stringContaining('ENOENT'),
  });
});
