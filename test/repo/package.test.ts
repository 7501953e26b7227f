import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { publint } from 'publint';
import { expect, test } from 'vitest';
import { ROOT, runNpm } from '../../scripts/setup.mjs';
import { suite } from '../verifies.ts';

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

let packed: Promise<string[]> | undefined;

/** The files of the tarball, as npm would pack them. */
const packedFiles = (): Promise<string[]> => (packed ??= pack());

async function pack(): Promise<string[]> {
  const { code, output } = await runNpm(['pack', '--dry-run', '--json', '--ignore-scripts'], {
    quiet: true,
  });
  expect(code).toBe(0);
  return [...output.matchAll(/"path": "([^"]+)"/g)].map(([, path]) => path ?? '');
}

test('publint finds no problem', async () => {
  const { messages } = await publint({ pkgDir: ROOT, pack: false, strict: true });
  expect(messages).toEqual([]);
});

test('the package contains its doors, and neither tests nor sources nor notes', async () => {
  const paths = await packedFiles();
  const { exports: doors } = JSON.parse(read('package.json')) as {
    exports: Record<string, string>;
  };
  for (const file of Object.values(doors)) expect(paths).toContain(file.slice('./'.length));
  expect(paths).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'package.json']));
  expect(paths).toEqual(expect.arrayContaining(['dist/web/index.html']));
  const expected =
    /^(dist\/.+\.(js|d\.ts)|dist\/web\/.+\.(html|css)|dist\/web\/licenses\.txt|dist\/examples\/.+\.json|proto\/.+\.proto|LICENSE|README\.md|package\.json)$/;
  expect(paths.filter((path) => !expected.test(path) || path.includes('.test.'))).toEqual([]);
});

test('every folder of the package is in the list of shipped folders', async () => {
  const paths = await packedFiles();
  const folders = new Set(
    paths.map((path) => path.split('/', path.startsWith('dist/') ? 2 : 1).join('/')),
  );
  const parts = readdirSync(join(ROOT, 'src')).map((name) => name.replace(/\.ts$/, ''));
  const shipped = [...folders].map((path) => path.replace(/(\.d\.ts|\.js)$/, ''));
  const meant = ['LICENSE', 'README.md', 'package.json', 'proto', 'dist/web', 'dist/examples'];
  const known = new Set([...meant, ...parts.map((part) => `dist/${part}`)]);
  expect(shipped.filter((path) => !known.has(path))).toEqual([]);
});

test('nothing refers to a source map, because src is not in the package', async () => {
  const scripts = (await packedFiles()).filter((path) => path.endsWith('.js'));
  expect(scripts.length).toBeGreaterThan(100);
  expect(scripts.filter((path) => read(path).includes('//# sourceMappingURL='))).toEqual([]);
});

test('nothing in the package names a path of the machine that built it', async () => {
  const places = [ROOT.slice(0, -1), homedir()].filter((place) => place.length > 1);
  const wrong = (await packedFiles()).filter((path) => {
    const text = read(path);
    return places.some((place) => text.includes(`${place}/`));
  });
  expect(wrong).toEqual([]);
});

/** Permissive licences. */
const PERMISSIVE = ['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT'];

function isPermissive(expression: string): boolean {
  const words = expression.replaceAll(/[()]/g, ' ').split(/ AND | OR /);
  return words.every((word) => PERMISSIVE.includes(word.trim()));
}

test('every package that users get with ours has a permissive licence', () => {
  const { packages } = JSON.parse(read('package-lock.json')) as {
    packages: Record<string, { license?: string; dev?: boolean; devOptional?: boolean }>;
  };
  const shipped = Object.entries(packages).filter(([path, { dev }]) => path !== '' && !dev);
  expect(shipped.length).toBeGreaterThan(5);
  const wrong = shipped.filter(([, { license = 'none' }]) => !isPermissive(license));
  expect(wrong).toEqual([]);
});

test('the package has the licence texts of what is in the page', () => {
  const texts = read('dist/web/licenses.txt');
  for (const name of ['preact', 'marked'])
    expect(texts).toMatch(new RegExp(`^${name} \\d+\\.\\d+\\.\\d+$`, 'm'));
  expect(texts.match(/MIT/g)?.length).toBeGreaterThanOrEqual(2);
});

test.each(['preact', 'marked'])('%s, a part of the page, has a permissive licence', (name) => {
  const { license } = JSON.parse(read(`node_modules/${name}/package.json`)) as { license: string };
  expect(isPermissive(license)).toBe(true);
});

test.each(['GPL-3.0-only', '(MIT AND AGPL-3.0)', 'UNLICENSED', 'none', ''])(
  'the licence "%s" is refused',
  (license) => {
    expect(isPermissive(license)).toBe(false);
  },
);

test('every dependency is pinned by its hash', () => {
  const { packages } = JSON.parse(read('package-lock.json')) as {
    packages: Record<string, { integrity?: string }>;
  };
  const loose = Object.entries(packages).filter(([path, { integrity }]) => path && !integrity);
  expect(loose.map(([path]) => path)).toEqual([]);
});

test('no lock file names a registry, so that it works with any registry', () => {
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
