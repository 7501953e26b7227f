import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { noWindows, testIf } from '../../../test/verifies.ts';
import { openTrace } from './open-trace.ts';

testIf(noWindows, 'an abort ends the wait for a pipe without a writer', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'duolane-trace-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const pipe = join(folder, 'pipe');
  execFileSync('mkfifo', [pipe]);
  const stop = new AbortController();
  const next = openTrace(pipe, stop.signal).next();
  stop.abort();
  await expect(next).rejects.toMatchObject({ name: 'AbortError' });
});

testIf(noWindows, 'an abort ends a file without an end', async () => {
  const stop = new AbortController();
  const next = openTrace('/dev/zero', stop.signal).next();
  stop.abort();
  await expect(next).rejects.toMatchObject({ name: 'AbortError' });
});

test('a file that does not exist, or a directory, is not found', () => {
  const { signal } = new AbortController();
  for (const path of ['/nowhere/at/all', '.'])
    expect(() => openTrace(path, signal)).toThrow(expect.objectContaining({ code: 'not_found' }));
});
