import { afterAll, beforeAll, expect, test } from 'vitest';
import { suite } from '../verifies.ts';
import { openBrowser, type Page, type PageOptions } from './browser.ts';
import { answer, pageKit, run, state } from './kit.ts';
import { startServer, type TestServer } from './server.ts';

// What a new user sees: the layout is stable, no text is clipped, and no button is useless.

const opened = await openBrowser();
if (opened.missing !== undefined) process.stderr.write(`${opened.missing}\n`);
const PHONE = { viewport: { width: 375, height: 740 } };

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
    await page.getByText('Task not found; it may have been deleted.').waitFor();
    for (const name of ['Cancel', 'Replay', 'Disconnect'])
      expect(await page.getByRole('button', { name }).count()).toBe(0);
    expect(await page.locator('.contract, .timeline').count()).toBe(0);
    await page.getByRole('link', { name: 'All tasks' }).click();
    await page.getByText('Run an agent, or open a task.').waitFor();
  });

  test('a server that is unreachable is reported once, and not as "Failed to fetch"', async () => {
    await using own = await startServer(['page-agent', 'form-agent']);
    const page = await openAt(own.url);
    await run(page, 'page-agent', 'count 3');
    await state(page, 'completed');
    expectConsole(/^Failed to load resource: net::ERR_/);
    await own.kill();
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.locator('.run-form .text-error').waitFor();
    expect(await page.locator('.run-form .text-error').innerText()).toContain(
      'Cannot reach the server',
    );
    await page.getByRole('button', { name: 'Replay', exact: true }).click();
    await page.locator('main > .text-error').filter({ hasText: 'Retrying' }).waitFor();
    expect(await page.locator('main').innerText()).not.toContain('Failed to fetch');
    await own.start();
    await page.locator('main > .text-error').filter({ hasText: 'Retrying' }).waitFor({
      state: 'hidden',
    });
  });

  test('the complete error of a failed run is shown in the conversation', async () => {
    const page = await open();
    await run(page, 'page-agent', 'fail');
    await state(page, 'failed');
    const words =
      'Failed: The warehouse is closed until Monday; ask again then, or ask another one.';
    expect(await answer(page).locator('.text-error').innerText()).toContain(words);
    expect(await answer(page).innerText()).toContain('So far, so good.');
  });

  test('the header of a task keeps its height from the first event to the last', async () => {
    const page = await open();
    await runSample(page, 'ai-doctor');
    await state(page, 'working');
    const before = await heightOf(page, '.task-header');
    await state(page, 'completed');
    await page.getByText(/tokens out$/).waitFor();
    expect(await heightOf(page, '.task-header')).toBe(before);
  });

  test('a call shows its tool in one lane and its arguments in the other', async () => {
    const page = await open();
    await runSample(page, 'ai-doctor');
    await state(page, 'completed');
    await page.getByRole('listbox').press('Home');
    const call = page.locator('.timeline-row-call').first();
    expect(await call.locator('.timeline-message').innerText()).toBe(
      'calls search_clinical_guidelines',
    );
    expect(await call.locator('.timeline-control').innerText()).toMatch(/^\{"query":"\w/);
  });

  test('a long user message is folded to its name, and a wide record needs no horizontal scrolling', async () => {
    for (const options of [{}, PHONE]) {
      const page = await open(options);
      await runSample(page, 'ai-doctor');
      await state(page, 'completed');
      expect(await page.locator('.conversation-question summary').innerText()).toMatch(
        /^Diabetes and hypert/,
      );
      const cutOff = await page.evaluate<string[]>(
        `[...document.querySelectorAll('.conversation *')].filter((one) => one.scrollWidth > one.clientWidth + 1 &&
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
    expect(await page.locator('.contract').innerText()).toContain(
      '(in flight: cci · create_ticket)',
    );
  });

  test.each([
    ['light', { colorScheme: 'light' }],
    ['dark', { colorScheme: 'dark' }],
    ['light phone', { ...PHONE, colorScheme: 'light' }],
    ['dark phone', { ...PHONE, colorScheme: 'dark' }],
  ] as const)(
    'no serious accessibility problem in any state of the page: %s',
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
      await page.getByText('Disconnected by you; the task continues').waitFor();
      await look();
      await again();
      await run(page, 'page-agent', 'briefing');
      await state(page, 'completed');
      await look();
      await page.locator('.timeline-row-call').first().click();
      await look();
      await page.keyboard.press('Escape');
      await page.getByLabel('Replay speed').selectOption('1');
      await page.getByRole('button', { name: 'Replay', exact: true }).click();
      await page.getByRole('button', { name: 'Stop replay' }).waitFor();
      await look();
      await page.goto(`${server.url}/#unknown`);
      await page.getByText('Task not found; it may have been deleted.').waitFor();
      await look();
      expect(found).toEqual([]);
    },
  );
});
