import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { ROOT } from '../../scripts/setup.mjs';

/** A directory with our scripts and fakes of the tools, in which a test runs the commands. */
export interface Sandbox extends Disposable {
  readonly path: string;
  write(file: string, text: string): void;
  start(
    script: string,
    env?: NodeJS.ProcessEnv,
    ...args: string[]
  ): ChildProcessByStdio<null, Readable, Readable>;
  run(
    script: string,
    env?: NodeJS.ProcessEnv,
    ...args: string[]
  ): Promise<{ code: number | null; lines: string[] }>;
}

const TOOLS = ['typescript', 'oxlint', 'oxfmt', 'vite', 'vitest', 'tsx'];

/** `tools`: the program of each fake; a tool that is not given succeeds without output. */
export function openSandbox(tools: Readonly<Record<string, string>> = {}): Sandbox {
  const path = mkdtempSync(join(tmpdir(), 'duolane-commands-'));
  const write = (file: string, text: string): void => {
    mkdirSync(dirname(join(path, file)), { recursive: true });
    writeFileSync(join(path, file), text);
  };
  cpSync(join(ROOT, 'scripts'), join(path, 'scripts'), { recursive: true });
  for (const folder of ['peers', 'src', 'web', 'examples', 'dist/examples'])
    mkdirSync(join(path, folder), { recursive: true });
  const lock: Record<string, { version: string }> = {};
  for (const tool of TOOLS) {
    const bin = { [tool === 'typescript' ? 'tsc' : tool]: 'bin.mjs' };
    write(
      `node_modules/${tool}/package.json`,
      JSON.stringify({ name: tool, version: '1.0.0', bin }),
    );
    write(`node_modules/${tool}/bin.mjs`, tools[tool] ?? '');
    lock[`node_modules/${tool}`] = { version: '1.0.0' };
  }
  write('node_modules/.package-lock.json', JSON.stringify({ packages: lock }));
  const devDependencies = Object.fromEntries(TOOLS.map((tool) => [tool, '1.0.0']));
  const root = { name: 'sandbox', version: '1.0.0', type: 'module', devDependencies };
  write('package.json', JSON.stringify(root));
  write(
    'package-lock.json',
    JSON.stringify({ ...root, lockfileVersion: 3, packages: { '': root, ...lock } }),
  );
  const start: Sandbox['start'] = (script, env = {}, ...args) =>
    spawn(process.execPath, [join(path, 'scripts', script), ...args], {
      cwd: path,
      env: { PATH: process.env['PATH'], HOME: path, CI: 'true', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  return {
    path,
    write,
    start,
    async run(script, env, ...args) {
      const child = start(script, env, ...args);
      let output = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
      child.stderr.resume();
      const [code] = (await once(child, 'close')) as [number | null];
      return { code, lines: output.trimEnd().split('\n') };
    },
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}

/** A fake vitest: writes a report of the given tests and exits with a code. */
export function fakeVitest(tests: Record<string, string>, exitCode: number): string {
  const assertionResults = Object.entries(tests).map(([title, status]) => ({
    title,
    fullName: title,
    status,
    ancestorTitles: [''],
  }));
  const failed = Object.values(tests).includes('failed');
  const file = { name: 'a.test.ts', status: failed ? 'failed' : 'passed', message: '' };
  const report = JSON.stringify({ testResults: [{ ...file, assertionResults }] });
  return `import { writeFileSync } from 'node:fs';
const target = process.argv.find((arg) => arg.startsWith('--outputFile')).split('=')[1];
writeFileSync(target, ${JSON.stringify(report)});
process.exitCode = ${exitCode};`;
}
