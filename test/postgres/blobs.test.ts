import { Pool } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { postgresBlobs, postgresLog } from '../../src/task/postgres/index.ts';
import { blobStoreContract, patternAt } from '../contracts/blob-store.contract.ts';
import { type Postgres, postgresMissing, startPostgres } from '../support/task/postgres.ts';
import { suite } from '../verifies.ts';

const ENTRY = { task: 't', mediaType: 'text/plain' };
const MIB = 1 << 20;

suite('postgres blobs', postgresMissing, () => {
  let server: Postgres;
  let pool: Pool;
  beforeAll(async () => {
    server = await startPostgres(['-c', 'fsync=off']);
    pool = new Pool({ connectionString: server.url, max: 4 });
    pool.on('error', () => {}); // a test crashes the server
  });
  afterAll(async () => {
    await pool.end();
    await server[Symbol.asyncDispose]();
  });

  const bytesIn = async (schema: string): Promise<number> => {
    const { rows } = await pool.query(
      `select coalesce(sum(octet_length(bytes)), 0) as bytes from ${schema}.blob_chunks`,
    );
    return Number(rows[0].bytes);
  };
  const rowsIn = async (schema: string): Promise<number> =>
    Number((await pool.query(`select count(*) as n from ${schema}.blobs`)).rows[0].n);

  blobStoreContract('postgresBlobs', async () => {
    const schema = server.schema();
    return {
      open: (rules) => postgresBlobs({ connectionString: server.url, schema, ...rules }),
      memoryBytes: MIB,
      bytes: () => bytesIn(schema),
    };
  });

  test('a pool of the caller is shared with a log, and stays open', async () => {
    const schema = server.schema();
    const log = await postgresLog({ pool, schema });
    const blobs = await postgresBlobs({ pool, schema });
    const { id } = await blobs.put(ENTRY, [patternAt(0, 10)]);
    expect((await blobs.get(id)).info.bytes).toBe(10);
    await blobs[Symbol.asyncDispose]();
    await log[Symbol.asyncDispose]();
    expect(await bytesIn(schema)).toBe(10);
  });

  test('a reader and a writer that wait hold no connection', async () => {
    const schema = server.schema();
    await using blobs = await postgresBlobs({
      connectionString: server.url,
      schema,
      connections: 1,
    });
    const { id } = await blobs.put(ENTRY, [patternAt(0, MIB)]);
    const readers = await Promise.all(Array.from({ length: 10 }, () => blobs.get(id)));
    for (const { body } of readers) await body[Symbol.asyncIterator]().next();
    async function* slow(): AsyncGenerator<Uint8Array> {
      yield patternAt(0, MIB);
      expect((await blobs.get(id)).info.bytes).toBe(MIB);
      yield patternAt(0, MIB);
    }
    expect((await blobs.put(ENTRY, slow())).bytes).toBe(2 * MIB);
  });

  test('what a crash left is never visible, and is swept when it is old', async () => {
    const schema = server.schema();
    const crashed = await postgresBlobs({ pool, schema });
    let written = (): void => {};
    const writing = new Promise<void>((resolve) => (written = resolve));
    async function* source(): AsyncGenerator<Uint8Array> {
      yield patternAt(0, MIB);
      written();
      await new Promise(() => {}); // the process has crashed
    }
    const lost = crashed.put(ENTRY, source());
    lost.catch(() => {}); // its store is disposed at the end
    await writing;
    const { rows } = await pool.query(`select id from ${schema}.blobs`);
    await expect(crashed.get(rows[0].id)).rejects.toMatchObject({ code: 'not_found' });

    // A young one may have a writer.
    const first = await postgresBlobs({ pool, schema });
    const kept = await first.put(ENTRY, [patternAt(0, 5)]);
    expect(await bytesIn(schema)).toBe(MIB + 5);

    await pool.query(`update ${schema}.blobs set at = at - 3700000`);
    const second = await postgresBlobs({ pool, schema });
    await second.removeTask('another');
    expect(await bytesIn(schema)).toBe(5);
    expect(await rowsIn(schema)).toBe(1);
    expect((await second.get(kept.id)).info.bytes).toBe(5);
    for (const store of [crashed, first, second]) await store[Symbol.asyncDispose]();
  });

  test('a put whose task is deleted meanwhile fails, and leaves nothing', async () => {
    const schema = server.schema();
    await using blobs = await postgresBlobs({ pool, schema });
    async function* source(): AsyncGenerator<Uint8Array> {
      yield patternAt(0, MIB);
      await blobs.removeTask(ENTRY.task);
      yield patternAt(0, MIB);
    }
    await expect(blobs.put(ENTRY, source())).rejects.toMatchObject({ code: 'conflict' });
    expect(await bytesIn(schema)).toBe(0);
    expect(await rowsIn(schema)).toBe(0);
  });

  test('a reader of a blob that is deleted meanwhile fails, and never ends early', async () => {
    const schema = server.schema();
    await using blobs = await postgresBlobs({ pool, schema });
    const { id } = await blobs.put(ENTRY, [patternAt(0, MIB)]);
    const reading = (async () => {
      for await (const _ of (await blobs.get(id)).body) await blobs.removeTask(ENTRY.task);
    })();
    await expect(reading).rejects.toMatchObject({ code: 'not_found' });
  });

  test('a put and a get go on when the database restarts', async () => {
    const schema = server.schema();
    await using blobs = await postgresBlobs({ connectionString: server.url, schema });
    const restart = async (): Promise<void> => {
      await server.crash();
      await server.start();
    };
    async function* source(): AsyncGenerator<Uint8Array> {
      yield patternAt(0, MIB);
      await restart();
      yield patternAt(MIB, MIB);
    }
    const { id } = await blobs.put(ENTRY, source());
    const read: Uint8Array[] = [];
    for await (const chunk of (await blobs.get(id)).body) {
      if (read.length === 0) await restart();
      read.push(chunk);
    }
    expect(Buffer.concat(read).equals(patternAt(0, 2 * MIB))).toBe(true);
  });

  test('a password is in no error', async () => {
    const connectionString = 'postgres://ann:hunter2@127.0.0.1:1/none';
    const failed = await postgresBlobs({ connectionString, answerMs: 500 }).catch(
      (error: unknown) => error,
    );
    expect(failed).toMatchObject({ code: 'server' });
    expect(`${JSON.stringify(failed)} ${String(failed)}`).not.toContain('hunter2');
  });
});
