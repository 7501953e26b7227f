import { afterEach, expect, test, vi } from 'vitest';
import { checkInstallation } from './check-installation.ts';

afterEach(() => void vi.restoreAllMocks());

const sqlite = async (): Promise<unknown> =>
  (await checkInstallation({ port: 0, store: 'x.sqlite' })).find(({ name }) => name === 'sqlite');

test('SQLite is there where the module of Node serves, whatever is installed', async () => {
  class DatabaseSync {
    exec(): void {}
    close(): void {}
  }
  const builtIn = vi.spyOn(process, 'getBuiltinModule').mockReturnValue({ DatabaseSync } as never);
  expect(await sqlite()).toMatchObject({
    state: 'ok',
    what: expect.stringContaining('node:sqlite') as string,
  });
  expect(builtIn).toHaveBeenCalledWith('node:sqlite');
});

test('SQLite is missing where the driver in use cannot open a database, and the fix is for this Node', async () => {
  class DatabaseSync {
    constructor() {
      throw new Error('it is broken');
    }
  }
  vi.spyOn(process, 'getBuiltinModule').mockReturnValue({ DatabaseSync } as never);
  expect(await sqlite()).toMatchObject({
    state: 'missing',
    what: expect.stringContaining('it is broken') as string,
  });
});
