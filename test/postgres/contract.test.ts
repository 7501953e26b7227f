import { Pool } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { STORE_METHODS, type Store, storeFromCalls } from '../../src/task/store/index.ts';
import { postgresDatabase, postgresSessionStore } from '../../src/task/postgres/postgres-log.ts';
import { type Postgres, postgresMissing, startPostgres } from '../support/task/postgres.ts';
import { seekContract } from '../contracts/seek.contract.ts';
import { sessionStoreContract } from '../contracts/session-store.contract.ts';
import { taskLogContract } from '../contracts/task-log.contract.ts';
import { taskRunsContract } from '../contracts/task-runs.contract.ts';
import { suite } from '../verifies.ts';

suite('postgres contract', postgresMissing, () => {
  let server: Postgres;
  let pool: Pool;
  beforeAll(async () => {
    // What a power failure would do is not the question here.
    server = await startPostgres(['-c', 'fsync=off']);
    pool = new Pool({ connectionString: server.url, max: 12 });
    await (await postgresDatabase({ pool }))[Symbol.asyncDispose]();
  });
  afterAll(async () => {
    await pool.end();
    await server[Symbol.asyncDispose]();
  });

  /** The same tables, empty: that costs less than making them. */
  const open = async (): Promise<Store> => {
    await pool.query(`set search_path to duolane;
      truncate tasks, snapshots, entries, turns, bookmarks, task_values, session_entries, replicas; reset search_path`);
    return postgresDatabase({ pool, pollMs: 500 });
  };

  /**
   * Writes on one replica, announcements and reads on another: nothing is known but by the
   * database.
   */
  async function apart(): Promise<Store> {
    const [here, there] = [await open(), await postgresDatabase({ pool, pollMs: 500 })];
    return {
      ...storeFromCalls((method, args) => {
        const store = STORE_METHODS[method] === 'read' ? there : here;
        return (store[method] as (...args: unknown[]) => Promise<unknown>)(...args);
      }),
      announcesAll: false,
      onCommit: (listener) => there.onCommit(listener),
      async [Symbol.asyncDispose]() {
        await Promise.all([here, there].map((store) => store[Symbol.asyncDispose]()));
      },
    };
  }

  taskLogContract('postgres', open);
  taskLogContract('postgres, notified by another replica', apart);
  seekContract('postgres', open);
  taskRunsContract('postgres', open);
  test('a session store is disposed twice and concurrently, in use', async () => {
    const store = await postgresSessionStore({ connectionString: server.url });
    const using = store.append({ projectKey: 'p', sessionId: 's' }, [{ n: 1 }]).catch(() => {});
    await Promise.all([store[Symbol.asyncDispose](), store[Symbol.asyncDispose]()]);
    await store[Symbol.asyncDispose]();
    await using;
    const late = store.load({ projectKey: 'p', sessionId: 's' });
    await expect(late).rejects.toMatchObject({ name: 'DuolaneError' });
  });

  sessionStoreContract('postgres', async () => {
    await pool.query('truncate duolane.session_entries');
    return postgresSessionStore({ pool });
  });
});
