import { readdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { runNpm } from '../../scripts/setup.mjs';
import { Place } from './support.ts';
import { skipBecause } from '../verifies.ts';

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
  const npx = async (...args: string[]): Promise<string> => {
    const { code, output } = await npm(['exec', '--offline', '--no', '--', 'duolane', ...args]);
    expect({ args, code }).toEqual({ args, code: 0 });
    return output;
  };
  expect(await npx('--version')).toMatch(/^\d+\.\d+\.\d+$/m);
  expect(await npx('demo', '--break', 'string-prompt', '--json')).toContain('"kept":true');
  expect(await npx('doctor')).toMatch(/✓ sqlite/);
  await npx('new', 'my-agent');
  const tested = await npm(['test'], place.file('my-agent'));
  expect(tested.output).toMatch(/# pass 1\n# fail 0/);
}, 120_000);
