import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { connectA2A, type A2ATask } from '../../src/a2a/index.ts';
import type { Agent } from '../../src/event/types.ts';
import { serve } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/index.ts';
import { all, httpServer, WAYS } from './support.ts';

const EXTENSION = 'https://example.com/ext/v1';

const hello: Agent = async function* (_turn, ctx) {
  yield { type: 'text.delta', id: 't', delta: 'hello' };
  if (ctx.task.turns[0]?.metadata?.['wait'] === true) await once(ctx.signal, 'abort');
};

describe.each(WAYS)('our client, $version over $binding', (way) => {
  test(`creates, reads and deletes push configs (${way.version} ${way.binding})`, async () => {
    const bodies: string[] = [];
    await using receiver = await httpServer(({ headers, url }, response, body) => {
      bodies.push(`${url} ${String(headers['x-a2a-notification-token'])} ${body}`);
      response.end();
    });
    await using served = await serve(hello, {
      log: memoryLog(),
      page: false,
      grpc: {},
      graceMs: 50,
      a2a: { push: { allowPrivateAddresses: true } },
    });
    await using client = await connectA2A(served.url, way);
    const first = { id: 'first', url: `${receiver.url}/first`, token: 'secret' };
    const { id: task } = (await client.send('hi', {
      returnImmediately: true,
      metadata: { wait: true },
      push: first,
    })) as A2ATask;
    const authentication = { scheme: 'Bearer', credentials: 'abc' };
    const second = { id: 'second', url: `${receiver.url}/second`, authentication };
    const made = await client.createPushConfig(task, second);
    expect(made).toEqual({ ...second, taskId: task });
    expect(await client.getPushConfig(task, 'first')).toEqual({ ...first, taskId: task });
    expect(await client.listPushConfigs(task)).toEqual([{ ...first, taskId: task }, made]);
    await client.deletePushConfig(task, 'second');
    expect(await client.listPushConfigs(task)).toEqual([{ ...first, taskId: task }]);
    await expect(client.getPushConfig(task, 'second')).rejects.toMatchObject({ code: 'not_found' });
    await expect(client.listPushConfigs('nobody')).rejects.toMatchObject({ code: 'not_found' });
    await client.cancel(task);
    await expect.poll(() => bodies.join('\n')).toMatch(/^\/first secret .*cancel/im);
    expect(bodies.join('\n')).not.toContain('/second');
  });

  test(`lists tasks page by page (${way.version} ${way.binding})`, async () => {
    await using served = await serve(hello, { log: memoryLog(), page: false, grpc: {} });
    await using client = await connectA2A(served.url, way);
    const listed = client.list({ pageSize: 2, status: 'TASK_STATE_COMPLETED' });
    if (way.version === '0.3' && way.binding !== 'HTTP+JSON') {
      await expect(listed).rejects.toMatchObject({ code: 'unsupported' });
      return;
    }
    expect(await listed).toMatchObject({ tasks: [], totalSize: 0 });
    for (const text of ['a', 'b', 'c']) await client.send(text, { contextId: 'here' });
    await client.send('elsewhere');
    const page = await client.list({ pageSize: 2, contextId: 'here', includeArtifacts: true });
    expect(page).toMatchObject({ pageSize: 2, totalSize: 3 });
    expect(page.tasks.map((task) => task.artifacts?.length)).toEqual([1, 1]);
    const rest = await client.list({ contextId: 'here', pageToken: page.nextPageToken });
    expect(rest.tasks).toHaveLength(1);
    expect(rest.nextPageToken).toBe('');
  });

  test(`reads the extended card, or gets an error (${way.version} ${way.binding})`, async () => {
    await using plain = await serve(hello, { log: memoryLog(), page: false, grpc: {} });
    await using poor = await connectA2A(plain.url, way);
    await expect(poor.extendedCard()).rejects.toMatchObject({ code: 'unsupported' });
    await using served = await serve(hello, {
      log: memoryLog(),
      page: false,
      grpc: {},
      auth: { bearer: { ada: 'token' } },
      a2a: { extendedCard: ({ owner }) => ({ description: `For ${owner}.` }) },
    });
    const headers = { authorization: 'Bearer token' };
    await using client = await connectA2A(served.url, { ...way, headers });
    expect(client.card['description']).not.toBe('For ada.');
    expect(await client.extendedCard()).toMatchObject({ name: 'agent', description: 'For ada.' });
  });

  test(`reads a reply message without a task (${way.version} ${way.binding})`, async () => {
    await using served = await serve(hello, {
      log: memoryLog(),
      page: false,
      grpc: {},
      a2a: { reply: async () => [{ text: 'pong' }, { data: { at: [1, null, true] } }] },
    });
    await using client = await connectA2A(served.url, way);
    const parts = [{ text: 'pong' }, { data: { at: [1, null, true] } }];
    expect(await client.send('ping')).toMatchObject({ role: 'ROLE_AGENT', parts });
    const stream = client.stream('ping');
    expect(await stream.result()).toMatchObject({ role: 'ROLE_AGENT', parts });
    expect([stream.text, stream.taskId, stream.problems]).toEqual(['pong', undefined, []]);
  });

  test(`gets an error for a reply without parts (${way.version} ${way.binding})`, async () => {
    const errors: unknown[] = [];
    await using served = await serve(hello, {
      log: memoryLog(),
      page: false,
      grpc: {},
      a2a: { reply: async () => [], onError: (error) => errors.push(error) },
    });
    await using client = await connectA2A(served.url, way);
    const refusal = {
      code: 'malformed',
      reason: 'INVALID_AGENT_RESPONSE',
      message: expect.stringMatching(
        /`reply` must return at least one part, or undefined/,
      ) as string,
    };
    await expect(client.send('ping')).rejects.toMatchObject(refusal);
    await expect(client.stream('ping').result()).rejects.toMatchObject(refusal);
    expect(errors).toMatchObject([refusal, refusal]);
    expect(await all(served.log.list({}))).toEqual([]);
  });

  test(`sends the extensions that it supports (${way.version} ${way.binding})`, async () => {
    await using served = await serve(hello, {
      log: memoryLog(),
      page: false,
      grpc: {},
      card: { extensions: [{ uri: EXTENSION, required: true }] },
    });
    await using without = await connectA2A(served.url, way);
    await expect(without.send('hi')).rejects.toMatchObject({ code: 'unsupported' });
    await using client = await connectA2A(served.url, { ...way, extensions: [EXTENSION] });
    expect(await client.send('hi')).toMatchObject({ status: { state: 'TASK_STATE_COMPLETED' } });
  });
});
