import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ROOT, run, withLock } from '../../scripts/setup.mjs';
import { peer, type Peer } from '../peers.ts';

// A browser for the tests: a headless Chromium from the npm registry, else one of the machine. The
// interfaces declare what the tests use of playwright-core, because a peer that is not installed
// has no types.

export interface Locator extends Queries {
  click(options?: {
    readonly position?: { readonly x: number; readonly y: number };
  }): Promise<void>;
  dblclick(options?: {
    readonly position?: { readonly x: number; readonly y: number };
  }): Promise<void>;
  hover(options?: {
    readonly position?: { readonly x: number; readonly y: number };
  }): Promise<void>;
  fill(text: string): Promise<void>;
  press(key: string): Promise<void>;
  focus(): Promise<void>;
  count(): Promise<number>;
  innerText(): Promise<string>;
  inputValue(): Promise<string>;
  boundingBox(): Promise<{
    readonly x: number;
    readonly y: number;
    readonly width: number;
    readonly height: number;
  } | null>;
  getAttribute(name: string): Promise<string | null>;
  isDisabled(): Promise<boolean>;
  selectOption(value: string): Promise<unknown>;
  waitFor(options?: {
    readonly state?: 'visible' | 'hidden' | 'attached';
    readonly timeout?: number;
  }): Promise<void>;
  first(): Locator;
  nth(index: number): Locator;
  filter(options: { readonly hasText: string | RegExp }): Locator;
}

export interface Queries {
  locator(selector: string): Locator;
  getByRole(role: string, options?: { readonly name: string | RegExp; exact?: boolean }): Locator;
  getByLabel(name: string | RegExp): Locator;
  getByText(text: string | RegExp): Locator;
}

export interface Download {
  path(): Promise<string>;
  suggestedFilename(): string;
}

export interface Page extends Queries {
  goto(url: string): Promise<unknown>;
  reload(): Promise<unknown>;
  close(): Promise<void>;
  url(): string;
  /** Runs code in the page, independent of its content security policy. */
  evaluate<T>(code: string): Promise<T>;
  on(event: string, listener: (value: never) => void): void;
  waitForEvent(event: 'download'): Promise<Download>;
  /** What is inside a frame. */
  frameLocator(selector: string): Queries;
  screenshot(options: { readonly path: string }): Promise<unknown>;
  readonly keyboard: { press(key: string): Promise<void> };
  readonly mouse: {
    move(x: number, y: number, options?: { readonly steps?: number }): Promise<void>;
    down(): Promise<void>;
    up(): Promise<void>;
    wheel(deltaX: number, deltaY: number): Promise<void>;
  };
  title(): Promise<string>;
  setViewportSize(size: { readonly width: number; readonly height: number }): Promise<void>;
}

export interface PageOptions {
  readonly viewport?: { readonly width: number; readonly height: number };
  readonly colorScheme?: 'light' | 'dark';
  readonly deviceScaleFactor?: number;
}

export interface Browser {
  newPage(options?: PageOptions): Promise<Page>;
  version(): string;
  close(): Promise<void>;
}

interface Launch {
  readonly executablePath?: string;
  readonly channel?: string;
  readonly env?: NodeJS.ProcessEnv;
}

export type Opened =
  | { readonly browser: Browser; readonly axe: string; readonly missing?: undefined }
  | { readonly missing: string };

/**
 * Opens a browser with the source of the accessibility checker, or says why it cannot. The caller
 * closes it.
 */
export async function openBrowser(): Promise<Opened> {
  const found = await peer('browser');
  if (found.reason !== undefined) return { missing: found.reason };
  const { default: playwright } = (await found.import('playwright-core')) as unknown as {
    default: { chromium: { launch(options: object): Promise<Browser> } };
  };
  const axe = await readFile(fileURLToPath(found.resolve('axe-core')), 'utf8');
  const failures: string[] = [];
  for await (const launch of launches(found)) {
    try {
      const options = { ...launch, headless: true, args: ['--no-sandbox'], timeout: 60_000 };
      return { browser: await playwright.chromium.launch(options), axe };
    } catch (error) {
      failures.push(String(error).split('\n', 1)[0] ?? '');
    }
  }
  return { missing: `no browser could be started: ${failures.join('; ')}` };
}

const INSTALLED = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

async function* launches(found: Peer): AsyncGenerator<Launch, void, undefined> {
  if (process.platform === 'linux' && process.arch === 'x64') {
    const folder = await unpack(found);
    const executablePath = join(folder, 'chromium');
    yield { executablePath };
    // For a machine without the shared libraries: the ones in the package.
    const env = { ...process.env, LD_LIBRARY_PATH: join(folder, 'al2023', 'lib') };
    yield { executablePath, env: { ...env, FONTCONFIG_PATH: join(folder, 'fonts') } };
  }
  for (const channel of ['chrome', 'msedge']) yield { channel };
  for (const executablePath of INSTALLED) if (existsSync(executablePath)) yield { executablePath };
}

/**
 * Unpacks the packed Chromium once per version, in a separate process, because the package reads
 * its settings from the environment: it unpacks to the temporary folder, and its libraries only on
 * the platform that lacks them.
 */
async function unpack(found: Peer): Promise<string> {
  const manifest = await readFile(join(found.path, 'package.json'), 'utf8');
  const { dependencies } = JSON.parse(manifest) as { dependencies: Record<string, string> };
  const home = join(ROOT, '.cache');
  const folder = join(home, `chromium-${dependencies['@sparticuz/chromium']}`);
  if (existsSync(folder)) return folder;
  await mkdir(home, { recursive: true });
  return withLock(`${folder}.lock`, async () => {
    if (existsSync(folder)) return folder;
    const half = `${folder}.half`;
    await rm(half, { recursive: true, force: true });
    await mkdir(half);
    const module = JSON.stringify(found.resolve('@sparticuz/chromium'));
    const code = `const { default: packed } = await import(${module}); await packed.executablePath();`;
    const env = { ...process.env, TMPDIR: half, AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs20.x' };
    const args = ['--input-type=module', '--eval', code];
    const result = await run(process.execPath, args, { env, quiet: true });
    if (result.code !== 0) throw new Error(`cannot unpack Chromium: ${result.output}`);
    // Its font configuration names the temporary folder of that platform.
    const fonts = ['/usr/share/fonts', join(folder, 'fonts')].map((at) => `<dir>${at}</dir>`);
    const cache = `<cachedir>${join(folder, 'font-cache')}</cachedir>`;
    const list = `<?xml version="1.0"?>\n<fontconfig>${fonts.join('')}${cache}</fontconfig>\n`;
    await writeFile(join(half, 'fonts', 'fonts.conf'), list);
    await rename(half, folder);
    return folder;
  });
}
