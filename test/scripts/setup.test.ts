import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { explainInstall, isInstalled, matchDist, run, withLock } from '../../scripts/setup.mjs';

let home = '';
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'duolane-setup-'));
});
afterEach(() => {
  rmSync(home, { recursive: true, force: true });
});

function write(file: string, content: unknown = ''): void {
  mkdirSync(dirname(join(home, file)), { recursive: true });
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  writeFileSync(join(home, file), text);
}

describe('isInstalled', () => {
  const wanted = {
    '': { version: '1.0.0' },
    'node_modules/a': { version: '1.0.0' },
    'node_modules/b-win32': { version: '1.0.0', optional: true },
  };
  const installed = { 'node_modules/a': { version: '1.0.0' } };

  beforeEach(() => {
    write('package-lock.json', { packages: wanted });
    write('node_modules/a/package.json');
    write('node_modules/.package-lock.json', { packages: installed });
  });

  test('holds if every package exists; optional packages may be missing', () => {
    expect(isInstalled(home)).toBe(true);
  });

  test('does not hold without node_modules, or after an interrupted install', () => {
    rmSync(join(home, 'node_modules', '.package-lock.json'));
    expect(isInstalled(home)).toBe(false);
  });

  test('does not hold after a change of the lock file', () => {
    const newer = { ...wanted, 'node_modules/a': { version: '1.0.1' } };
    write('package-lock.json', { packages: newer });
    expect(isInstalled(home)).toBe(false);
    write('package-lock.json', { packages: { ...wanted, 'node_modules/c': { version: '1.0.0' } } });
    expect(isInstalled(home)).toBe(false);
    write('package-lock.json', { packages: { '': wanted[''] } });
    expect(isInstalled(home)).toBe(false);
  });

  test('does not hold if a package was removed by hand', () => {
    rmSync(join(home, 'node_modules', 'a'), { recursive: true });
    expect(isInstalled(home)).toBe(false);
  });
});

describe('withLock', () => {
  test('admits one holder at a time, in this process or another', async () => {
    const log = join(home, 'log');
    write('log');
    const worker = `
      import { appendFileSync } from 'node:fs';
      import { setTimeout } from 'node:timers/promises';
      import { withLock } from ${JSON.stringify(new URL('../../scripts/setup.mjs', import.meta.url).href)};
      for (let i = 0; i < 5; i++) await withLock(${JSON.stringify(join(home, 'lock'))}, async () => {
        appendFileSync(${JSON.stringify(log)}, '<');
        await setTimeout(5);
        appendFileSync(${JSON.stringify(log)}, '>');
      });`;
    const args = ['--input-type=module', '--eval', worker];
    const results = await Promise.all([1, 2, 3].map(() => run(process.execPath, args)));
    expect(results.map(({ code }) => code)).toEqual([0, 0, 0]);
    expect(readFileSync(log, 'utf8')).toBe('<>'.repeat(15));
  });

  test('is free again after a failure', async () => {
    const lock = join(home, 'lock');
    const failing = withLock(lock, () => Promise.reject(new Error('no luck')));
    await expect(failing).rejects.toThrow('no luck');
    expect(existsSync(lock)).toBe(false);
  });

  test('is taken from a holder that has exited', async () => {
    const dead = spawn(process.execPath, ['--eval', '']);
    await once(dead, 'close');
    write('lock/pid', String(dead.pid));
    expect(await withLock(join(home, 'lock'), async () => 'mine')).toBe('mine');
  });

  test('is taken from a holder that does not renew it', async () => {
    write('lock/pid', String(process.pid));
    const longAgo = new Date(Date.now() - 60_000);
    utimesSync(join(home, 'lock'), longAgo, longAgo);
    expect(await withLock(join(home, 'lock'), async () => 'mine')).toBe('mine');
  });
});

describe('matchDist', () => {
  test('removes the output of deleted sources, and nothing else', () => {
    write('src/kept.ts');
    write('src/kept.test.ts');
    for (const name of ['kept', 'gone', 'kept.test']) {
      write(`dist/${name}.js`);
      write(`dist/${name}.d.ts`);
      write(`dist/${name}.js.map`);
    }
    write('dist/.tsbuildinfo');
    write('dist/web/assets/index.js');
    matchDist(join(home, 'src'), join(home, 'dist'), ['web']);
    const left = ['kept.js', 'kept.d.ts', '.tsbuildinfo', 'web/assets/index.js'];
    expect(left.filter((file) => !existsSync(join(home, 'dist', file)))).toEqual([]);
    const maps = ['kept.js.map', 'gone.js.map'];
    const gone = [...maps, 'gone.js', 'gone.d.ts', 'kept.test.js', 'kept.test.d.ts'];
    expect(gone.filter((file) => existsSync(join(home, 'dist', file)))).toEqual([]);
  });

  test('makes the compiler rebuild if output is missing', () => {
    write('src/host/session/agent-session.ts');
    write('dist/.tsbuildinfo');
    matchDist(join(home, 'src'), join(home, 'dist'));
    expect(existsSync(join(home, 'dist', '.tsbuildinfo'))).toBe(false);
  });
});

test('an install that fails for another reason than the network shows the output of npm', () => {
  const output = 'npm error code EUSAGE\nnpm error Missing: x@1 from lock file';
  expect(explainInstall({ code: 1, output })).toEqual({
    unreachable: false,
    reason: `npm ci failed:\n${output}`,
  });
});
