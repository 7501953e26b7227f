import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';

const main = fileURLToPath(new URL('../../dist/examples/adapters/main.js', import.meta.url));

/** Runs `examples/adapters` as built, with no key; on a free port unless one is given. */
export async function runExample(
  framework: string,
  env: NodeJS.ProcessEnv = { PORT: '0' },
): Promise<{ readonly code: number | null; readonly output: string }> {
  const home = mkdtempSync(join(tmpdir(), 'duolane-adapters-'));
  try {
    const child = spawn(process.execPath, [main, framework], {
      cwd: home,
      env: { PATH: process.env['PATH'], HOME: home, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (output += text));
    const [code] = (await once(child, 'close')) as [number | null];
    return { code, output };
  } finally {
    rmSync(home, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Checks that the agent of the example calls its weather tool and sends the complete text. */
export async function checkExample(framework: string): Promise<void> {
  const { code, output } = await runExample(framework);
  expect(output).toMatch(/WORKING: Calling (mcp__sky__)?weather/);
  expect(output).toContain('COMPLETED: In Paris it is 21 °C and clear.');
  expect(code).toBe(0);
}
