import { createHmac, scryptSync } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { Agent } from '../../event/types.ts';
import { memoryLog } from '../../task/memory/memory-log.ts';
import { memoryRevocations } from './session-revocations.ts';
import { serve } from '../serve.ts';
import { createSessions } from './login-session.ts';
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
  test('identifies its owner on every replica with the same secrets, until it expires', async () => {
    let now = 1_000_000;
    const open = (auth: Auth): ReturnType<typeof createSessions> =>
      createSessions(auth, { now: () => now });
    const cookie = await issued(open({ bearer: SECRETS }), 'ada');
    expect(cookie).toMatch(/; HttpOnly; SameSite=Strict$/);
    const ask = at(`other=1; ${valueOf(cookie)}`);
    expect(await open({ bearer: SECRETS }).ownerOf(ask)).toBe('ada');
    expect(await open({ bearer: { ...SECRETS, bob: 'changed' } }).ownerOf(ask)).toBeUndefined();
    now += 12 * 60 * 60 * 1000;
    expect(await open({ bearer: SECRETS }).ownerOf(ask)).toBeUndefined();
  });

  test('never outlives the token of the sign-in', async () => {
    const claims = Buffer.from(JSON.stringify({ exp: 1_060 })).toString('base64url');
    const sessions = createSessions({ verify: async () => 'ada' }, { now: () => 1_000_000 });
    expect(await issued(sessions, 'ada', `e30.${claims}.sig`)).toContain('Max-Age=60;');
  });

  test('is invalid after its cookie was changed', async () => {
    const sessions = createSessions({ bearer: SECRETS });
    const [name, value = ''] = valueOf(await issued(sessions, 'ada')).split('=');
    const [claim = '', signature = ''] = value.split('.');
    const bob = Buffer.from(claim, 'base64url').toString().replace('ada', 'bob');
    const forged = `${Buffer.from(bob).toString('base64url')}.${signature}`;
    for (const bad of [forged, `${claim}.`, claim, '', '.', `${claim}.${'A'.repeat(43)}`])
      expect(await sessions.ownerOf(at(`${name}=${bad}`))).toBeUndefined();
    expect(await sessions.ownerOf(at(`${name}=${value}`))).toBe('ada');
  });

  test('cannot be signed by the holder of a secret in the name of another owner', async () => {
    const bearer = { prometheus: 'scrape' };
    // What the holder of the only secret knows is enough to make the key that comes from secrets alone.
    const key = scryptSync(JSON.stringify([bearer, null, null]), 'duolane session 2', 32);
    const forge = (owner: string): Request => {
      const claim = { owner, since: Date.now(), until: Date.now() + 60_000, id: 'x' };
      const text = Buffer.from(JSON.stringify(claim)).toString('base64url');
      const signature = createHmac('sha256', key).update(text).digest('base64url');
      return at(`duolane-session=${text}.${signature}`);
    };
    const jwt = { issuer: 'https://issuer.example.com', audience: 'api' };
    const verify = async () => undefined;
    for (const auth of [{ bearer }, { bearer, jwt }, { bearer, verify }])
      for (const options of [{}, { key: 'of the operator' }]) {
        const sessions = createSessions(auth, options);
        expect(await sessions.ownerOf(forge('ada'))).toBeUndefined();
        const own = valueOf(await issued(sessions, 'prometheus'));
        expect(await sessions.ownerOf(at(own))).toBe('prometheus');
      }
  });
});

test('a full list of revocations ends every older session, so that no revoked one is valid', async () => {
  let now = 0;
  const revocations = memoryRevocations(() => now, 2);
  await revocations.revoke('a', 10);
  await revocations.revoke('b', 1_000);
  now = 20; // the session of "a" has expired, so its entry makes room
  await revocations.revoke('c', 1_000);
  expect([revocations.isRevoked('b', 1), revocations.isRevoked('d', 1)]).toEqual([true, false]);
  await revocations.revoke('e', 1_000);
  for (const id of ['b', 'c', 'd', 'e']) expect(revocations.isRevoked(id, 20)).toBe(true);
  expect(revocations.isRevoked('f', 21)).toBe(false);
});

