import { expect, test } from 'vitest';
import { memoryLog } from '../../task/memory/memory-log.ts';
import { createGuard } from './guard.ts';
import { serve } from '../serve.ts';

const at = (host: string, headers: Record<string, string> = {}): Request =>
  new Request(`http://${host}/a2a`, { method: 'POST', headers });

test.each([
  // A proxy that keeps the name that callers use, and one that replaces it with its own.
  ['agents.example.com', undefined, true],
  ['agents.example.com', 'https://agents.example.com', true],
  ['127.0.0.1:8003', 'https://agents.example.com', true],
  ['127.0.0.1:8003', undefined, true],
  ['evil.example', undefined, false],
  ['agents.example.com.evil.example', undefined, false],
  ['127.0.0.1:8003', 'http://agents.example.com', false],
  ['127.0.0.1:8003', 'https://agents.example.com:8443', false],
  ['127.0.0.1:8003', 'https://evil.example', false],
  ['agents.example.com', 'null', false],
])('behind a proxy, %s with the origin %s is let in: %s', async (host, origin, isIn) => {
  const guard = createGuard('127.0.0.1', {}, { publicUrl: 'https://agents.example.com/agents' });
  const { response } = await guard(at(host, origin === undefined ? {} : { origin }));
  expect(response?.status).toBe(isIn ? undefined : 403);
});

test('while the issuer is down, callers with other credentials are let in', async () => {
  const errors: unknown[] = [];
  const jwt = { issuer: 'http://127.0.0.1:1', audience: 'us' };
  const verify = async ({ headers }: Request): Promise<string | undefined> =>
    headers.get('x-user') ?? undefined;
  const guard = createGuard(
    '127.0.0.1',
    { jwt, verify },
    { onError: (error) => errors.push(error) },
  );
  const authorization = 'Bearer a.b.c';
  expect(await guard(at('localhost', { authorization, 'x-user': 'ada' }))).toEqual({
    owner: 'ada',
  });
  const { response } = await guard(at('localhost', { authorization }));
  expect([response?.status, errors.length]).toEqual([503, 2]);
});

test('the card contains the publicUrl without its trailing slash', async () => {
  const publicUrl = 'https://agents.example.com/';
  await using served = await serve(async function* () {}, {
    log: memoryLog(),
    page: false,
    publicUrl,
  });
  const response = await fetch(`${served.url}/.well-known/agent-card.json`);
  expect(await response.json()).toMatchObject({ url: 'https://agents.example.com/a2a/agent' });
  const wrong = serve(async function* () {}, { log: memoryLog(), publicUrl: 'agents.example.com' });
  await expect(wrong).rejects.toMatchObject({ code: 'invalid' });
});
