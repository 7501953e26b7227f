import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { missingPty } from '../cli/support.ts';
import { fakeVitest, openSandbox } from './sandbox.ts';
import { noWindows, testIf } from '../verifies.ts';

const GREEN = fakeVitest({ 'one thing works': 'passed', 'another works': 'passed' }, 0);

describe('npm test', () => {
  test('prints its counts on the last line, and exits with 0 on success', async () => {
    using box = openSandbox({ vitest: GREEN });
    const { code, lines } = await box.run('test.mjs');
    expect(lines.at(-1)).toBe('2 passed, 0 failed');
    expect(code).toBe(0);
  });

  test('names a failed test and fails', async () => {
    const vitest = fakeVitest({ works: 'passed', breaks: 'failed', waits: 'skipped' }, 1);
    using box = openSandbox({ vitest });
    const { code, lines } = await box.run('test.mjs');
    expect(lines.at(-1)).toBe('1 passed, 1 failed, 1 skipped');
    expect(lines).toContainEqual(expect.stringMatching(/^FAILED .*breaks$/));
    expect(lines).toContain('SKIPPED 1: something else in its file failed');
    expect(code).toBe(1);
  });

  test.each([
    ['typescript', 'types'],
    ['oxlint', 'lint'],
    ['oxfmt', 'format'],
    ['tsx', 'requirements'],
  ])(
    'counts a failure of %s as a failed step, shows what it said, still tests',
    async (tool, step) => {
      const failing = `console.log('what is wrong'); process.exitCode = 1;`;
      using box = openSandbox({ vitest: GREEN, [tool]: failing });
      const { code, lines } = await box.run('test.mjs');
      expect(lines).toContain('what is wrong');
      expect(lines).toContain(`FAILED step: ${step}`);
      expect(lines.at(-1)).toMatch(/^2 passed, [123] failed$/); // the compiler runs twice: types, build
      expect(code).toBe(1);
    },
  );

  test('a test run without a report is a failure', async () => {
    using box = openSandbox({ vitest: 'process.exitCode = 3;' });
    const { code, lines } = await box.run('test.mjs');
    expect(lines.at(-1)).toBe('0 passed, 1 failed');
    expect(lines).toContainEqual(expect.stringContaining('no report was written (exit code 3)'));
    expect(code).toBe(1);
  });

  test('--quick runs the unit tests, without build and requirements', async () => {
    using box = openSandbox({ vitest: GREEN, tsx: 'process.exitCode = 1;' });
    const { code, lines } = await box.run('test.mjs', {}, '--quick');
    expect(lines.some((line) => /^(build|requirements)/.test(line))).toBe(false);
    expect(lines.at(-1)).toBe('2 passed, 0 failed');
    expect(code).toBe(0);
  });

  test('reports that the registry cannot be reached', async () => {
    using box = openSandbox({ vitest: GREEN });
    rmSync(join(box.path, 'node_modules'), { recursive: true });
    // No process listens on port 1 of this machine.
    const { code, lines } = await box.run('test.mjs', {
      npm_config_registry: 'http://127.0.0.1:1/',
      npm_config_cache: join(box.path, 'cache'),
      npm_config_fetch_retry_mintimeout: '1',
    });
    expect(lines.join('\n')).toContain('the npm registry cannot be reached (ECONNREFUSED)');
    expect(lines.at(-1)).toBe('0 passed, 1 failed');
    expect(code).toBe(1);
  });

  test('reports that npm is missing', async () => {
    using box = openSandbox({ vitest: GREEN });
    rmSync(join(box.path, 'node_modules'), { recursive: true });
    const { code, lines } = await box.run('test.mjs', { PATH: box.path });
    expect(lines.join('\n')).toContain('npm was not found');
    expect(lines.at(-1)).toBe('0 passed, 1 failed');
    expect(code).toBe(1);
  });

  test('continues when the reader of its output exits, and keeps its exit code', async () => {
    const noisy = `for (let i = 0; i < 20_000; i++) console.log('x'.repeat(50));\n${GREEN}`;
    using box = openSandbox({ vitest: noisy });
    const child = box.start('test.mjs');
    child.stdout.destroy();
    child.stderr.destroy();
    const [code] = (await once(child, 'close')) as [number | null];
    expect(existsSync(join(box.path, '.cache', 'test-report.json'))).toBe(true);
    expect(code).toBe(0);
  });

  testIf(noWindows, 'Ctrl-C ends what it has started', async () => {
    using box = openSandbox({
      vitest: `console.log('pid ' + process.pid); setInterval(() => {}, 1000);`,
    });
    const child = box.start('test.mjs');
    const pid = await new Promise<number>((resolve) => {
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        const found = /pid (\d+)/.exec(text)?.[1];
        if (found !== undefined) resolve(Number(found));
      });
    });
    child.kill('SIGINT');
    const [code] = (await once(child, 'close')) as [number | null];
    expect(code).toBe(130);
    expect(() => process.kill(pid, 0)).toThrow('ESRCH');
  });
});

