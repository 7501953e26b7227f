// `npx tsx scripts/screenshots.ts` takes the pictures of the README from the real page. After a
// change of the page, run it again and look at the result.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { openBrowser, type Page, type PageOptions } from '../test/page/browser.ts';
import { startServer } from '../test/page/server.ts';
import { build, ROOT } from './setup.mjs';

interface Picture {
  readonly file: string;
  /** Is run with its first sample. */
  readonly agent: string;
  readonly state: string;
  /** Cuts the connection in the middle of the run, so that the picture shows what that costs. */
  readonly isCut?: true;
  readonly options: PageOptions;
}

const WIDE = { width: 1440, height: 900 };
const PICTURES: readonly Picture[] = [
  {
    file: 'page-light.png',
    agent: 'ai-doctor',
    state: 'completed',
    isCut: true,
    options: { viewport: WIDE, colorScheme: 'light' },
  },
  {
    file: 'page-dark.png',
    agent: 'ai-doctor',
    state: 'completed',
    isCut: true,
    options: { viewport: WIDE, colorScheme: 'dark' },
  },
  {
    file: 'page-waiting.png',
    agent: 'tickets',
    state: 'input-required',
    options: { viewport: { width: 390, height: 844 }, colorScheme: 'light' },
  },
];

const { code, output } = await build();
if (code !== 0) throw new Error(output);
const folder = join(ROOT, 'docs', 'images');
await mkdir(folder, { recursive: true });
const opened = await openBrowser();
if (opened.missing !== undefined) throw new Error(opened.missing);
try {
  // At human speed, a run has a length that can be seen.
  const settings = { DUOLANE_TOUR: '1' };
  await using server = await startServer(['ai-doctor', 'tickets'], [], settings);
  for (const picture of PICTURES) {
    const page = await opened.browser.newPage(picture.options);
    await page.goto(`${server.url}/#/inbox`); // the start page would begin with the tour
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    await take(page, picture);
    await page.close();
    console.log(join('docs', 'images', picture.file));
  }
} finally {
  await opened.browser.close();
}

async function take(page: Page, { file, agent, state, isCut }: Picture): Promise<void> {
  await page.getByRole('combobox', { name: 'Agent', exact: true }).selectOption(agent);
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  if (isCut) {
    await page.getByText('I look up').first().waitFor();
    await page.getByRole('button', { name: 'Disconnect' }).click();
    await page.getByText(/last seen working 2\.\d s ago/).waitFor();
    await page.getByRole('button', { name: 'Reconnect' }).click();
  }
  await page.locator(`[data-part=task-header] [data-state="${state}"]`).waitFor();
  if (isCut) {
    await page.getByRole('listbox').press('Home');
    await page.locator('[data-part=event-rows] [data-kind=call]').first().click();
    await page.getByRole('tab', { name: 'Output' }).click();
  }
  await page.screenshot({ path: join(folder, file) });
}
