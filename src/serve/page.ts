import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { plain, type Call, type Route } from './router.ts';

/** Where the built page lies, seen from the source and from the package alike. */
const FOLDERS = ['../web/', '../../dist/web/'].map((path) => new URL(path, import.meta.url));

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.json': 'application/json',
  '.woff2': 'font/woff2',
};

/** No script but the page's own, no address but its own: a model's answer stays text. */
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
};

/** The page itself, which says nothing about any task. */
export const isPage = (pathname: string): boolean =>
  pathname === '/' || pathname.startsWith('/assets/');

export const pageRoutes: readonly Route[] = [
  { method: 'GET', path: '/', handle: () => file('index.html', 'no-cache') },
  {
    method: 'GET',
    path: '/assets/:name',
    handle: ({ params }: Call) =>
      file(`assets/${params['name'] ?? ''}`, 'public, max-age=31536000, immutable'),
  },
];

async function file(path: string, caching: string): Promise<Response> {
  if (path.includes('..') || path.includes('\\')) return plain(404, 'no such file');
  for (const folder of FOLDERS) {
    try {
      const body = await readFile(fileURLToPath(new URL(path, folder)));
      const type = TYPES[extname(path)] ?? 'application/octet-stream';
      return new Response(new Uint8Array(body), {
        headers: { ...HEADERS, 'content-type': type, 'cache-control': caching },
      });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  return path === 'index.html'
    ? plain(503, 'The page is not built: run "npm run build".')
    : plain(404, 'no such file');
}
