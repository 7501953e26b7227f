import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request, type IncomingMessage } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { serve, type Served } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/memory/memory-log.ts';

// The page can approve actions, so only the page itself may call its server.

let served: Served;
let runs = 0;

beforeAll(async () => {
  served = await serve(
    async function* () {
      runs++;
      yield { type: 'text.delta', id: 't', delta: 'done' };
    },
    { log: memoryLog() },
  );
});
afterAll(() => served[Symbol.asyncDispose]());

interface Reply {
  readonly status: number | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

/** Uses node:http, because fetch does not allow a custom Host header. */
async function ask(
  path: string,
  {
    method = 'GET',
    headers = {},
    body = '',
  }: Partial<Record<'method' | 'body', string>> & {
    readonly headers?: Readonly<Record<string, string>>;
  } = {},
): Promise<Reply> {
  const sending = request(new URL(path, served.url), { method, headers });
  sending.end(body);
  const [response] = (await once(sending, 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += chunk as string;
  return { status: response.statusCode, headers: response.headers, text };
}

/** Sends the path unchanged; `ask` would resolve its dots first. */
async function rawAsk(path: string): Promise<Pick<Reply, 'status' | 'text'>> {
  const { hostname, port } = new URL(served.url);
  const sending = request({ hostname, port, path });
  sending.end();
  const [response] = (await once(sending, 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += chunk as string;
  return { status: response.statusCode, text };
}

const run = (headers: Readonly<Record<string, string>>): Promise<Reply> =>
  ask('/api/agents/agent/turns', {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: '{"text":"hello"}',
  });

test('a foreign host name that resolves to this machine gets 403 (DNS rebinding)', async () => {
  for (const host of ['evil.example', 'evil.example:80', '127.0.0.1.evil.example', '10.0.0.1'])
    for (const path of ['/', '/api/tasks', '/healthz', '/.well-known/agent-card.json'])
      expect(await ask(path, { headers: { host } })).toMatchObject({ status: 403 });
  expect((await run({ host: 'evil.example' })).status).toBe(403);
  expect(runs).toBe(0);
});

test('a page of another site starts no run: another origin, another port, null, an invalid origin', async () => {
  const { port } = new URL(served.url);
  for (const origin of [
    'https://evil.example',
    'http://127.0.0.1:1',
    `http://evil.example:${port}`,
    'null',
    'junk',
  ])
    expect((await run({ origin })).status).toBe(403);
  expect(runs).toBe(0);
});

test('a form of another site, which needs no CORS permission to post, cannot post JSON', async () => {
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', ''])
    expect((await run({ 'content-type': type })).status).toBe(400);
  expect(runs).toBe(0);
});

test('the page itself may start a run', async () => {
  expect((await run({ origin: served.url })).status).toBe(201);
  await expect.poll(() => runs).toBe(1);
});

test('a body that is too large is refused while it arrives', async () => {
  const body = `{"text":"${'x'.repeat(17 * 1024 * 1024)}"}`;
  const sending = fetch(`${served.url}/api/agents/agent/turns`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  });
  expect((await sending).status).toBe(413);
});

test('the page allows only its own scripts, styles, addresses and frames, and nothing inline', async () => {
  const { status, headers, text } = await ask('/');
  expect(status).toBe(200);
  const policy = String(headers['content-security-policy']);
  expect(policy).toContain("default-src 'none'");
  expect(policy).not.toMatch(/unsafe|https?:|\*/);
  expect(policy).toContain("frame-ancestors 'none'");
  expect(headers['x-content-type-options']).toBe('nosniff');
  expect(text).not.toMatch(/<style|\son\w+=|<script(?![^>]*\ssrc=)/);
  for (const [, address = ''] of text.matchAll(/(?:src|href)="([^"]+)"/g))
    expect(address).toMatch(/^(\/assets\/|data:,$)/);
});

test('the first view has less than 150 KB, compressed', async () => {
  const { text } = await ask('/');
  const files = [...text.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(
    ([, name]) => name ?? '',
  );
  expect(files.length).toBeGreaterThan(1);
  const sizes = files.map(
    (name) => gzipSync(readFileSync(new URL(`../../dist/web${name}`, import.meta.url))).length,
  );
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(150_000);
});

test('no spelling of a path leaves the folder of the page', async () => {
  // `request` of node:http sends a path as it is, which fetch and new URL would not.
  const dots = ['..', '%2e%2e', '%252e%252e', '%25252e%25252e', '.%2e', '%2E.', '%c0%ae%c0%ae'];
  const slashes = ['/', '%2f', '%2F', '%252f', '\\', '%5c', '%255c', '%c0%af', ';/', '//'];
  const targets = ['etc/passwd', 'proc/self/environ', 'proc/self/cmdline', 'package.json'];
  for (const dot of dots)
    for (const slash of slashes)
      for (const target of targets) {
        const climb = `${dot}${slash}`.repeat(12);
        for (const path of [
          `/assets/${climb}${target}`,
          `/assets/${climb}${target.replaceAll('/', '%2f')}`,
          `/${climb}${target}`,
          `/blobs/${climb}${target.replaceAll('/', '%2f')}`,
          `/api/tasks/${climb}${target.replaceAll('/', '%2f')}`,
        ]) {
          const { status, text } = await rawAsk(path);
          expect([400, 404], path).toContain(status);
          expect(text, path).not.toMatch(/root:|PATH=|"devDependencies"/);
        }
      }
});

test('a path that cannot be decoded gets 400, and no file name gets 500', async () => {
  for (const path of ['/assets/%', '/assets/%ff', '/assets/%c3%28', '/api/tasks/%e0%a4'])
    expect((await rawAsk(path)).status, path).toBe(400);
  for (const name of [
    '%00',
    '%2500',
    '.',
    'x%00.js',
    'a'.repeat(5000),
    '%252f',
    'C:',
    'con',
    '%20',
  ])
    expect((await rawAsk(`/assets/${name}`)).status, name).toBe(404);
});

test('only files of the page are served', async () => {
  for (const path of [
    '/assets/..%2f..%2fpackage.json',
    '/assets/..%5cindex.html',
    '/assets/nope.js',
  ])
    expect((await ask(path)).status).toBe(404);
  const name = /\/assets\/[^"]+\.js/.exec((await ask('/')).text)?.[0] ?? '';
  const { text, headers } = await ask(name);
  expect(text).toBe(readFileSync(new URL(`../../dist/web${name}`, import.meta.url), 'utf8'));
  expect(headers['cache-control']).toContain('immutable');
});
