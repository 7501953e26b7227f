import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { httpRoute, statusResponse, type HttpRoute } from '../router.ts';

/** Folders that may hold the built page: the first when installed, the second in a checkout. */
const FOLDERS = ['../../web/', '../../../dist/web/'].map((path) =>
  fileURLToPath(new URL(path, import.meta.url)),
);

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.json': 'application/json',
  '.woff2': 'font/woff2',
};

/**
 * Allows only the page's own scripts and address, so that model output can never run as a script.
 * The frames are apps of tool servers, each in a sandbox by the headers of its response; they
 * cannot navigate to another address.
 */
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
};

/** Whether the path is a file of the page, which contains no data of tasks. */
export const isPage = (pathname: string): boolean =>
  pathname === '/' || pathname.startsWith('/assets/');

/**
 * Routes that serve the built page. The folder is listed once, here. A request can only select one
 * of the listed names, so nothing that a client sends ever becomes part of a path.
 */
export function pageRoutes(folders: readonly string[] = FOLDERS): readonly HttpRoute[] {
  const page = folders.map(listPage).find((each) => each !== undefined);
  const readAsset = readOnce();
  return [
    httpRoute('GET', '/', () =>
      page
        ? sendFile(page.index, 'no-cache')
        : statusResponse(503, 'The page is not built: run "npm run build".'),
    ),
    httpRoute('GET', '/assets/:name', ({ params }) => {
      const path = page?.assets.get(params['name'] ?? '');
      return path === undefined
        ? statusResponse(404, 'file not found')
        : sendFile(path, 'public, max-age=31536000, immutable', readAsset);
    }),
  ];
}

type ReadFile = (path: string) => Promise<Uint8Array>;

/**
 * Reads each file once. The names of assets contain a hash of their content, so that it never
 * changes; and callers need no credentials: many requests must not keep as many copies in memory.
 */
function readOnce(): ReadFile {
  const files = new Map<string, Promise<Uint8Array>>();
  return (path) => {
    const known = files.get(path);
    if (known) return known;
    const reading = readFile(path);
    files.set(path, reading);
    reading.catch(() => files.delete(path)); // the caller gets the failure
    return reading;
  };
}

interface PageFiles {
  readonly index: string;
  /** Full paths by name. */
  readonly assets: ReadonlyMap<string, string>;
}

/** Undefined if the folder holds no built page. Links and sub-folders are omitted. */
function listPage(folder: string): PageFiles | undefined {
  if (!filesIn(folder).includes('index.html')) return undefined;
  const assets = join(folder, 'assets');
  return {
    index: join(folder, 'index.html'),
    assets: new Map(filesIn(assets).map((name) => [name, join(assets, name)])),
  };
}

function filesIn(folder: string): readonly string[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

async function sendFile(
  path: string,
  caching: string,
  read: ReadFile = readFile,
): Promise<Response> {
  let body;
  try {
    body = await read(path);
  } catch (error) {
    // A rebuild while the server runs replaces the assets with others that have new names.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT')
      return statusResponse(404, 'file not found');
    throw error;
  }
  const type = TYPES[extname(path)] ?? 'application/octet-stream';
  return new Response(new Uint8Array(body), {
    headers: { ...HEADERS, 'content-type': type, 'cache-control': caching },
  });
}
