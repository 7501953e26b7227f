import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { suite, verifies } from '../verifies.ts';
import { openBrowser, type Page, type PageOptions } from './browser.ts';
import { answer, pageKit, run, state, ticks, words } from './kit.ts';
import { startServer, type TestServer } from './server.ts';
import { slowness } from '../support/busy.ts';

// The page in a real browser, with the real command and real processes.

const opened = await openBrowser();
if (opened.missing !== undefined) process.stderr.write(`${opened.missing}\n`);

suite('browser', opened.missing, () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer(['page-agent', 'form-agent', 'path-agent', 'ai-doctor']);
  });
  afterAll(() => server[Symbol.asyncDispose]());
  const { open: openAt, expectConsole, serious } = pageKit(opened);
  const open = (url = server.url, options: PageOptions = {}): Promise<Page> => openAt(url, options);

  verifies(
    ['S118', 'S119', 'S231'],
    'an agent behind the real CLI completes: both lanes, the call as a bar, every rule kept',
    async () => {
      const page = await open();
      await run(page, 'path-agent', 'lookup lane');
      await state(page, 'completed');
      expect(await answer(page).innerText()).toContain('The tool says: lane: one of two');
      await page
        .locator('.timeline-row-text .timeline-message')
        .filter({ hasText: 'One moment.' })
        .waitFor();
      const control = page.locator('.timeline-row-control .timeline-control');
      await control
        .filter({ hasText: /initialize \d+ ms/ })
        .first()
        .waitFor();
      await control
        .filter({ hasText: /notes: initialize \d+ ms/ })
        .first()
        .waitFor();
      expect(await page.locator('.timeline-row-call .timeline-control').innerText()).toBe(
        '{"word":"lane"}',
      );
      expect(await page.locator('.timeline-row-result .timeline-message').innerText()).toContain(
        'answered in',
      );
      expect(await page.locator('.timeline-bar-call.timeline-bar-answered').count()).toBe(1);
      expect(
        await page.locator('.timeline-row-control').filter({ hasText: '→ response' }).count(),
      ).toBe(0);
      expect([await ticks(page, 'kept'), await ticks(page, 'broken')]).toEqual([6, 0]);
    },
  );

  test('the AI Doctor reads a sample record and ends with a briefing whose citations open', async () => {
    const page = await open();
    await page.getByRole('combobox', { name: 'Agent', exact: true }).selectOption('ai-doctor');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await state(page, 'completed');
    const briefing = page.locator('.artifact').filter({ hasText: 'Medication safety' });
    await briefing.locator('.data-citation').first().click();
    expect((await page.locator('dialog .data-passage').innerText()).length).toBeGreaterThan(40);
    await page.keyboard.press('Escape');
    const searches = page.locator('.timeline-bar-call.timeline-bar-answered');
    await page.getByRole('listbox').press('Home');
    expect(await searches.count()).toBeGreaterThanOrEqual(3);
    expect([await ticks(page, 'kept'), await ticks(page, 'broken')]).toEqual([6, 0]);
    expect(await serious(page)).toEqual([]);
  });

  test('text grows in place: one block and one row for any number of deltas', async () => {
    const page = await open();
    await run(page, 'page-agent', 'count 150');
    await page
      .getByText(/\bw5\b/)
      .first()
      .waitFor();
    const early = (await words(page)).length;
    await state(page, 'completed');
    const all = await words(page);
    expect(early).toBeLessThan(all.length);
    expect(all).toEqual(Array.from({ length: 150 }, (_, i) => i + 1));
    expect(await page.locator('.timeline-row-text').count()).toBe(1);
    expect(await page.locator('.conversation .markdown').count()).toBe(1);
  });

  test('after a disconnect and reconnect it has every event once and shows the number of replayed ones', async () => {
    const page = await open();
    await run(page, 'page-agent', 'count 300');
    await page
      .getByText(/\bw20\b/)
      .first()
      .waitFor();
    await page.getByRole('button', { name: 'Disconnect' }).click();
    const seen = (await words(page)).length;
    await page.getByText('Disconnected by you; the task continues').waitFor();
    await expect
      .poll(async () => (await fetch(`${server.url}/api/tasks`)).text(), { timeout: 60_000 })
      .toMatch(/"state":"completed".*"title":"count 300"/);
    expect((await words(page)).length).toBeLessThan(seen + 50); // no text arrived while it was disconnected
    await page.getByRole('button', { name: 'Reconnect' }).click();
    await state(page, 'completed');
    expect(await words(page)).toEqual(Array.from({ length: 300 }, (_, i) => i + 1));
    expect(await ticks(page, 'broken')).toBe(0);
    const replayed = await page.getByText(/^\d+ replayed$/).innerText();
    expect(Number.parseInt(replayed, 10)).toBeGreaterThan(1);
  });

  test('a cancel ends the run, and the page shows how long it took', async () => {
    const page = await open();
    await run(page, 'path-agent', 'count 100000');
    await page
      .getByText(/\bw3\b/)
      .first()
      .waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await state(page, 'canceled');
    await page.getByText(/^canceled in \d/).waitFor();
    expect(await ticks(page, 'broken')).toBe(0);
  });

  verifies(
    ['S229'],
    'question cards survive a reload and kill -9: one approved as edited, one rejected, both complete',
    async () => {
      await using own = await startServer(['page-agent', 'path-agent']);
      const cards = ['page-agent', 'path-agent'].map(async (agent) => {
        const page = await open(own.url);
        await run(page, agent, 'approve ticket');
        await page.getByText('Approval required').waitFor();
        return page;
      });
      const [edits, rejects] = (await Promise.all(cards)) as [Page, Page];
      await rejects.reload();
      await rejects.getByText('Approval required').waitFor();
      expectConsole(/^Failed to load resource: net::ERR_/);
      await own.kill();
      await edits.getByText('Connection lost, reconnecting').waitFor();
      await own.start();
      await edits.getByText('Connected').waitFor();
      await edits.getByLabel(/you may edit it/).fill('{"word":"ticket","count":7}');
      await edits.getByRole('button', { name: 'Approve as edited' }).click();
      await rejects.getByRole('button', { name: 'Reject' }).click();
      await state(edits, 'completed');
      await state(rejects, 'completed');
      expect(await answer(edits).innerText()).toContain('Filed {"word":"ticket","count":7}.');
      expect(await answer(rejects).innerText()).toContain('ticket: rejected');
      expect((await ticks(edits, 'broken')) + (await ticks(rejects, 'broken'))).toBe(0);
    },
  );

  test('structured output is readable, its citations open their passages, its data has a chart', async () => {
    const page = await open();
    await run(page, 'page-agent', 'briefing');
    await state(page, 'completed');
    await page.getByText('eGFR 38 on metformin 2000 mg').waitFor();
    await page.getByRole('button', { name: 'metformin-renal' }).first().click();
    await page.getByText('Do not start metformin below an eGFR of 45.').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('dialog').waitFor({ state: 'hidden' });
    expect(await page.getByRole('img', { name: /^Value by Test/ }).count()).toBe(1);
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download labs' }).click();
    const file = await download;
    expect(file.suggestedFilename()).toBe('labs.json');
    expect(JSON.parse(await readFile(await file.path(), 'utf8'))).toHaveLength(3);
  });

  verifies(
    ['S267'],
    'parallel calls have bars side by side, Enter opens the raw frames, the trace is a download',
    async () => {
      const page = await open();
      await run(page, 'page-agent', 'parallel');
      await state(page, 'completed');
      const bars = await page.evaluate<{ top: number; bottom: number; right: number }[]>(
        `[...document.querySelectorAll('.timeline-bar-call')].map((bar) => bar.getBoundingClientRect().toJSON())`,
      );
      expect(bars).toHaveLength(2);
      expect(bars[1]?.top).toBeLessThan(bars[0]?.bottom ?? 0);
      expect(bars[1]?.right).not.toBe(bars[0]?.right);
      const timeline = page.getByRole('listbox');
      await timeline.focus();
      await timeline.press('Home');
      for (let i = 0; i < 4; i++) await timeline.press('ArrowDown');
      await timeline.press('Enter');
      const raw = page.getByRole('dialog');
      expect(await raw.innerText()).toContain('"request_id": "agent_1"');
      expect(await raw.innerText()).toContain('"query": "metformin eGFR 38"');
      for (let i = 0; i < 4; i++) await page.keyboard.press('Tab');
      const inside = `document.activeElement === document.body || document.querySelector('dialog').contains(document.activeElement)`;
      expect(await page.evaluate(inside)).toBe(true);
      await page.keyboard.press('Escape');
      await raw.waitFor({ state: 'hidden' });
      expect(await page.evaluate(`document.activeElement.getAttribute('role')`)).toBe('listbox');
      const download = page.waitForEvent('download');
      await page.getByText('Export trace').click();
      const lines = (await readFile(await (await download).path(), 'utf8')).trim().split('\n');
      const seqs = lines.map((line) => (JSON.parse(line) as { seq: number }).seq);
      expect(seqs).toEqual(seqs.map((_, i) => i + 1));
      expect(lines.at(-1)).toContain('"run.finished"');
    },
  );

  test('a replay plays the run again from its first event to its last', async () => {
    const page = await open();
    await run(page, 'page-agent', 'count 150');
    await state(page, 'completed');
    const before = await page.locator('.timeline-scroller').innerText();
    await page.getByLabel('Replay speed').selectOption('2');
    await page.getByRole('button', { name: 'Replay', exact: true }).click();
    await state(page, 'working');
    expect((await words(page)).length).toBeLessThan(150);
    await page.getByLabel('Replay speed').selectOption('50');
    await page.getByRole('button', { name: 'End replay' }).waitFor();
    expect(await page.locator('.timeline-scroller').innerText()).toBe(before);
    await page.getByRole('button', { name: 'End replay' }).click();
    await page.getByText('Stream ended').waitFor();
  });

  test('text of a model stays text: no tag, no script, no request to an address in it', async () => {
    const page = await open();
    await run(page, 'page-agent', 'html');
    await state(page, 'completed');
    expect(await answer(page).innerText()).toContain('<script>window.pwned=1</script>');
    expect(await page.locator('.conversation strong').innerText()).toBe('bold');
    expect(
      await page.locator('.conversation img, .conversation script, .conversation a').count(),
    ).toBe(0);
    expect(await page.evaluate('window.pwned')).toBeUndefined();
  });

  test('a form offers its samples, and the server reports invalid input', async () => {
    const page = await open();
    expectConsole(/400 \(Bad Request\)/);
    await page.getByRole('combobox', { name: 'Agent', exact: true }).selectOption('form-agent');
    await page.getByLabel('Samples for form-agent').selectOption('Grace');
    expect(await page.getByLabel('Input for form-agent').inputValue()).toContain('"age": 85');
    await page.getByLabel('Input for form-agent').fill('{"name":"Ada","age":"old"}');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText(/invalid input for the form: age must be integer/).waitFor();
    await page.getByLabel('Input for form-agent').fill('{"name":"Ada","age":36}');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await answer(page).getByText('Read the record of Ada.').waitFor();
    await page.locator('.task-list').getByText('Ada').first().waitFor();
  });

  test('10,000 events: few elements in the document, and scrolling is fast', async () => {
    const page = await open();
    await run(page, 'page-agent', 'flood 10000');
    await state(page, 'completed');
    await page.getByText('Round 1000 is over.').first().waitFor();
    const rows = await page.evaluate<number>(
      `Number(document.querySelector('.timeline-row').getAttribute('aria-setsize'))`,
    );
    expect(rows).toBeGreaterThan(6000);
    expect(await page.locator('.timeline-row').count()).toBeLessThan(80);
    const steps = await page.evaluate<readonly number[]>(SCROLL);
    const [median = Infinity, most] = [0.5, 1].map(
      (part) => steps.toSorted((a, b) => a - b)[Math.ceil(steps.length * part) - 1],
    );
    process.stderr.write(
      `timeline of ${rows} rows: ${median.toFixed(1)} ms a screen (median), ${most?.toFixed(1)} ms (most)\n`,
    );
    expect(median).toBeLessThan(100 * (await slowness())); // 7 to 22 ms with a load of ten
    expect(await ticks(page, 'broken')).toBe(0);
  });
});

/** Scrolls to the top in 120 steps; returns the time of rendering and layout after each. */
const SCROLL = `(async () => {
  const element = document.querySelector('.timeline-scroller');
  const leap = element.scrollHeight / 120;
  const steps = [];
  while (element.scrollTop > 0) {
    await new Promise(requestAnimationFrame);
    const from = performance.now();
    element.scrollTop -= leap;
    element.dispatchEvent(new Event('scroll'));
    for (let i = 0; i < 3; i++) await undefined; // it renders in a microtask
    document.querySelector('.timeline-row').getBoundingClientRect();
    steps.push(performance.now() - from);
  }
  return steps;
})()`;