test('missing system packages are named and never fail a run', () => {
  const script = fileURLToPath(new URL('../../scripts/system-packages.mjs', import.meta.url));
  // With the id of another user, in case this is root: the test must not install anything.
  const fake = 'data:text/javascript,process.getuid = () => 1000';
  const output = execFileSync(process.execPath, ['--import', fake, script], { encoding: 'utf8' });
  for (const line of output.trim().split('\n'))
    expect(line).toMatch(
      /^system packages: all 4 are installed$|^MISSING \S+: (only root may|this system is not)/,
    );
});

describe('npm start', () => {
  test('builds, then reports that the command is missing', async () => {
    using box = openSandbox();
    const { code, lines } = await box.run('start.mjs');
    expect(lines[0]).toContain('dist/cli/duolane.js is missing');
    expect(code).toBe(0);
  });

  test('runs the command with its arguments, and exits with its exit code', async () => {
    using box = openSandbox();
    box.write('src/cli/duolane.ts', '');
    box.write('dist/cli/duolane.js', 'console.log(process.argv.slice(2)); process.exitCode = 7;');
    expect(await box.run('start.mjs')).toEqual({ code: 7, lines: ["[ 'serve' ]"] });
    const { lines } = await box.run('start.mjs', {}, 'serve', '--port=0');
    expect(lines).toEqual(["[ 'serve', '--port=0' ]"]);
  });

  test('starts no compiler and no bundler until a source or the output changes', async () => {
    const log = `import { appendFileSync } from 'node:fs';
      appendFileSync('tools.log', process.argv[1].split('/').at(-2) + '\\n');`;
    using box = openSandbox({ typescript: log, vite: log });
    box.write('src/cli/duolane.ts', '');
    box.write('dist/cli/duolane.js', '');
    const toolsOfStart = async (): Promise<string[]> => {
      box.write('tools.log', '');
      await box.run('start.mjs');
      const names = readFileSync(join(box.path, 'tools.log'), 'utf8').trim().split('\n');
      return names.sort();
    };
    const all = ['typescript', 'typescript', 'vite'];
    expect(await toolsOfStart()).toEqual(all);
    expect(await toolsOfStart()).toEqual(['']);
    box.write('src/cli/duolane.test.ts', 'a test is not in the build');
    expect(await toolsOfStart()).toEqual(['']);
    for (const file of ['src/cli/duolane.ts', 'web/main.tsx', 'tsconfig.build.json']) {
      box.write(file, '// changed');
      expect(await toolsOfStart(), file).toEqual(all);
    }
    box.write('dist/cli/duolane.js', '// changed by hand');
    expect(await toolsOfStart()).toEqual(all);
    expect(await toolsOfStart()).toEqual(['']);
  });

  testIf(missingPty, 'opens the page only at a terminal', async () => {
    using box = openSandbox();
    box.write('src/cli/duolane.ts', '');
    box.write('dist/cli/duolane.js', 'console.log(process.argv.slice(2).join());');
    const line = `exec '${process.execPath}' '${join(box.path, 'scripts/start.mjs')}'`;
    const child = spawn('script', ['-q', '-e', '-c', line, '/dev/null'], { cwd: box.path });
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
    await once(child, 'close');
    expect(output).toContain('serve,--open');
    expect((await box.run('start.mjs')).lines).toEqual(['serve']);
  });

  test('does not start after a failed build', async () => {
    using box = openSandbox({ typescript: `console.log('error TS1'); process.exitCode = 2;` });
    const { code, lines } = await box.run('start.mjs');
    expect(lines).toEqual(['Cannot build:', 'error TS1']);
    expect(code).toBe(1);
  });
});
