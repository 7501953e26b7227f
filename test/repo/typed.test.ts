import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { peer } from '../peers.ts';
import { testIf } from '../verifies.ts';

const official = await peer('agent-sdk');

/** The errors of the compiler for the programs of `test/typed`; empty on success. */
const complaints = (config: string): Promise<string> =>
  promisify(execFile)('node_modules/.bin/tsc', ['-p', `test/typed/${config}`]).then(
    ({ stdout }) => stdout,
    ({ stdout }: { stdout: string }) => stdout,
  );

describe('strict programs that were written for the official SDK', () => {
  test('compile with the import changed to ours', async () => {
    expect(await complaints('tsconfig.json')).toBe('');
  });

  testIf(official.reason, 'and were written for it: they compile as they are', async () => {
    expect(await complaints('tsconfig.official.json')).toBe('');
  });
});
