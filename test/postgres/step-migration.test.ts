import { Pool } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Agent } from '../../src/event/types.ts';
import { type Claim, createRunner } from '../../src/task/index.ts';
import { postgresLog } from '../../src/task/postgres/postgres-log.ts';
import { type Postgres, postgresMissing, startPostgres } from '../support/task/postgres.ts';
import { answer, collect, say, SILENT, textOf, turn, until } from '../task/replica-world.ts';
import { suite } from '../verifies.ts';

suite('postgres: a schema of the version before', postgresMissing, () => {
  let server: Postgres;
  beforeAll(async () => void (server = await startPostgres(['-c', 'fsync=off'])), 60_000);
  afterAll(() => server[Symbol.asyncDispose](), 60_000);

  test('gets due times, and its waiting task goes on', async () => {
    const schema = server.schema();
    const open = (): ReturnType<typeof postgresLog> =>
      postgresLog({ connectionString: server.url, schema, logger: SILENT });
    const request = { id: 'q', kind: 'question', message: '?' } as const;
    const old = await open();
    const { claim } = await old.submit(turn('a', 't'), { worker: 'A' });
    await old.append(claim as Claim, 1, [
      { type: 'run.started' },
      { type: 'input.required', request },
      { type: 'run.finished', outcome: 'input-required', text: '', pending: [request] },
    ]);
    await old[Symbol.asyncDispose]();
    const pool = new Pool({ connectionString: server.url });
    await pool.query(`set search_path to ${schema};
      drop table task_values; drop table session_entries; drop table blob_chunks;
      drop table blobs; drop index tasks_due;
      drop index tasks_state;
      alter table tasks drop column due_at;
      delete from migrations where version > 3; reset search_path`);

    const agent: Agent = async function* (_turn, ctx) {
      await ctx.ask(request);
      await ctx.sleep('short', 100);
      yield say(await ctx.step('one', () => 'new'));
    };
    await using log = await open();
    await using runner = createRunner({
      log,
      agents: { a: agent },
      suspendAfterMs: 0,
      logger: SILENT,
    });
    await runner.submit(answer('a', 't', 'q'));
    await until(log, 't', ({ suspended }) => suspended === true);
    const { rows } = await pool.query(`select due_at from ${schema}.tasks`);
    expect(Number((rows[0] as { due_at: string }).due_at)).toBeGreaterThan(Date.now() - 60_000);
    expect(textOf(await collect(log.read('t', 0)))).toBe('new');
    await pool.end();
  });
});
