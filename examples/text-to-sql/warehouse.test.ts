import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { peer } from '../../test/peers.ts';
import { suite } from '../../test/verifies.ts';
import type { DuckDb } from './duckdb.ts';
import { planQuestion } from './grammar.ts';
import { summarize } from './summary.ts';
import { openWarehouse, type Warehouse } from './warehouse.ts';

const duckDb = await peer('duckdb');

/**
 * A query that would take days, within the memory that it may use: one side of the join is small.
 */
const ENDLESS =
  'select count(*) from range(1000000000) a, range(100000) b where (a.range * b.range) % 7 = 3';

suite('duckdb', duckDb.reason, () => {
  let warehouse: Warehouse;
  beforeAll(async () => {
    warehouse = await openWarehouse();
  });
  afterAll(() => warehouse[Symbol.asyncDispose]());

  test('a result is a real Parquet file, deleted on disposal', async () => {
    const { sql } = planQuestion('revenue by city');
    let file: string;
    {
      await using result = await warehouse.query(sql);
      ({ file } = result);
      expect(result).toMatchObject({ rowCount: 6, columns: ['city', 'revenue'] });
      const bytes = readFileSync(file);
      expect([bytes.subarray(0, 4), bytes.subarray(-4)].map(String)).toEqual(['PAR1', 'PAR1']);
      const { DuckDBInstance } = (await duckDb.import('@duckdb/node-api')) as unknown as DuckDb;
      const instance = await DuckDBInstance.create(':memory:');
      const connection = await instance.connect();
      const rows = await connection.runAndReadAll(`select * from '${file}'`);
      expect(rows.getRowObjectsJson()).toHaveLength(6);
      connection.closeSync();
      instance.closeSync();
    }
    expect(() => readFileSync(file)).toThrow('ENOENT');
  });

  test('every order is in the view, and sums add up whichever way they are asked for', async () => {
    const total = async (question: string): Promise<number> => {
      await using result = await warehouse.query(planQuestion(question).sql);
      return result.preview.reduce((sum, row) => sum + Number(row['revenue'] ?? row['orders']), 0);
    };
    expect(await total('orders')).toBe(480);
    expect(await total('orders by month')).toBe(480);
    expect(await total('revenue by city')).toBeCloseTo(await total('revenue'), 2);
  });

  describe('anything but one SELECT is refused', () => {
    test.each([
      'drop table orders',
      'delete from orders',
      'update products set price = 0',
      'insert into orders select * from orders returning *',
      'create table x as select 1',
      "copy orders to 'stolen.csv'",
      "attach 'other.duckdb'",
      'set memory_limit = 1',
      'pragma database_list',
      'call pragma_version()',
      "install httpfs; load httpfs; select 'x'",
      'select 1; drop table orders',
      'select 1; select 2',
      'begin; drop table orders; commit',
      "select 1) to 'x.parquet' (format parquet); --",
      'select 1 /*',
      'with x as (delete from orders returning *) select * from x',
      '',
      '   -- nothing',
      "select * from read_csv('/etc/passwd')",
      "select * from read_text('/etc/hostname')",
      "select * from glob('/*')",
      "select * from '/etc/passwd'",
      "select * from read_parquet('https://127.0.0.1/x.parquet')",
    ])('%s', async (sql) => {
      await expect(warehouse.query(sql)).rejects.toMatchObject({ code: 'invalid' });
    });

    test('and the data is as it was', async () => {
      await using result = await warehouse.query('select count(*) as n from orders');
      expect(result.preview).toEqual([{ n: 480 }]);
    });
  });

  test.each([
    ['select * from nowhere', 'nowhere does not exist'],
    ['select hieght from customers', 'Referenced column "hieght" not found'],
    ['selekt 1', 'syntax error'],
    ['drop table orders', 'only a SELECT may run'],
    ['select 1; select 2', 'only one statement may run, and this has 2'],
    ["select * from glob('/*')", 'no file'],
  ])('%s: the reason is in the message', async (sql, reason) => {
    await expect(warehouse.query(sql)).rejects.toThrow(reason);
  });

  test('50 MB of rows are refused with what to do, and so are too many', async () => {
    const wide = "select repeat('x', 1000) || random() as text from range(55000)";
    await expect(warehouse.query(wide)).rejects.toMatchObject({
      code: 'too_large',
      message: expect.stringContaining('ask for fewer rows or columns'),
    });
    await expect(warehouse.query('select * from range(100001)')).rejects.toMatchObject({
      code: 'too_large',
      message: expect.stringContaining('more than 100000 rows'),
    });
    await using fits = await warehouse.query('select * from range(100000)');
    expect(fits.rowCount).toBe(100_000);
  });

  test.each([
    [
      'long values',
      "select repeat('x', 500000) as v, n from range(40) r(n)",
      '40 rows. Highest xxx',
    ],
    ['a long list', 'select range(100000) as v', 'v ["0","1","2"'],
    [
      'many columns',
      `select ${Array.from({ length: 1500 }, (_, i) => `1 as c${i}`).join()} from range(40)`,
      '40 rows, with c0, c1, c2',
    ],
  ])('%s are shortened in preview and words, and whole in the file', async (_, sql, words) => {
    await using result = await warehouse.query(sql);
    expect(JSON.stringify(result.preview).length).toBeLessThan(70_000);
    const said = summarize({ explanation: 'It', tables: [], sql }, result);
    expect(said).toContain(words);
    expect(said.length).toBeLessThan(1000);
  });

  test('an abort interrupts the query, also one that has not begun', async () => {
    const running = new AbortController();
    const query = warehouse.query(ENDLESS, { signal: running.signal });
    setTimeout(() => running.abort(new Error('enough')), 100);
    await expect(query).rejects.toThrow('enough');
    await expect(
      warehouse.query(ENDLESS, { signal: AbortSignal.abort(new Error('never')) }),
    ).rejects.toThrow('never');
    const soon = new AbortController();
    const early = warehouse.query(ENDLESS, { signal: soon.signal });
    soon.abort(new Error('immediately'));
    await expect(early).rejects.toThrow('immediately');
  });

  test('a query that takes too long is ended and says so', async () => {
    await using impatient = await openWarehouse({ timeoutMs: 200 });
    await expect(impatient.query(ENDLESS)).rejects.toMatchObject({
      code: 'timeout',
      message: 'the query took longer than 0.2 s; ask for less',
    });
  });

  test.each([
    ['revenue by city in 2025', 'Revenue by city (2025): 6 rows. Highest Porto (22,702.5), lowest'],
    ['orders', 'Number of orders: orders 480.'],
    ['list 3 orders', 'The latest orders: 3 rows'],
    ['orders in 2031', 'Number of orders (2031): orders 0.'],
    ['orders by city in 2031', 'Number of orders by city (2031): there are no rows.'],
    ['sql select null as x', 'The statement as it was given: x nothing.'],
    ['sql select * from range(50) r(n)', '50 rows, with n.'],
  ])('%s as text', async (question, words) => {
    const plan = planQuestion(question);
    await using result = await warehouse.query(plan.sql);
    expect(summarize(plan, result)).toContain(words);
  });
});
