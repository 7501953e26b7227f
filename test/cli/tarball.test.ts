import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { ROOT, runNpm } from '../../scripts/setup.mjs';
import { Place } from './support.ts';
import { skipBecause } from '../verifies.ts';

/** The limit for Node with its own SQLite, which needs no driver. */
const MAX_INSTALLED_BYTES = 15_000_000;

function bytesIn(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}

/** The programs that README shows, as a reader copies them. */
function programsOfReadme(): string[] {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
  return [...readme.matchAll(/```ts\n(.*?)```/gs)].map(([, program = '']) => program);
}

/** Runs a program until its first line of output. tsx strips types where Node cannot. */
async function firstLine(file: string): Promise<string> {
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  const child = spawn(process.execPath, ['--import', tsx, file], {
    cwd: dirname(file),
    env: { PATH: process.env['PATH'], HOME: dirname(file) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  try {
    const lines = createInterface({ input: child.stdout });
    const [line] = (await Promise.race([once(lines, 'line'), exited])) as [unknown];
    return String(line);
  } finally {
    child.kill('SIGINT');
    await exited;
  }
}

test('npx of the packed tarball works in an empty folder', async (context) => {
  await using place = await Place.open();
  const npm = (args: string[], cwd = place.path): ReturnType<typeof runNpm> =>
    runNpm(args, { cwd, quiet: true });
  const packed = await runNpm(['pack', '--ignore-scripts', '--pack-destination', place.path], {
    quiet: true,
  });
  expect(packed.code).toBe(0);
  const [tarball = ''] = readdirSync(place.path).filter((file) => file.endsWith('.tgz'));
  await writeFile(place.file('package.json'), '{"private":true}');
  const flags = ['--prefer-offline', '--no-audit', '--no-fund', '--ignore-scripts'];
  const installed = await npm(['install', ...flags, `./${tarball}`]);
  if (/ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|ENOTCACHED/.test(installed.output)) {
    skipBecause(
      context,
      'cannot install the dependencies of the package: no registry and no cache',
    );
  }
  expect(installed.code).toBe(0);
  const run = (...args: string[]): ReturnType<typeof runNpm> =>
    npm(['exec', '--offline', '--no', '--', 'duolane', ...args]);
  const npx = async (...args: string[]): Promise<string> => {
    const { code, output } = await run(...args);
    expect({ args, code }).toEqual({ args, code: 0 });
    return output;
  };
  expect(bytesIn(place.file('node_modules'))).toBeLessThanOrEqual(MAX_INSTALLED_BYTES);
  if (process.getBuiltinModule('node:sqlite') === undefined) {
    // This Node has no SQLite: the doctor says what to install, and with it everything works.
    const { code, output } = await run('doctor');
    expect(code).toBe(1);
    expect(output).toContain('npm install @photostructure/sqlite@1');
    expect((await npm(['install', ...flags, '@photostructure/sqlite@1'])).code).toBe(0);
  }
  for (const [index, program] of programsOfReadme().entries()) {
    const expected = [/^Apollo 11 landed on 20 July 1969\.$/, /: http:\/\/127\.0\.0\.1:\d+$/][
      index
    ];
    await writeFile(place.file(`program-${index}.mts`), program);
    expect(await firstLine(place.file(`program-${index}.mts`))).toMatch(expected ?? /never/);
  }
  expect(await npx('--version')).toMatch(/^\d+\.\d+\.\d+$/m);
  expect(await npx('demo', '--break', 'string-prompt', '--json')).toContain('"kept":true');
  expect(await npx('doctor')).toMatch(/✓ sqlite/);
  await npx('new', 'my-agent');
  const tested = await npm(['test'], place.file('my-agent'));
  expect(tested.output).toMatch(/# pass 1\n# fail 0/);
});
