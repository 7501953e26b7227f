import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { suite, verifies } from '../verifies.ts';
import { openBrowser, type Page, type PageOptions } from './browser.ts';
import { answer, inspect, pageKit, rowsOf, run, state, ticks, words } from './kit.ts';
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
      await page.getByRole('listbox').press('Home');
      await rowsOf(page, 'text').filter({ hasText: 'One moment.' }).waitFor();
      const control = rowsOf(page, 'control');
      await control
        .filter({ hasText: /→ initialize\s*\d+ ms/ })
        .first()
        .waitFor();
      await control
        .filter({ hasText: /notes: initialize\s*\d+ ms/ })
        .first()
        .waitFor();
      expect(await rowsOf(page, 'call').innerText()).toMatch(/lookup “lane”/);
      expect(await rowsOf(page, 'result').innerText()).toContain('lookup answered in');
      expect(await rowsOf(page, 'call').getAttribute('data-state')).toBe('answered');
      expect(await control.filter({ hasText: '→ response' }).count()).toBe(0);
      const input = await inspect(page, rowsOf(page, 'call'), 'Input');
      expect(await input.innerText()).toContain('"word": "lane"');
      await page.keyboard.press('Escape');
      expect([await ticks(page, 'kept'), await ticks(page, 'broken')]).toEqual([6, 0]);
    },
  );

  test('the AI Doctor reads a sample record and ends with a briefing whose citations open', async () => {
    const page = await open();
    await page.getByRole('combobox', { name: 'Agent', exact: true }).selectOption('ai-doctor');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await state(page, 'completed');
    const briefing = page.locator('[data-part=artifact]').filter({ hasText: 'Medication safety' });
    await briefing.locator('[data-part=citation]').first().click();
    expect((await page.locator('dialog [data-part=passage]').innerText()).length).toBeGreaterThan(
      40,
    );
    await page.keyboard.press('Escape');
    await page.getByLabel('Search events').fill('search_clinical');
    const searches = page.locator('[data-part=event-rows] [data-kind=call][data-state=answered]');
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
    expect(await rowsOf(page, 'text').count()).toBe(1);
    expect(await answer(page).locator('[data-part=markdown]').count()).toBe(1);
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
    await state(page, 'unknown');
    await page.getByText(/last seen working \d+ m?s ago; disconnected by you/).waitFor();
    await expect
      .poll(async () => (await fetch(`${server.url}/api/tasks`)).text(), { timeout: 60_000 })
      .toMatch(/"state":"completed".*"title":"count 300"/);
    expect((await words(page)).length).toBeLessThan(seen + 50); // no text arrived while it was disconnected
    await page.getByRole('button', { name: 'Reconnect' }).click();
    await state(page, 'completed');
    expect(await words(page)).toEqual(Array.from({ length: 300 }, (_, i) => i + 1));
    expect(await ticks(page, 'broken')).toBe(0);
    const cut = await page.locator('[data-part=cut]').innerText();
    const [, replayed, lost] = /^cut .+ m?s, (\d+) replayed, (\d+) lost$/.exec(cut) ?? [];
    expect(Number(replayed)).toBeGreaterThan(1);
    expect(lost).toBe('0');
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
      await state(edits, 'unknown');
      await edits.getByText(/connection lost, reconnecting/).waitFor();
      await own.start();
      await edits.locator('[data-connection=live]').waitFor();
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
    'the inspector shows input and frames of a call, j and k move, the address keeps the event, the trace is a download',
    async () => {
      const page = await open();
      await run(page, 'page-agent', 'parallel');
      await state(page, 'completed');
      const frames = await inspect(page, rowsOf(page, 'call').first(), 'Frames');
      expect(await frames.innerText()).toContain('"request_id": "agent_1"');
      expect(await frames.innerText()).toMatch(/← from the agent[^]*→ to the agent/);
      await page.getByRole('tab', { name: 'Input' }).click();
      expect(await frames.innerText()).toContain('"query": "metformin eGFR 38"');
      await page.keyboard.press('j');
      await page.getByText('"query": "ACE inhibitor potassium"').waitFor();
      await page.keyboard.press('k');
      await page.getByText('"query": "metformin eGFR 38"').waitFor();
      expect(page.url()).toMatch(/#[\w-]+\/\d+$/);
      await page.reload();
      await page.locator('[data-part=inspector]').waitFor();
      expect(await page.locator('[data-part=inspector] h2').innerText()).toContain('metformin');
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
    const before = await page.locator('[data-part=event-rows]').innerText();
    await page.getByRole('button', { name: 'Replay', exact: true }).click();
    await page.getByLabel('Replay speed').selectOption('1');
    await page.getByRole('button', { name: 'Pause' }).click();
    const moment = page.getByLabel('Moment of the run');
    await moment.press('Home');
    await expect.poll(() => words(page)).toEqual([]);
    await moment.press('PageUp');
    await state(page, 'working');
    expect((await words(page)).length).toBeLessThan(150);
    await page.getByLabel('Replay speed').selectOption('50');
    await page.getByRole('button', { name: 'Play', exact: true }).click();
    await page.getByRole('button', { name: 'End replay' }).waitFor();
    expect(await page.locator('[data-part=event-rows]').innerText()).toBe(before);
    await page.getByRole('button', { name: 'End replay' }).click();
    await page.locator('[data-connection=ended]').waitFor();
  });

  test('text of a model stays text: no tag, no script, no request to an address in it', async () => {
    const page = await open();
    await run(page, 'page-agent', 'html');
    await state(page, 'completed');
    expect(await answer(page).innerText()).toContain('<script>window.pwned=1</script>');
    expect(await answer(page).locator('strong').innerText()).toBe('bold');
    expect(await answer(page).locator('img, script, a').count()).toBe(0);
    expect(await page.evaluate('window.pwned')).toBeUndefined();
  });

  test('markup in names, arguments, frames, artifacts, questions and errors stays text everywhere', async () => {
    const page = await open(server.url, { viewport: { width: 1440, height: 900 } });
    const safe = async (): Promise<void> => {
      expect(await page.evaluate('window.pwned')).toBeUndefined();
      const found = 'main img, main script, main svg[onload], main iframe, a[href^="javascript:"]';
      expect(await page.locator(found).count()).toBe(0);
    };
    await run(page, 'page-agent', 'hostile');
    await state(page, 'input-required');
    await safe();
    expect(await answer(page).innerText()).toContain('<script>window.pwned=1</script>');
    await page.getByRole('listbox').press('Home');
    const options = page.locator('[data-part=event-rows] [role=option]');
    for (let i = 0; i < (await options.count()); i++) {
      await options.nth(i).click();
      for (const tab of ['Summary', 'Input', 'Output', 'Frames', 'Log entry']) {
        await page.getByRole('tab', { name: new RegExp(`^${tab}`) }).click();
        await safe();
      }
    }
    const { x, y, width, height } = (await page
      .locator('[data-part=waterfall-canvas]')
      .boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
    for (let step = 0; step < height; step += 12) await page.mouse.move(x + width * 0.5, y + step);
    await safe();
    await page.getByRole('link', { name: /^Inbox/ }).click();
    await page.getByText('<script>window.pwned=1</script>').first().waitFor();
    await safe();
    const card = page.locator('[data-part=question]').filter({ hasText: 'window.pwned' });
    await card.getByRole('button', { name: 'Answer' }).click();
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    await page.getByRole('link', { name: 'hostile' }).first().waitFor();
    await expect
      .poll(() => page.locator('[data-part=run]').first().innerText())
      .toContain('failed');
    expect(await page.locator('[data-part=run]').first().innerText()).toContain('window.pwned');
    await safe();
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
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    await page.locator('[data-part=runs]').getByText('Ada').first().waitFor();
  });

  test('10,000 events: few elements in the document, and scrolling is fast', async () => {
    const page = await open();
    await run(page, 'page-agent', 'flood 10000');
    await state(page, 'completed');
    await page.getByText('Round 1000 is over.').first().waitFor();
    const rows = await page.evaluate<number>(
      `Number(document.querySelector('[data-part=event-rows] [role=option]').getAttribute('aria-setsize'))`,
    );
    expect(rows).toBeGreaterThan(6000);
    expect(await page.locator('[data-part=event-rows] [role=option]').count()).toBeLessThan(80);
    const steps = await page.evaluate<readonly number[]>(SCROLL);
    const [median = Infinity, most] = [0.5, 1].map(
      (part) => steps.toSorted((a, b) => a - b)[Math.ceil(steps.length * part) - 1],
    );
    process.stderr.write(
      `event list of ${rows} rows: ${median.toFixed(1)} ms a screen (median), ${most?.toFixed(1)} ms (most)\n`,
    );
    expect(median).toBeLessThan(100 * (await slowness())); // 7 to 22 ms with a load of ten
    expect(await ticks(page, 'broken')).toBe(0);
  });
});

/** Scrolls to the top in 120 steps; returns the time of rendering and layout after each. */
const SCROLL = `(async () => {
  const element = document.querySelector('[data-part=event-rows]');
  const leap = element.scrollHeight / 120;
  const steps = [];
  while (element.scrollTop > 0) {
    await new Promise(requestAnimationFrame);
    const from = performance.now();
    element.scrollTop -= leap;
    element.dispatchEvent(new Event('scroll'));
    for (let i = 0; i < 3; i++) await undefined; // it renders in a microtask
    document.querySelector('[data-part=event-rows] [role=option]').getBoundingClientRect();
    steps.push(performance.now() - from);
  }
  return steps;
})()`;
