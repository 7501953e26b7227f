import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { ROOT } from '../../scripts/setup.mjs';
import { verifies } from '../verifies.ts';
import { expectNoStack, PATH_AGENT, Place } from './support.ts';

let place: Place;
beforeEach(async () => {
  place = await Place.open();
});
afterEach(async () => {
  await place[Symbol.asyncDispose]();
});

interface Received {
  readonly path: string | undefined;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
}

/** Takes traces and keeps them. */
async function collector(): Promise<{ readonly url: string; readonly received: Received[] }> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => (body += text));
    request.on('end', () => {
      received.push({ path: request.url, headers: request.headers, body });
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received };
}

verifies('S268', 'runs cases and scorers, keeps the report, exports the traces', async () => {
  const { url, received } = await collector();
  const cases = await place.write(
    'cases.mjs',
    `export const cases = [
       { name: 'short', input: 'hello', expect: { outcome: 'completed' } },
       { name: 'long', input: 'hello' },
     ];
     export const scorers = [
       function length({ case: { name }, text }) {
         return { name: 'length', value: name === 'long' ? 0.25 : 1, pass: name !== 'long', why: text.length + ' characters' };
       },
     ];`,
  );
  const report = place.file('report.md');
  const options = ['--report', report, '--otlp', url, '--langfuse', url, '--json'];
  const ended = await place.run(['eval', PATH_AGENT, cases, ...options], {
    env: { LANGFUSE_PUBLIC_KEY: 'pk', LANGFUSE_SECRET_KEY: 'sk' },
  });
  expect(ended.code).toBe(1);
  expect(JSON.parse(ended.stdout)).toMatchObject({
    agent: 'path-agent',
    runs: 2,
    passed: 1,
    scores: { contract: 1, outcome: 1, length: 0.625 },
  });
  expect(await readFile(report, 'utf8')).toContain('1 of 2 runs pass.');
  const [plain, , langfuse] = received;
  const paths = ['/v1/traces', '/api/public/otel/v1/traces'].flatMap((path) => [path, path]);
  expect(received.map(({ path }) => path)).toEqual(paths);
  expect(plain?.body).toContain('"invoke_agent path-agent"');
  expect(plain?.body).not.toContain('langfuse');
  expect(langfuse?.headers).toMatchObject({
    authorization: `Basic ${Buffer.from('pk:sk').toString('base64')}`,
    'x-langfuse-ingestion-version': '4',
  });
  expect(langfuse?.body).toContain('langfuse.trace.metadata.length');
});

test('the cases of the sample pass, and are printed one by one', async () => {
  const cases = join(ROOT, 'examples/text-to-sql/cases.json');
  const ended = await place.run(['eval', 'text-to-sql', cases]);
  expect(ended.stdout).toContain('4 of 4 runs pass');
  expect(ended.stdout).toMatch(/✓ a cancel in the middle arrives {2}\d+ ms/);
  expect(ended.code).toBe(0);
});

test('closes what the agent has open, also when the cases cannot be read', async () => {
  const agent = await place.write(
    'open.mjs',
    `const timer = setInterval(() => {}, 1000);
     export default async function* () {}
     export const options = { resources: [{ async [Symbol.asyncDispose]() { clearInterval(timer); } }] };`,
  );
  const ended = await place.run(['eval', agent, 'none.json']);
  expect(ended.code).toBe(2);
});

test.each([
  ['no agent', [], /missing argument <agent>/],
  ['a missing file', [PATH_AGENT, 'none.json'], /cannot read none\.json/],
  ['a module without cases', [PATH_AGENT, PATH_AGENT], /has no cases/],
  [
    'an unknown expectation',
    [PATH_AGENT, 'odd.json'],
    /case 1: unknown member "txt"; available: outcome/,
  ],
  ['no keys', [PATH_AGENT, '--langfuse', 'http://127.0.0.1:1'], /needs LANGFUSE_PUBLIC_KEY/],
  ['no collector', [PATH_AGENT, '--otlp', 'http://127.0.0.1:1'], /is the collector running\?/],
])('%s is reported in one line', async (_, args, words) => {
  await place.write('odd.json', '[{ "name": "odd", "input": "x", "expect": { "txt": "y" } }]');
  const ended = await place.run(['eval', ...args]);
  expect(ended.code).not.toBe(0);
  expect(ended.stderr).toMatch(words);
  expectNoStack(ended);
});
