import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { noWindows, testIf } from '../verifies.ts';

const module = new URL('../../src/stream/overflow-queue.ts', import.meta.url).href;

testIf(noWindows, 'a process killed with -9 leaves no file of its overflow queue', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'duolane-test-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const script = `
      import { OverflowQueue } from ${JSON.stringify(module)};
      const queue = new OverflowQueue({ memoryBytes: 0, directory: ${JSON.stringify(directory)} });
      for (let n = 0; n < 1000; n++) queue.offer('x'.repeat(100));
      console.log(queue.waiting.diskBytes);
      setInterval(() => {}, 1000);
    `;
  const child = spawn(
    process.execPath,
    ['--import', 'tsx', '--input-type=module', '--eval', script],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  onTestFinished(() => void child.kill('SIGKILL'));
  const exited = once(child, 'exit');
  const [bytes] = (await once(child.stdout, 'data')) as [Buffer];
  expect(Number(bytes.toString())).toBeGreaterThan(90_000);
  child.kill('SIGKILL');
  await exited;
  expect(readdirSync(directory)).toEqual([]);
});
