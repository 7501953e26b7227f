import { afterAll, beforeAll, expect, test } from 'vitest';
import { suite } from '../verifies.ts';
import { openBrowser, type Page, type PageOptions } from './browser.ts';
import { pageKit, rowsOf, run, state } from './kit.ts';
import { startServer, type TestServer } from './server.ts';
import { slowness } from '../support/busy.ts';

// The waterfall in a real browser: zoom, move, select, hover, and a run of 100,000 events.

const opened = await openBrowser();
if (opened.missing !== undefined) process.stderr.write(`${opened.missing}\n`);
const WIDE = { viewport: { width: 1440, height: 900 } };

suite('browser', opened.missing, () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer(['page-agent', 'form-agent']);
  });
  afterAll(() => server[Symbol.asyncDispose]());
  const { open: openAt } = pageKit(opened);
  const open = (options: PageOptions = WIDE): Promise<Page> => openAt(server.url, options);

  const box = async (page: Page, part: string) => {
    const found = await page.locator(`[data-part=${part}]`).boundingBox();
    if (!found) throw new Error(`${part} is not visible`);
    return found;
  };
  /** The visible time as the page writes it, in ms. */
  const visibleMs = async (page: Page): Promise<number> => {
    const text = await page.locator('[data-part=visible-time]').innerText();
    const [, number = '', unit = ''] = /^([\d.]+) (ms|s|min)$/.exec(text) ?? [];
    return Number(number) * { ms: 1, s: 1000, min: 60_000 }[unit as 'ms' | 's' | 'min'];
  };
  /** The picture of the canvas. An empty one compresses to almost nothing. */
  const picture = (page: Page): Promise<string> =>
    page.evaluate(`document.querySelector('[data-part=waterfall-canvas]').toDataURL()`);

  test('wheel, keys, dragging and the mini-map zoom and move; Fit shows everything', async () => {
    const page = await open();
    await run(page, 'page-agent', 'team');
    await state(page, 'completed');
    await expect.poll(async () => (await picture(page)).length).toBeGreaterThan(8000);
    const all = await visibleMs(page);
    const { x, y, width, height } = await box(page, 'waterfall-canvas');
    await page.mouse.move(x + width * 0.7, y + height / 2);
    await page.mouse.wheel(0, -400);
    await expect.poll(() => visibleMs(page)).toBeLessThan(all * 0.9);
    const near = await visibleMs(page);
    await page.mouse.wheel(0, 200);
    await expect.poll(() => visibleMs(page)).toBeGreaterThan(near);
    await page.getByRole('button', { name: 'Fit' }).click();
    await expect.poll(() => visibleMs(page)).toBe(all);
    expect(await page.getByRole('button', { name: 'Fit' }).isDisabled()).toBe(true);
    const stage = page.getByRole('group', { name: /^Timeline of both lanes/ });
    await stage.press('+');
    await stage.press('+');
    const zoomed = await visibleMs(page);
    expect(zoomed).toBeLessThan(all * 0.6);
    await stage.press('ArrowRight');
    expect(await visibleMs(page)).toBe(zoomed);
    await stage.press('0');
    await expect.poll(() => visibleMs(page)).toBe(all);
    // Dragging on the axis zooms to the part between.
    await page.mouse.move(x + width * 0.4, y + 8);
    await page.mouse.down();
    await page.mouse.move(x + width * 0.6, y + 8, { steps: 4 });
    await page.mouse.up();
    await expect.poll(() => visibleMs(page)).toBeLessThan(all * 0.35);
    // Dragging below it moves, and changes no length.
    const part = await visibleMs(page);
    await page.mouse.move(x + width * 0.6, y + height / 2);
    await page.mouse.down();
    await page.mouse.move(x + width * 0.4, y + height / 2, { steps: 4 });
    await page.mouse.up();
    expect(await visibleMs(page)).toBe(part);
    // The right edge of the window in the mini-map can be dragged to the end.
    const map = await box(page, 'mini-map');
    await page.mouse.move(map.x + map.width * 0.9, map.y + 10);
    await page.mouse.down();
    await page.mouse.up();
    expect(await visibleMs(page)).toBe(part);
  });

  test('a bar selects its event, a row marks its bar, and hovering links both', async () => {
    const page = await open();
    await run(page, 'page-agent', 'team');
    await state(page, 'completed');
    const failed = page.locator('[data-part=event-rows] [data-kind=call][data-state=failed]');
    await failed.click();
    const inspector = page.locator('[data-part=inspector]');
    await inspector
      .getByText(/^researcher$/)
      .first()
      .waitFor();
    expect(await failed.getAttribute('aria-selected')).toBe('true');
    await page.keyboard.press('Escape');
    const before = await picture(page);
    await rowsOf(page, 'user').first().hover();
    await expect.poll(() => picture(page)).not.toBe(before);
    // The bar of the longest call covers the middle of its track.
    const { x, y, width, height } = await box(page, 'waterfall-canvas');
    let found = false;
    for (let step = 0; step < height && !found; step += 6) {
      await page.mouse.move(x + width * 0.5, y + step);
      found = (await page.locator('[data-part=event-rows] [data-hovered=true]').count()) > 0;
    }
    expect(found).toBe(true);
    await page.mouse.down();
    await page.mouse.up();
    await inspector.waitFor();
  });

  test('a live run grows with a line at now, and a cut is marked with what it cost', async () => {
    const page = await open();
    await run(page, 'page-agent', 'slow 200');
    await page
      .getByText(/\bw3\b/)
      .first()
      .waitFor();
    const early = await visibleMs(page);
    await expect.poll(() => visibleMs(page)).toBeGreaterThan(early);
    await page.getByRole('button', { name: 'Disconnect' }).click();
    await state(page, 'unknown');
    // Nothing grows while nothing is known.
    const cut = await visibleMs(page);
    await page.getByText(/last seen working [1-9]\.\d s ago/).waitFor();
    expect(await visibleMs(page)).toBe(cut);
    await page.getByRole('button', { name: 'Reconnect' }).click();
    await page
      .locator('[data-part=cut]')
      .filter({ hasText: /^cut [\d.]+ s, \d+ replayed, 0 lost$/ })
      .waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await state(page, 'canceled');
  });

  test('an agent that ignores its cancel is shown as canceling', async () => {
    const page = await open();
    await run(page, 'page-agent', 'stubborn');
    await page.getByText('I do not listen.').first().waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await state(page, 'canceling');
    await state(page, 'canceled');
    expect(await page.locator('[data-fact=Elapsed]').innerText()).toMatch(/canceled in \d/);
  });

  test('100,000 events: few elements, and zooming and scrolling stay interactive', async () => {
    const page = await open();
    await run(page, 'page-agent', 'flood 100000');
    await page
      .locator('[data-part=task-header] [data-state=completed]')
      .waitFor({ timeout: 150_000 });
    const rows = await page.evaluate<number>(
      `Number(document.querySelector('[data-part=event-rows] [role=option]').getAttribute('aria-setsize'))`,
    );
    expect(rows).toBeGreaterThan(60_000);
    expect(await page.locator('*').count()).toBeLessThan(1200);
    const { x, y, width, height } = await box(page, 'waterfall-canvas');
    await page.mouse.move(x + width * 0.7, y + height / 2);
    const frames = await page.evaluate<readonly number[]>(ZOOM);
    const [median = Infinity, p95] = [0.5, 0.95].map(
      (part) => frames.toSorted((a, b) => a - b)[Math.ceil(frames.length * part) - 1],
    );
    process.stderr.write(
      `waterfall of ${rows} rows: ${median.toFixed(1)} ms a frame while zooming (median), ${p95?.toFixed(1)} ms (p95)\n`,
    );
    expect(median).toBeLessThan(100 * (await slowness()));
  });
});

/** Zooms in and out with the wheel, once per frame; returns the work of each frame in ms. */
const ZOOM = `(async () => {
  const canvas = document.querySelector('[data-part=waterfall-canvas]');
  const { left, top, width, height } = canvas.getBoundingClientRect();
  const frames = [];
  for (let i = 0; i < 120; i++) {
    await new Promise(requestAnimationFrame);
    const from = performance.now();
    canvas.dispatchEvent(new WheelEvent('wheel', {
      deltaY: i % 60 < 30 ? -150 : 150, clientX: left + width / 2, clientY: top + height / 2,
      bubbles: true, cancelable: true,
    }));
    // The page renders in a microtask and paints in the next animation frame, after this one.
    await new Promise(requestAnimationFrame);
    await new Promise((resolve) => { const { port1, port2 } = new MessageChannel(); port1.onmessage = resolve; port2.postMessage(0); });
    frames.push(performance.now() - from);
  }
  return frames;
})()`;
