import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { expect } from 'vitest';
import { verifies } from '../verifies.ts';

const at = (path: string): URL => new URL(path, import.meta.url);
const runsSuite = (file: string): boolean =>
  existsSync(at(file)) && readFileSync(at(file), 'utf8').includes('adapterContract(');

/**
 * Folders that several adapters use, and the client of another server, whose agent keeps its model
 * and its tools to itself: `remote.test.ts` covers it.
 */
const SHARED = ['shared', 'stream-json', 'remote'];

verifies('S161', 'every adapter passes the one suite, four of them in every test run', () => {
  const folders = readdirSync(at('../../src/adapters/'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .filter((name) => !SHARED.includes(name));
  const adapters = ['cli', ...folders];
  const everyday = adapters.filter((name) => runsSuite(`./${name}.test.ts`));
  const rest = adapters.filter((name) => !everyday.includes(name));
  expect(rest.filter((name) => !runsSuite(`../peers/${name}.peer.ts`))).toEqual([]);
  expect(everyday.length).toBeGreaterThanOrEqual(4);
});
