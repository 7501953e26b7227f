import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type BlobInfo, type BlobStore, fileBlobs } from '../../task/blob-store.ts';
import { blobRoutes } from './blob-routes.ts';
import { createRouter } from '../router.ts';

const directory = mkdtempSync(join(tmpdir(), 'duolane-blobs-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const TEXT = 'abcdefghij';
let store: BlobStore;
let blob: BlobInfo;

beforeAll(async () => {
  store = fileBlobs({ directory });
  const about = { task: 't', owner: 'ann', mediaType: 'text/html', filename: 'a b.html' };
  blob = await store.put(about, [Buffer.from(TEXT)]);
});

const ask = (
  headers: Record<string, string> = {},
  { id = blob.id, owner = 'ann', method = 'GET' } = {},
): Promise<Response> =>
  createRouter(blobRoutes([fileBlobs({ directory: join(directory, 'other') }), store]))(
    new Request(`http://127.0.0.1/blobs/${id}`, { headers, method }),
    owner,
  );

test('a blob is sent complete, as an attachment that the browser does not run', async () => {
  const response = await ask();
  expect(response.status).toBe(200);
  expect(await response.text()).toBe(TEXT);
  expect(Object.fromEntries(response.headers)).toMatchObject({
    'content-type': 'text/html',
    'content-length': '10',
    'accept-ranges': 'bytes',
    'content-disposition': "attachment; filename*=UTF-8''a%20b.html",
    'content-security-policy': "default-src 'none'; sandbox",
    'x-content-type-options': 'nosniff',
  });
});

test.each([
  ['bytes=2-4', 'cde', 'bytes 2-4/10'],
  ['bytes=7-', 'hij', 'bytes 7-9/10'],
  ['bytes=-2', 'ij', 'bytes 8-9/10'],
  ['bytes=-99', TEXT, 'bytes 0-9/10'],
  ['bytes=8-99', 'ij', 'bytes 8-9/10'],
])('%s gives %s', async (range, text, contentRange) => {
  const response = await ask({ range });
  expect([response.status, await response.text()]).toEqual([206, text]);
  expect(response.headers.get('content-range')).toBe(contentRange);
  expect(response.headers.get('content-length')).toBe(String(text.length));
});

test.each(['bytes=10-', 'bytes=10-12', 'bytes=-0'])('%s is beyond the end', async (range) => {
  const response = await ask({ range });
  expect(response.status).toBe(416);
  expect(response.headers.get('content-range')).toBe('bytes */10');
  // A cache must not keep this for a year.
  expect(response.headers.get('cache-control')).toBeNull();
});

test.each(['bytes=4-2', 'bytes=0-1,3-4', 'lines=1-2', 'bytes=-', 'bytes=a-b'])(
  '%s is not a supported range, so the complete blob is sent',
  async (range) => {
    const response = await ask({ range });
    expect([response.status, await response.text()]).toEqual([200, TEXT]);
  },
);

test('a cached blob is not sent again, and a range of another version gets the complete blob', async () => {
  const etag = (await ask({}, { method: 'HEAD' })).headers.get('etag') ?? '';
  for (const known of [etag, `W/${etag}`, `"other", ${etag}`, '*'])
    expect((await ask({ 'if-none-match': known })).status).toBe(304);
  expect((await ask({ 'if-none-match': '"other"' })).status).toBe(200);
  expect((await ask({ range: 'bytes=0-1', 'if-range': etag })).status).toBe(206);
  expect((await ask({ range: 'bytes=0-1', 'if-range': '"old"' })).status).toBe(200);
});

test('HEAD returns the size and reads nothing', async () => {
  // A range is for GET alone (RFC 9110, 14.2).
  const response = await ask({ range: 'bytes=0-1' }, { method: 'HEAD' });
  expect(response.status).toBe(200);
  expect([response.headers.get('content-length'), await response.text()]).toEqual(['10', '']);
});

test('a blob is sent also if its media type or file name is invalid', async () => {
  const about = { task: 't', owner: 'ann', mediaType: 'text/plain\r\nx: y', filename: 'a\ud800\n' };
  const { id } = await store.put(about, [Buffer.from(TEXT)]);
  const response = await ask({}, { id });
  expect([response.status, await response.text()]).toEqual([200, TEXT]);
  expect(response.headers.get('content-type')).toBe('application/octet-stream');
});

test.each([
  ['another owner', { owner: 'bob' }],
  ['a guessed id', { id: `${'0'.repeat(32)}.${'0'.repeat(36)}` }],
  ['a path as id', { id: '..%2F..%2Fetc%2Fpasswd' }],
])('%s gets 404', async (_, options) => {
  expect((await ask({}, options)).status).toBe(404);
});
