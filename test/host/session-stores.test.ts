import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { fileSessionStore, InMemorySessionStore } from '../../src/host/index.ts';
import { sessionStoreContract } from '../contracts/session-store.contract.ts';
import { temporaryFolder } from '../task/temporary-sqlite.ts';

sessionStoreContract('memory', async () => new InMemorySessionStore());

sessionStoreContract('files', async () => {
  const folder = await temporaryFolder();
  const store = fileSessionStore({ directory: join(folder.path, 'sessions') });
  return Object.assign(store, {
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  });
});

test('files of transcripts are inside the folder, and only for their owner', async () => {
  await using folder = await temporaryFolder();
  const directory = join(folder.path, 'sessions');
  const store = fileSessionStore({ directory });
  for (const name of ['../escape', 's1'])
    await store.append({ projectKey: name, sessionId: name, subpath: name }, [{ secret: 1 }]);
  expect(await readdir(folder.path)).toEqual(['sessions']);
  const files = (await readdir(directory, { recursive: true, withFileTypes: true })).filter(
    (file) => file.isFile(),
  );
  expect(files).toHaveLength(2);
  for (const { parentPath, name } of files)
    expect((await stat(join(parentPath, name))).mode & 0o777).toBe(0o600);
});
