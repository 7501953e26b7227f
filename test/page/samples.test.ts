import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';
import { openBrowser } from './browser.ts';
import { pageKit, run, state } from './kit.ts';
import { startServer, type TestServer } from './server.ts';

// Downloads of the samples on the page.

const opened = await openBrowser();
const duckDb = await peer('duckdb');

suite('browser', opened.missing ?? duckDb.reason, () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer(['text-to-sql', 'distill']);
  });
  afterAll(() => server[Symbol.asyncDispose]());
  const { open } = pageKit(opened);

  test('the rows of a query are a chart, and its file is the Parquet itself', async () => {
    const page = await open(server.url);
    await run(page, 'text-to-sql', 'revenue by city in 2025');
    await state(page, 'completed');
    expect(await page.getByRole('img', { name: /^Revenue by City/ }).count()).toBe(1);
    const download = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Download query_results' }).click();
    const file = await download;
    expect(file.suggestedFilename()).toBe('query_results.parquet');
    const bytes = await readFile(await file.path(), 'latin1');
    expect([bytes.slice(0, 4), bytes.slice(-4)]).toEqual(['PAR1', 'PAR1']);
  });
});
