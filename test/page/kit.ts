import { afterAll, afterEach } from 'vitest';
import type { Locator, Opened, Page, PageOptions } from './browser.ts';

/** Opens pages in a browser and checks what they log and request; call it once in a suite. */
export interface Kit {
  /** Opens a page; it is closed after the test. */
  readonly open: (url: string, options?: PageOptions) => Promise<Page>;
  /** Allows console messages and blocked requests that this test provokes on purpose. */
  readonly expectConsole: (pattern: RegExp) => void;
  /** The findings of the accessibility checker. */
  readonly serious: (page: Page) => Promise<string[]>;
}

/** Fails each test whose page logs a warning or sends a request to another server than its own. */
export function pageKit(opened: Opened): Kit {
  let problems: string[] = [];
  let strangers: string[] = [];
  let pages: Page[] = [];
  let expected: RegExp | undefined;

  afterEach(async () => {
    for (const page of pages) await page.close();
    const noise = [...problems, ...strangers].filter((text) => !expected?.test(text));
    [problems, strangers, pages, expected] = [[], [], [], undefined];
    if (noise.length > 0) throw new Error(`The console or the network had:\n${noise.join('\n')}`);
  });
  afterAll(async () => {
    if (opened.missing === undefined) await opened.browser.close();
  });

  return {
    async open(url, options = {}) {
      if (opened.missing !== undefined) throw new Error(opened.missing);
      const viewport = { width: 1280, height: 800 };
      const page = await opened.browser.newPage({ viewport, ...options });
      pages.push(page);
      page.on('console', (message: { type(): string; text(): string }) => {
        if (message.type() !== 'error' && message.type() !== 'warning') return;
        // `await using` ends the server of a test before its page, which then cannot reconnect.
        if (!/net::ERR_(CONNECTION_REFUSED|INCOMPLETE_CHUNKED_ENCODING)/.test(message.text()))
          problems.push(message.text());
      });
      page.on('pageerror', (error: Error) => problems.push(String(error)));
      page.on('request', (request: { url(): string }) => {
        const from = new URL(request.url());
        if (from.protocol.startsWith('http') && from.origin !== new URL(url).origin)
          strangers.push(request.url());
      });
      await page.goto(url);
      return page;
    },
    expectConsole: (pattern) => {
      expected = pattern;
    },
    async serious(page) {
      if (opened.missing === undefined) await page.evaluate(`${opened.axe}; undefined`);
      return page.evaluate(`axe.run().then(({ violations }) => violations
        .map(({ id, nodes }) => id + ': ' + nodes.map(({ target }) => target.join(' ')).join(', ')))`);
    },
  };
}

/** Selects an agent, fills in its form and runs it. */
export async function run(page: Page, agent: string, input: string): Promise<void> {
  await page.getByRole('combobox', { name: 'Agent', exact: true }).selectOption(agent);
  await page.getByLabel(`Input for ${agent}`).fill(input);
  await page.getByRole('button', { name: 'Run', exact: true }).click();
}

export const state = (page: Page, name: string): Promise<void> =>
  page.locator(`[data-part=task-header] [data-state="${name}"]`).waitFor();

export const answer = (page: Page): Locator => page.locator('[data-part=conversation]');

/** How many rules of the contract are `kept`, `broken` or `open`. */
export const ticks = (page: Page, kind: string): Promise<number> =>
  page.locator(`[data-part=contract] [data-rule=${kind}]`).count();

/** The rows of the event list of one kind. */
export const rowsOf = (page: Page, kind: string): Locator =>
  page.locator(`[data-part=event-rows] [data-kind=${kind}]`);

/** Opens the inspector on a row, and chooses a tab. */
export async function inspect(page: Page, row: Locator, tab: string): Promise<Locator> {
  await row.click();
  const inspector = page.locator('[data-part=inspector]');
  await inspector.getByRole('tab', { name: new RegExp(`^${tab}`) }).click();
  return inspector.getByRole('tabpanel');
}

/** The numbers in the text `w1 w2 …` of the conversation. */
export const words = async (page: Page): Promise<readonly number[]> =>
  Array.from((await answer(page).innerText()).matchAll(/\bw(\d+)\b/g), ([, n]) => Number(n));
