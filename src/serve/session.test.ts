import { describe, expect, test } from 'vitest';
import { memoryLog } from '../task/memory.ts';
import { serve } from './serve.ts';
import { createSessions } from './session.ts';
import type { Auth } from './guard.ts';

const SECRETS = { ada: 'alpha', bob: 'beta' };
const at = (cookie: string): Request => new Request('http://x/', { headers: { cookie } });

async function issued(sessions: ReturnType<typeof createSessions>, owner: string, token = '') {
  const request = new Request('http://x/api/session', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
  });
  const route = sessions.routes.find(({ method }) => method === 'POST');
  const url = new URL(request.url);
  const response = await route?.handle({ request, url, params: {}, owner });
  return response?.headers.get('set-cookie') ?? '';
}
const valueOf = (setCookie: string): string => setCookie.split(';')[0] ?? '';

describe('a session', () => {
  test('says who asks, on every replica with the same secrets, until it runs out', async () => {
    let now = 1_000_000;
    const open = (auth: Auth): ReturnType<typeof createSessions> => createSessions(auth, () => now);
    const cookie = await issued(open({ bearer: SECRETS }), 'ada');
    expect(cookie).toMatch(/; HttpOnly; SameSite=Strict$/);
    const ask = at(`other=1; ${valueOf(cookie)}`);
    expect(open({ bearer: SECRETS }).ownerOf(ask)).toBe('ada');
    expect(open({ bearer: { ...SECRETS, bob: 'changed' } }).ownerOf(ask)).toBeUndefined();
    now += 12 * 60 * 60 * 1000;
    expect(open({ bearer: SECRETS }).ownerOf(ask)).toBeUndefined();
  });

  test('never outlives the token that was shown', async () => {
    const claims = Buffer.from(JSON.stringify({ exp: 1_060 })).toString('base64url');
    const sessions = createSessions({ verify: async () => 'ada' }, () => 1_000_000);
    expect(await issued(sessions, 'ada', `e30.${claims}.sig`)).toContain('Max-Age=60;');
  });

  test('that was tampered with is nobody', async () => {
    const sessions = createSessions({ bearer: SECRETS });
    const [name, value = ''] = valueOf(await issued(sessions, 'ada')).split('=');
    const [claim = '', signature = ''] = value.split('.');
    const bob = Buffer.from(claim, 'base64url').toString().replace('ada', 'bob');
    const forged = `${Buffer.from(bob).toString('base64url')}.${signature}`;
    for (const bad of [forged, `${claim}.`, claim, '', '.', `${claim}.${'A'.repeat(43)}`])
      expect(sessions.ownerOf(at(`${name}=${bad}`))).toBeUndefined();
    expect(sessions.ownerOf(at(`${name}=${value}`))).toBe('ada');
  });
});

test('the page is open, its data is not; with a cookie it is, also for a stream and a download', async () => {
  const agent = async function* () {
    yield { type: 'text.delta', id: 't', delta: 'done' } as const;
  };
  await using served = await serve(agent, {
    log: memoryLog(),
    auth: { apiKey: { header: 'x-my-key', keys: SECRETS } },
  });
  const ask = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(`${served.url}${path}`, init);
  expect((await ask('/')).status).not.toBe(401);
  expect(await (await ask('/api/session')).json()).toEqual({ wanted: true, header: 'x-my-key' });
  for (const path of ['/api/agents', '/api/tasks', '/metrics'])
    expect([path, (await ask(path)).status]).toEqual([path, 401]);
  expect((await ask('/api/session', { method: 'POST' })).status).toBe(401);

  const signIn = await ask('/api/session', { method: 'POST', headers: { 'x-my-key': 'alpha' } });
  const headers = { cookie: valueOf(signIn.headers.get('set-cookie') ?? '') };
  expect(await (await ask('/api/session', { headers })).json()).toMatchObject({ owner: 'ada' });
  const begun = await ask('/api/agents/agent/turns', {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: '{"text":"hi"}',
  });
  const { task } = (await begun.json()) as { task: string };
  const stream = await ask(`/api/tasks/${task}/entries`, { headers });
  expect(await stream.text()).toContain('"run.finished"');
  expect((await ask(`/api/tasks/${task}`, { headers: { 'x-my-key': 'beta' } })).status).toBe(404);

  const foreign = { ...headers, origin: 'https://evil.example' };
  expect((await ask('/api/tasks', { headers: foreign })).status).toBe(403);
  const out = await ask('/api/session', { method: 'DELETE', headers });
  expect(out.headers.get('set-cookie')).toContain('Max-Age=0');
});
