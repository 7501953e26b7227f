import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Agent } from '../../src/event/types.ts';
import { serve } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/memory/memory-log.ts';
import { suite } from '../verifies.ts';
import { openBrowser } from './browser.ts';
import { answer, pageKit, run, state } from './kit.ts';
import { startServer } from './server.ts';

// The table of runs, the inbox, and the guided tour, in a real browser.

const opened = await openBrowser();
if (opened.missing !== undefined) process.stderr.write(`${opened.missing}\n`);

suite('browser', opened.missing, () => {
  const { open, expectConsole, serious } = pageKit(opened);

  test('the inbox counts in the title of the tab; a second answer is refused and names the first', async () => {
    await using server = await startServer(
      ['page-agent', 'form-agent'],
      ['--auth', 'bearer:sesame'],
    );
    const signIn = async () => {
      const page = await open(server.url);
      await page.getByLabel('Token or key').fill('sesame');
      await page.getByLabel('Token or key').press('Enter');
      return page;
    };
    const first = await signIn();
    await run(first, 'page-agent', 'approve ticket');
    await state(first, 'input-required');
    await expect.poll(() => first.title()).toBe('(1) waiting – Duolane');
    await first.getByRole('link', { name: /^Inbox/ }).click();
    const card = first.locator('[data-part=inbox] [data-part=question]');
    await card.getByText('File ticket?').waitFor();
    expect(await card.innerText()).toContain('Approve: the agent continues with this data.');

    const second = await signIn();
    await second.goto(`${server.url}/#/inbox`);
    const reject = second.locator('[data-part=inbox]').getByRole('button', { name: 'Reject' });
    await reject.waitFor();
    // The second page is slow: its request arrives after that of the first.
    await second.evaluate(`(() => {
      const send = fetch;
      window.fetch = async (path, init) => {
        if (init?.method === 'POST') await new Promise((resolve) => (window.release = resolve));
        return send(path, init);
      };
    })()`);
    await reject.click();
    await expect.poll(() => second.evaluate('typeof release')).toBe('function');
    await card.getByRole('button', { name: 'Approve', exact: true }).click();
    await card.waitFor({ state: 'hidden' });
    await expect.poll(() => first.title()).toBe('Duolane');
    expectConsole(/409 \(Conflict\)|400 \(Bad Request\)/);
    await second.evaluate('release()');
    const problem = second.locator('[data-part=page-error]');
    await problem.waitFor();
    expect(await problem.innerText()).toMatch(/already answered by "\w+"/i);

    await first.getByRole('link', { name: 'Runs', exact: true }).click();
    await first.getByRole('link', { name: 'approve ticket' }).click();
    await state(first, 'completed');
    expect(await answer(first).locator('[data-part=question]').innerText()).toContain(
      'File ticket?',
    );
    expect(await answer(first).locator('[data-part=answer]').innerText()).toMatch(
      /answered\s+Approved/,
    );
  });

  test('a question without a schema is answered with Enter, and the conversation has the words', async () => {
    await using served = await serve(
      async function* (_turn, ctx) {
        const { content } = await ctx.ask({ id: 'n', kind: 'question', message: 'Your name?' });
        yield { type: 'text.delta', id: 't', delta: `Hello ${String(content)}.` };
      },
      { log: memoryLog() },
    );
    const page = await open(served.url);
    await page.getByLabel('Input for agent').fill('hi');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByLabel('Your answer').fill('Ada');
    await page.getByLabel('Your answer').press('Enter');
    await state(page, 'completed');
    expect(await answer(page).locator('[data-part=answer]').innerText()).toMatch(
      /You answered\s+Ada/,
    );
    expect(await answer(page).innerText()).toContain('Hello Ada.');
  });

  test('the table of runs pages by cursor, searches, filters, sorts and groups, and never polls', async () => {
    const log = memoryLog();
    for (let i = 0; i < 130; i++)
      await log.submit({
        agent: 'agent',
        task: `t${i}`,
        context: `c${Math.floor(i / 2)}`,
        messageId: `m${i}`,
        parts: [{ text: `subject ${i}` }],
      });
    await using served = await serve(
      async function* () {
        yield { type: 'text.delta', id: 't', delta: 'done' };
      },
      { log, maxRuns: 1 },
    );
    const page = await open(served.url);
    const rows = page.locator('[data-part=run]');
    await expect.poll(() => log.count({ state: 'completed' })).toBe(130);
    await page.reload();
    await rows.first().waitFor();
    expect(await rows.count()).toBe(50);
    await page.getByRole('button', { name: 'Load more' }).click();
    await expect.poll(() => rows.count()).toBe(100);
    await page.getByRole('button', { name: 'Load more' }).click();
    await expect.poll(() => rows.count()).toBe(130);
    expect(await page.getByRole('button', { name: 'Load more' }).count()).toBe(0);
    await page.getByRole('button', { name: 'by conversation' }).click();
    expect(await page.getByText('Conversation of 2 runs').count()).toBe(65);
    await page.getByRole('button', { name: 'by conversation' }).click();
    await page.getByLabel('Search runs').fill('subject 12');
    await expect.poll(() => rows.count()).toBe(11); // 12 and 120 to 129
    await page.getByText(/Searched 130 runs/).waitFor();
    await page.getByLabel('Search runs').fill('');
    await expect.poll(() => rows.count()).toBe(50);
    await page.getByRole('button', { name: 'failed' }).click();
    await page.getByText('No run matches.').waitFor();
    await page.getByRole('button', { name: 'completed' }).click();
    await expect.poll(() => rows.count()).toBe(50);
    const started = page.getByRole('button', { name: /^Started/ });
    await started.click();
    expect(await page.locator('th[aria-sort=descending]').count()).toBe(1);
    await started.click();
    expect(await page.locator('th[aria-sort=ascending]').count()).toBe(1);
    expect(await serious(page)).toEqual([]);
    await page.evaluate(`performance.clearResourceTimings()`);
    const response = await fetch(`${served.url}/api/agents/agent/turns`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"text":"the newest one"}',
    });
    expect(response.status).toBe(201);
    await page.getByRole('link', { name: 'the newest one' }).waitFor();
    expect(
      await page.evaluate(
        `performance.getEntriesByType('resource').filter(({ name }) => name.includes('/api/tasks')).length`,
      ),
    ).toBe(0);
  });

  test('the tour asks for Disconnect, Reconnect, Cancel and Run again, and counts what was lost', async () => {
    const runs = tourRuns();
    await using served = await serve(runs.agent, {
      log: memoryLog(),
      form: { type: 'string', examples: ['take the tour'], 'x-tour': true },
    });
    const page = await open(served.url, { viewport: { width: 1440, height: 900 } });
    const step = (name: string): Promise<void> =>
      page.locator(`[data-part=tour][data-step=${name}]`).waitFor();
    await step('watch'); // it begins by itself on the first visit
    await step('cut');
    // This run is over before its stream is cut, so the tour asks for another one.
    runs.end();
    await step('restart');
    await page.getByRole('heading', { name: 'The run was faster' }).waitFor();
    await page.getByRole('button', { name: 'Run again' }).click();
    await step('cut');
    expect(await serious(page)).toEqual([]);
    await page.getByRole('button', { name: 'Disconnect' }).click();
    await step('reconnect');
    await page.getByText(/last seen working \d+(\.\d)? s ago/).waitFor();
    await page.getByRole('button', { name: 'Reconnect' }).click();
    await step('cancel');
    // So does this one before it is canceled: the next one is not cut again.
    runs.end();
    await step('restart');
    await page.getByRole('button', { name: 'Run again' }).click();
    await step('cancel');
    await page.getByRole('button', { name: 'Cancel', exact: true }).click();
    await step('restart');
    await page.getByRole('heading', { name: 'Press Run again' }).waitFor();
    await page.getByRole('button', { name: 'Run again' }).click();
    await step('finish');
    runs.end();
    await page.getByText(/^0 of \d{2,} events lost$/).waitFor();
    expect(await serious(page)).toEqual([]);
    await page.getByRole('button', { name: 'Finish the tour' }).click();
    await page.goto(`${served.url}/#`);
    await page.getByRole('button', { name: 'Take the tour' }).waitFor();
    expect(await page.locator('[data-part=tour]').count()).toBe(0);
  });

  test('the AI Doctor begins the tour on a first visit', async () => {
    await using server = await startServer(['ai-doctor'], [], { DUOLANE_TOUR: '1' });
    const page = await open(server.url);
    await page.locator('[data-part=tour]').waitFor();
    expect(await page.locator('[data-part=tour]').count()).toBe(1);
  });
});

/** An agent whose runs write a piece of text ten times a second until the test ends them. */
function tourRuns(): { readonly agent: Agent; end(): void } {
  let end = (): void => {};
  return {
    async *agent(_turn, ctx) {
      let isOver = false;
      end = () => (isOver = true);
      for (let word = 0; !isOver; word++) {
        yield { type: 'text.delta', id: 't', delta: `word ${word} ` };
        await sleep(100, undefined, { signal: ctx.signal });
      }
    },
    end: () => end(),
  };
}
