import { afterAll, expect, test } from 'vitest';
import { openBrowser } from '../page/browser.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';
import { bundle, gzipBytes } from './bundle.ts';
import { runScenarios } from './scenarios.ts';
import { openServers } from './servers.ts';

const sdk = await peer('a2a-sdk');
const reference = sdk.available ? sdk : undefined;

/** Every scenario passed: the failures of the others are what the test shows. */
function expectAllOk(results: Readonly<Record<string, string>>): void {
  expect(Object.keys(results).length).toBeGreaterThanOrEqual(reference ? 15 : 10);
  expect(Object.entries(results).filter(([, result]) => result !== 'ok')).toEqual([]);
}

test('the client does what it should on Node', async () => {
  await using opened = await openServers(reference);
  expectAllOk(await runScenarios(opened.servers));
});

const LIMIT_BYTES = 15 * 1024;

test('a page that uses all of the client loads at most 15 KB', async () => {
  const code = await bundle('src/client/index.ts');
  expect(gzipBytes(code)).toBeLessThanOrEqual(LIMIT_BYTES);
  expect(code).not.toMatch(/["']node:/);
});

const browser = await openBrowser();
suite('browser', browser.missing, () => {
  afterAll(async () => {
    if (browser.missing === undefined) await browser.browser.close();
  });

  test('the client does what it should in Chromium, from a page of another origin', async () => {
    if (browser.missing !== undefined) return;
    const scenarios = await bundle('test/client/scenarios.ts');
    await using opened = await openServers(reference, {
      '/': '<!doctype html><title>client</title>',
      '/scenarios.js': scenarios,
    });
    const page = await browser.browser.newPage();
    try {
      await page.goto(opened.servers.control);
      const run = `import('/scenarios.js').then(({ runScenarios }) =>
        runScenarios(${JSON.stringify(opened.servers)}))`;
      expectAllOk(await page.evaluate(run));
    } finally {
      await page.close();
    }
  });
});
