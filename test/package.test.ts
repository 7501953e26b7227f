import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { publint } from 'publint';
import { expect, test } from 'vitest';
import { ROOT, runNpm } from '../scripts/setup.mjs';
import { suite } from './verifies.ts';

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

function trackedFiles(): string[] | undefined {
  try {
    return execFileSync('git', ['ls-files', '-z'], {
      cwd: ROOT,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
      .split('\0')
      .filter((file) => file !== '' && existsSync(join(ROOT, file)));
  } catch {
    return undefined; // no git, or no repository: an unpacked archive
  }
}

test('publint has nothing to say', async () => {
  const { messages } = await publint({ pkgDir: ROOT, pack: false, strict: true });
  expect(messages).toEqual([]);
});

test('the package holds what it promises, and neither tests nor sources nor notes', async () => {
  const { code, output } = await runNpm(['pack', '--dry-run', '--json', '--ignore-scripts'], {
    quiet: true,
  });
  expect(code).toBe(0);
  const paths = [...output.matchAll(/"path": "([^"]+)"/g)].map(([, path]) => path ?? '');
  const { exports: doors } = JSON.parse(read('package.json')) as {
    exports: Record<string, string>;
  };
  for (const file of Object.values(doors)) expect(paths).toContain(file.slice('./'.length));
  expect(paths).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'package.json']));
  expect(paths).toEqual(expect.arrayContaining(['dist/web/index.html']));
  const expected =
    /^(dist\/.+\.(js|js\.map|d\.ts)|dist\/web\/.+\.(html|css)|dist\/examples\/.+\.json|proto\/.+\.proto|LICENSE|README\.md|package\.json)$/;
  expect(paths.filter((path) => !expected.test(path) || path.includes('.test.'))).toEqual([]);
});

test('no lock file names a registry, so it serves everybody', () => {
  const locks = ['package-lock.json', ...readdirSync(join(ROOT, 'peers')).map(lockOf)];
  for (const lock of locks) expect(read(lock)).not.toMatch(/"resolved"|https?:\/\/[^"]*\.tgz/);
});

function lockOf(peer: string): string {
  return `peers/${peer}/package-lock.json`;
}

test('the licence is complete', () => {
  const licence = read('LICENSE');
  expect(licence).toContain('Apache License');
  expect(licence).toContain('APPENDIX: How to apply the Apache License to your work.');
  expect(licence).not.toContain('\r');
});

const tracked = trackedFiles();
suite('git', tracked === undefined ? 'this is not a git checkout' : undefined, () => {
  test('no tracked file names a path of the machine that it was written on', () => {
    const places = [ROOT.slice(0, -1), homedir()].filter((place) => place.length > 1);
    const ofSomebody = /(?<![\w.])(\/(home|Users|root)\/[A-Za-z0-9_.-]+\/|[A-Z]:\\Users\\)/;
    const wrong = tracked?.filter((file) => {
      const text = read(file);
      return ofSomebody.test(text) || places.some((place) => text.includes(`${place}/`));
    });
    expect(wrong).toEqual([]);
  });

  test('no tracked text has Windows line ends', () => {
    expect(
      tracked?.filter((file) => !file.endsWith('.png') && read(file).includes('\r\n')),
    ).toEqual([]);
  });
});
