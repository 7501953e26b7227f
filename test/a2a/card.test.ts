import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { connectA2A, verifyCard, type A2AStreamEvent } from '../../src/a2a/index.ts';
import type { Agent } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { serve } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/index.ts';
import { mountAgent } from './support.ts';

const URL_OF_AGENT = 'http://127.0.0.1/agent';
const CARD = `${URL_OF_AGENT}/.well-known/agent-card.json`;
const KEYS = {
  ES256: generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  EdDSA: generateKeyPairSync('ed25519'),
};

describe.each(Object.entries(KEYS))('a card signed with %s', (_alg, { privateKey, publicKey }) => {
  const mount = (): ReturnType<typeof mountAgent> =>
    mountAgent(URL_OF_AGENT, undefined, { cardKey: { key: privateKey, kid: 'k' } });

  test.each(['1.0', '0.3', undefined])('is the same for each request (%s)', async (of) => {
    await using mounted = mount();
    const ask = (headers: Record<string, string> = {}): Promise<Response> =>
      mounted.handle(
        new Request(CARD, {
          headers: { ...(of !== undefined && { 'a2a-version': of }), ...headers },
        }),
      );
    const first = await ask();
    const etag = first.headers.get('etag') ?? '';
    expect(first.headers.get('vary')).toBe('A2A-Version');
    expect(await (await ask()).text()).toBe(await first.text());
    for (const known of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
      const again = await ask({ 'if-none-match': known });
      expect([known, again.status, await again.text()]).toEqual([known, 304, '']);
      expect(again.headers.get('etag')).toBe(etag);
    }
    expect((await ask({ 'if-none-match': '"other"' })).status).toBe(200);
  });

  test('is valid unchanged, and invalid after any change', async () => {
    await using mounted = mount();
    const headers = { 'a2a-version': '1.0' };
    const card = (await (
      await mounted.handle(new Request(CARD, { headers }))
    ).json()) as JsonObject;
    expect(await verifyCard(card, () => publicKey)).toBe('k');
    const { signatures, ...members } = card;
    for (const forged of changesOf(members))
      await expect(
        verifyCard({ ...(forged as JsonObject), signatures }, () => publicKey),
      ).rejects.toMatchObject({ code: 'unauthorized' });
  });
});

test('a 1.0 caller gets an extended card with the members of 1.0 only', async () => {
  await using mounted = mountAgent(URL_OF_AGENT, undefined, {
    extendedCard: () => ({ description: 'more' }),
  });
  const ask = async (path: string): Promise<unknown> =>
    (await mounted.handle(new Request(`${URL_OF_AGENT}${path}`))).json();
  const pure = await ask('/extendedAgentCard');
  expect(pure).toMatchObject({ description: 'more', supportedInterfaces: expect.any(Array) });
  for (const old of ['url', 'protocolVersion', 'preferredTransport', 'additionalInterfaces'])
    expect(pure).not.toHaveProperty(old);
  expect(await ask('/v1/card')).toMatchObject({ description: 'more', protocolVersion: '0.3.0' });
});

/** The value with each of its words, numbers and yes-or-nos changed, one at a time. */
function changesOf(value: unknown): unknown[] {
  if (typeof value === 'string') return [`${value}x`];
  if (typeof value === 'boolean') return [!value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) =>
    changesOf(member).map((changed) =>
      Array.isArray(value) ? value.with(Number(name), changed) : { ...value, [name]: changed },
    ),
  );
}

test('the card is also at the path of A2A 0.2, and at the root without an agent name', async () => {
  await using served = await serve(
    async function* () {
      yield { type: 'text.delta', id: 't', delta: 'hi' };
    },
    { log: memoryLog(), page: false, auth: { bearer: { ada: 'secret' } } },
  );
  const paths = ['agent-card.json', 'agent.json'].flatMap((name) =>
    ['', '/a2a', '/a2a/agent'].map((base) => `${base}/.well-known/${name}`),
  );
  for (const path of paths) {
    const response = await fetch(`${served.url}${path}`);
    expect([path, response.status]).toEqual([path, 200]);
    expect(await response.json()).toMatchObject({ url: `${served.url}/a2a/agent` });
  }
  const headers = { authorization: 'Bearer secret' };
  await using client = await connectA2A(`${served.url}/a2a`, { headers });
  expect(await client.send('hello')).toMatchObject({ status: { state: 'TASK_STATE_COMPLETED' } });
});

test('the text of a run is in its artifact, and in the last status only if text.pattern is set', async () => {
  const agent: Agent = async function* () {
    yield { type: 'text.delta', id: 't', delta: 'You said: ' };
    yield { type: 'text.delta', id: 't', delta: 'hello' };
  };
  for (const pattern of [undefined, 'artifact', 'status'] as const) {
    const a2a = pattern ? { text: { pattern } } : {};
    await using served = await serve(agent, { log: memoryLog(), page: false, a2a });
    const client = await connectA2A(served.url);
    const stream = client.stream('hello');
    const events: A2AStreamEvent[] = [];
    for await (const event of stream) events.push(event);
    const updates = events.flatMap((each) => ('artifactUpdate' in each ? each.artifactUpdate : []));
    expect(updates.at(-1)?.lastChunk).toBe(true);
    expect(stream.text).toBe('You said: hello');
    const read = await client.get(stream.taskId!);
    const repeated = pattern === undefined ? undefined : [{ text: 'You said: hello' }];
    expect(stream.status?.message?.parts).toEqual(repeated);
    expect(read.status.message?.parts).toEqual(repeated);
    // The history has both sides all the same.
    expect(read.history?.at(-1)).toMatchObject({
      role: 'ROLE_AGENT',
      parts: [{ text: 'You said: hello' }],
    });
  }
});
