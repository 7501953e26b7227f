import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sqliteDatabase, type Store } from '../../src/task/store/index.ts';

/** A folder that is gone at the end of its scope. */
export async function temporaryFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'duolane-'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** An empty SQLite database whose file is deleted when it is closed. */
export async function temporarySqlite(): Promise<Store> {
  const folder = await temporaryFolder();
  const store = await sqliteDatabase(join(folder.path, 'tasks.db'));
  return {
    ...store,
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}
