import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createRouter } from '../router.ts';
import { pageRoutes } from './page-files.ts';

let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'duolane-page-'));
  await mkdir(join(folder, 'web', 'assets', 'sub'), { recursive: true });
  await writeFile(join(folder, 'secret.txt'), 'the-secret');
  await writeFile(join(folder, 'web', 'index.html'), '<p>page</p>');
  await writeFile(join(folder, 'web', 'assets', 'a.js'), 'let a;');
  await symlink(join(folder, 'secret.txt'), join(folder, 'web', 'assets', 'link.js'));
});
afterAll(() => rm(folder, { recursive: true }));

test('only files of the folder are served: no links out of it, no folders, no later files', async () => {
  const route = createRouter(pageRoutes([join(folder, 'web')]));
  const get = async (path: string): Promise<readonly [number, string]> => {
    const response = await route(new Request(`http://localhost${path}`), undefined);
    return [response.status, await response.text()];
  };
  await writeFile(join(folder, 'web', 'assets', 'later.js'), 'let later;');
  expect(await get('/')).toEqual([200, '<p>page</p>']);
  expect(await get('/assets/a.js')).toEqual([200, 'let a;']);
  for (const name of ['link.js', 'sub', 'later.js', '%2e%2e%2findex.html'])
    expect(await get(`/assets/${name}`), name).toEqual([404, expect.any(String)]);
});

test('an asset is read once, since anyone may request it many times', async () => {
  const route = createRouter(pageRoutes([join(folder, 'web')]));
  const get = async (): Promise<string> =>
    (await route(new Request('http://localhost/assets/a.js'), undefined)).text();
  expect(await get()).toBe('let a;');
  await writeFile(join(folder, 'web', 'assets', 'a.js'), 'let changed;');
  expect(await get()).toBe('let a;');
});