describe('the cookie of a server', () => {
  const agent = async function* () {};
  const signIn = async (url: string, headers: Record<string, string>): Promise<Response> =>
    fetch(`${url}/api/session`, { method: 'POST', headers });
  const secret = { authorization: 'Bearer alpha' };
  const tasks = async (url: string, headers: Record<string, string>): Promise<number> =>
    (await fetch(`${url}/api/tasks`, { headers })).status;
  const cookieOf = (response: Response): string => response.headers.get('set-cookie') ?? '';

  test('does not renew itself', async () => {
    await using served = await serve(agent, { log: memoryLog(), auth: { bearer: SECRETS } });
    const headers = { cookie: valueOf(cookieOf(await signIn(served.url, secret))) };
    expect(await tasks(served.url, headers)).toBe(200);
    const again = await signIn(served.url, headers);
    expect([again.status, cookieOf(again)]).toEqual([401, '']);
  });

  test('is invalid after the sign-out, and so is a copy of it', async () => {
    await using served = await serve(agent, { log: memoryLog(), auth: { bearer: SECRETS } });
    const headers = { cookie: valueOf(cookieOf(await signIn(served.url, secret))) };
    const other = { cookie: valueOf(cookieOf(await signIn(served.url, secret))) };
    await fetch(`${served.url}/api/session`, { method: 'DELETE', headers });
    expect(await tasks(served.url, headers)).toBe(401);
    expect(await tasks(served.url, other)).toBe(200);
  });

  test('is limited to https and this host if callers use https', async () => {
    await using served = await serve(agent, {
      log: memoryLog(),
      auth: { bearer: SECRETS },
      publicUrl: 'https://agents.example.com',
    });
    const cookie = cookieOf(await signIn(served.url, secret));
    expect(cookie).toMatch(/^__Host-duolane-session=[^;]+; Path=\/; .*; Secure$/);
    expect(await tasks(served.url, { cookie: valueOf(cookie) })).toBe(200);
    const renamed = valueOf(cookie).replace('__Host-', '');
    expect(await tasks(served.url, { cookie: renamed })).toBe(401);
  });

  test('has a short life with several replicas, unless they share revocations', async () => {
    const log = Object.assign(memoryLog(), { replicas: async () => [] });
    const auth = { bearer: SECRETS };
    await using short = await serve(agent, { log, auth });
    expect(cookieOf(await signIn(short.url, secret))).toContain('Max-Age=3600;');
    const shared = new Set<string>();
    const revocations = {
      revoke: async (id: string) => void shared.add(id),
      isRevoked: async (id: string) => shared.has(id),
    };
    const session = { revocations, lifeMs: 7_200_000 };
    await using first = await serve(agent, { log, auth, session });
    await using second = await serve(agent, { log, auth, session });
    const cookie = cookieOf(await signIn(first.url, secret));
    expect(cookie).toContain('Max-Age=7200;');
    const headers = { cookie: valueOf(cookie) };
    expect(await tasks(second.url, headers)).toBe(200);
    await fetch(`${first.url}/api/session`, { method: 'DELETE', headers });
    expect(await tasks(second.url, headers)).toBe(401);
  });

  test('is refused while revocations cannot be read', async () => {
    const isRevoked = async (): Promise<never> => {
      throw new Error('redis://10.0.0.7 is down');
    };
    const session = { revocations: { revoke() {}, isRevoked } };
    const logger = { debug() {}, info() {}, warn() {}, error() {} };
    const auth = { bearer: SECRETS };
    await using served = await serve(agent, { log: memoryLog(), auth, session, logger });
    const headers = { cookie: valueOf(cookieOf(await signIn(served.url, secret))) };
    expect(await tasks(served.url, headers)).toBe(500);
  });

  test('expires with the token of the sign-in', async () => {
    const claims = Buffer.from(JSON.stringify({ exp: 999 })).toString('base64url');
    const sessions = createSessions({ verify: async () => 'ada' }, { now: () => 1_000_000 });
    expect(await issued(sessions, 'ada', `e30.${claims}.sig`)).toBe('');
    const lifeMs = 10;
    await expect(serve(agent, { log: memoryLog(), session: { lifeMs } })).rejects.toMatchObject({
      code: 'invalid',
    });
  });
});

test('the page needs no credentials, its data needs a cookie, also for a stream and a download', async () => {
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

const talks: Agent = async function* (_turn, { signal }) {
  yield { type: 'text.delta', id: 't', delta: 'first' };
  await new Promise((resolve) => signal.addEventListener('abort', resolve));
};

test('a sign-out ends the streams of its session, and no others', async () => {
  const auth = { bearer: SECRETS };
  await using served = await serve(talks, { log: memoryLog(), graceMs: 10, auth, audit: false });
  const secret = { authorization: 'Bearer alpha' };
  const session = `${served.url}/api/session`;
  const signIn = async (): Promise<{ cookie: string }> => {
    const { headers } = await fetch(session, { method: 'POST', headers: secret });
    return { cookie: valueOf(headers.get('set-cookie') ?? '') };
  };
  const [one, other] = [await signIn(), await signIn()];
  const begun = await fetch(`${served.url}/api/agents/agent/turns`, {
    method: 'POST',
    headers: { ...one, 'content-type': 'application/json' },
    body: '{"text":"go"}',
  });
  const { task } = (await begun.json()) as { task: string };
  const entries = `${served.url}/api/tasks/${task}/entries`;
  const open = async (headers: Record<string, string>) => {
    const { body } = await fetch(entries, { headers });
    const reader = body!.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ''; !text.includes('first');) text += (await reader.read()).value;
    let isOver = false;
    const end = (async () => {
      while (!(await reader.read()).done);
      isOver = true;
    })();
    return { end, isOver: () => isOver };
  };
  const streams = [await open(one), await open(other), await open(secret)] as const;
  await fetch(session, { method: 'DELETE', headers: one });
  await streams[0].end;
  expect((await fetch(entries, { headers: one })).status).toBe(401);
  expect(streams.map(({ isOver }) => isOver())).toEqual([true, false, false]);
  await served.log.requestCancel(task);
  await Promise.all(streams.map(({ end }) => end));
});
