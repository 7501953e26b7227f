import { afterAll, afterEach } from 'vitest';
import type { Locator, Opened, Page, PageOptions } from './browser.ts';

/** Pages of a browser that is watched; call it once in a suite. */
export interface Kit {
  /** A page of the address; it is closed after the test. */
  readonly open: (url: string, options?: PageOptions) => Promise<Page>;
  /** What this test provokes on purpose on the console. */
  readonly expectNoise: (pattern: RegExp) => void;
  /** What the accessibility checker has to say that is serious. */
  readonly serious: (page: Page) => Promise<string[]>;
}

/** Every test, whatever it is about: a silent console, and no word to anybody but the page's own server. */
export function pageKit(opened: Opened): Kit {
  let problems: string[] = [];
  let strangers: string[] = [];
  let pages: Page[] = [];
  let expected: RegExp | undefined;

  afterEach(async () => {
    for (const page of pages) await page.close();
    const noise = [...problems.filter((text) => !expected?.test(text)), ...strangers];
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
        if (message.type() === 'error' || message.type() === 'warning')
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
    expectNoise: (pattern) => {
      expected = pattern;
    },
    async serious(page) {
      if (opened.missing === undefined) await page.evaluate(`${opened.axe}; undefined`);
      return page.evaluate(`axe.run().then(({ violations }) => violations
        .filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .map(({ id, nodes }) => id + ': ' + nodes.map(({ target }) => target.join(' ')).join(', ')))`);
    },
  };
}

/** Picks an agent, fills in its form and runs it. */
export async function run(page: Page, agent: string, input: string): Promise<void> {
  await page.getByRole('combobox', { name: 'Agent', exact: true }).selectOption(agent);
  await page.getByLabel(`Input for ${agent}`).fill(input);
  await page.getByRole('button', { name: 'Run', exact: true }).click();
}

export const state = (page: Page, word: string): Promise<void> =>
  page.locator(`.strip .state.${word}`).waitFor();

export const answer = (page: Page): Locator => page.locator('.answer');

/** How many promises of the contract are `kept`, `broken` or `open`. */
export const ticks = (page: Page, kind: string): Promise<number> =>
  page.locator(`.contract .${kind}`).count();

/** The numbers of the answer `w1 w2 …`. */
export const words = async (page: Page): Promise<readonly number[]> =>
  Array.from((await answer(page).innerText()).matchAll(/\bw(\d+)\b/g), ([, n]) => Number(n));
