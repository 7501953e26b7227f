import { afterAll, beforeAll, expect, test } from 'vitest';
import { suite } from '../verifies.ts';
import { openBrowser, type Page, type PageOptions } from './browser.ts';
import { answer, inspect, pageKit, rowsOf, run, state } from './kit.ts';
import { startServer, type TestServer } from './server.ts';

// What a new user sees: the layout is stable, no text is clipped, and no button is useless.

const opened = await openBrowser();
if (opened.missing !== undefined) process.stderr.write(`${opened.missing}\n`);
const PHONE = { viewport: { width: 390, height: 844 } };
const TABLET = { viewport: { width: 1024, height: 768 } };
const WIDE = { viewport: { width: 1440, height: 900 } };

suite('browser', opened.missing, () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer(['page-agent', 'form-agent', 'ai-doctor', 'tickets']);
  });
  afterAll(() => server[Symbol.asyncDispose]());
  const { open: openAt, expectConsole, serious } = pageKit(opened);
  const open = (options: PageOptions = {}): Promise<Page> => openAt(server.url, options);

  const runSample = async (page: Page, agent: string): Promise<void> => {
    await page.getByRole('combobox', { name: 'Agent', exact: true }).selectOption(agent);
    await page.getByRole('button', { name: 'Run', exact: true }).click();
  };
  const heightOf = (page: Page, selector: string): Promise<number> =>
    page.evaluate(`document.querySelector('${selector}').getBoundingClientRect().height`);

  test('an unknown task shows a link back, without buttons and contract', async () => {
    expectConsole(/404 \(Not Found\)/);
    const page = await open();
    await page.goto(`${server.url}/#unknown`);
    await page.getByRole('heading', { name: 'Task not found' }).waitFor();
    for (const name of ['Cancel', 'Replay', 'Disconnect'])
      expect(await page.getByRole('button', { name }).count()).toBe(0);
    expect(await page.locator('[data-part=contract], [data-part=waterfall]').count()).toBe(0);
    await page.getByRole('link', { name: 'All runs', exact: true }).click();
    await page.getByRole('heading', { name: 'Runs', exact: true }).waitFor();
  });

  test('a server that is unreachable is reported once, and not as "Failed to fetch"', async () => {
    await using own = await startServer(['page-agent', 'form-agent']);
    const page = await openAt(own.url);
    await run(page, 'page-agent', 'count 3');
    await state(page, 'completed');
    expectConsole(/^Failed to load resource: net::ERR_/);
    await own.kill();
    const offline = page.locator('[data-part=offline]');
    await offline.filter({ hasText: 'Retrying' }).waitFor();
    await page.getByRole('button', { name: 'Replay', exact: true }).click();
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    const problem = page.locator('[data-part=form-error]');
    await problem.waitFor();
    expect(await problem.innerText()).toContain('Cannot reach the server');
    expect(await page.locator('main').innerText()).not.toContain('Failed to fetch');
    expect(await page.locator('[data-part=page-error]').count()).toBe(0);
    await own.start();
    await offline.waitFor({ state: 'hidden' });
    await page.locator('[data-part=run]').first().waitFor();
  });

  test('the complete error of a failed run is shown in the conversation', async () => {
    const page = await open();
    await run(page, 'page-agent', 'fail');
    await state(page, 'failed');
    const words =
      'Failed: The warehouse is closed until Monday; ask again then, or ask another one.';
    expect(await answer(page).locator('[data-part=failure]').innerText()).toContain(words);
    expect(await answer(page).innerText()).toContain('So far, so good.');
  });

  test('the header of a task keeps its height from the first event to the last', async () => {
    const page = await open();
    await runSample(page, 'ai-doctor');
    await state(page, 'working');
    const before = await heightOf(page, '[data-part=task-header]');
    await state(page, 'completed');
    await page.getByText(/ in, [\d,]+ out$/).waitFor();
    expect(await heightOf(page, '[data-part=task-header]')).toBe(before);
  });

  test('a long user message is folded to its name, and a wide record needs no horizontal scrolling', async () => {
    for (const options of [{}, PHONE]) {
      const page = await open(options);
      await runSample(page, 'ai-doctor');
      await state(page, 'completed');
      expect(await page.locator('[data-part=folded-message] summary').innerText()).toMatch(
        /^Diabetes and hypert/,
      );
      const cutOff = await page.evaluate<string[]>(
        `[...document.querySelectorAll('[data-part=conversation] *')].filter((one) => one.scrollWidth > one.clientWidth + 1 &&
          ['auto', 'hidden', 'scroll'].includes(getComputedStyle(one).overflowX)).map((one) => one.className)`,
      );
      expect(cutOff).toEqual([]);
    }
  });

  test('while a question is open the page shows it and no progress bar', async () => {
    const page = await open();
    await runSample(page, 'tickets');
    await state(page, 'input-required');
    await page.getByLabel(/^Title/).waitFor(); // a label instead of the key
    expect(await answer(page).locator('progress').count()).toBe(0);
    expect(await answer(page).innerText()).not.toContain('Starting');
    expect(await page.locator('[data-part=contract]').innerText()).toContain(
      'in flight: cci · create_ticket',
    );
  });

  test.each(
    [WIDE, TABLET, PHONE].flatMap((size) =>
      (['light', 'dark'] as const).map(
        (colorScheme) =>
          [`${size.viewport.width} px, ${colorScheme}`, { ...size, colorScheme }] as const,
      ),
    ),
  )(
    'no accessibility problem and no horizontal scrolling in any state of the page: %s',
    async (_name, options) => {
      expectConsole(/404 \(Not Found\)/);
      const page = await open(options);
      const found = await serious(page);
      const look = async (): Promise<void> => {
        found.push(...(await serious(page)));
        const more = await page.evaluate<number>(
          'document.documentElement.scrollWidth - innerWidth',
        );
        if (more > 0) found.push(`wider than the screen by ${more} px`);
      };
      const again = (): Promise<unknown> => page.goto(`${server.url}/#`);
      await runSample(page, 'tickets');
      await state(page, 'input-required');
      await look();
      await page.getByRole('button', { name: 'Disconnect' }).click();
      await state(page, 'unknown');
      await look();
      await page.goto(`${server.url}/#/inbox`);
      await page.locator('[data-part=inbox] [data-part=question]').first().waitFor();
      await look();
      await again();
      await page.locator('[data-part=run]').first().waitFor();
      await look();
      await run(page, 'page-agent', 'briefing');
      await state(page, 'completed');
      await look();
      const tabs = page.getByRole('tablist', { name: 'Parts of the task' }).getByRole('tab');
      for (let i = (await tabs.count()) - 1; i >= 0; i--) {
        await tabs.nth(i).click();
        await look();
      }
      const list = tabs.filter({ hasText: /Events|Trace/ });
      if ((await list.count()) > 0) await list.click();
      for (const tab of ['Summary', 'Input', 'Output', 'Frames', 'Timing', 'Log entry']) {
        if ((await list.count()) > 0) await list.click();
        await inspect(page, rowsOf(page, 'call').first(), tab);
        await look();
      }
      await page.getByRole('button', { name: 'Replay', exact: true }).click();
      await page.locator('[data-part=replay-bar]').waitFor();
      await look();
      await page.goto(`${server.url}/#unknown`);
      await page.getByRole('heading', { name: 'Task not found' }).waitFor();
      await look();
      expect(found).toEqual([]);
    },
  );
});
