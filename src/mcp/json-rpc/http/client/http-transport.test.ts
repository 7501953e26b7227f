import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../../json.ts';
import {
  answer,
  event,
  events,
  type Heard,
  INITIALIZED,
  json,
  scriptedHttp,
} from '../../../../../test/support/mcp/scripted-http.ts';
import { call, toArray } from '../../../../../test/contracts/tool-source.contract.ts';
import { verifies } from '../../../../../test/verifies.ts';
import { dialHttp } from './dial-http.ts';

const TOOLS = { tools: [{ name: 'a', inputSchema: { type: 'object' } }] };
const RESULT = { content: [{ type: 'text', text: 'done' }] };
const progress = (heard: Heard, done: number): JsonObject => {
  const { _meta } = heard.message['params'] as { _meta: JsonObject };
  return {
    jsonrpc: '2.0',
    method: 'notifications/progress',
    params: { progressToken: _meta['progressToken'], progress: done },
  };
};

describe('a session over HTTP', () => {
  verifies(
    'S232',
    'opens its stream before it sends initialized, and ends with DELETE',
    async () => {
      await using server = await scriptedHttp((heard, name) => {
        if (name === 'GET') return events([], heard.signal);
        if (name === 'tools/list') return json(answer(heard, TOOLS));
        return undefined;
      });
      const source = await dialHttp({
        url: server.url,
        protocol: 'session',
        headers: { authorization: 'Bearer x' },
      });
      expect(await toArray(source.listTools())).toEqual(TOOLS.tools);
      await source[Symbol.asyncDispose]();
      expect(server.names).toEqual([
        'initialize',
        'GET',
        'notifications/initialized',
        'tools/list',
        'DELETE',
      ]);
      for (const { headers } of server.heard) expect(headers.get('authorization')).toBe('Bearer x');
      for (const { headers } of server.heard.slice(1)) {
        expect(headers.get('mcp-session-id')).toBe('session-1');
        expect(headers.get('mcp-protocol-version')).toBe('2025-11-25');
      }
    },
  );

  test('receives the messages that the server sends at its start', async () => {
    let say = (): void => {};
    const initialized = new Promise<void>((resolve) => (say = resolve));
    await using server = await scriptedHttp((heard, name) => {
      if (name === 'notifications/initialized') say();
      if (name !== 'GET') return undefined;
      const changed = event({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
      return new Response(
        new ReadableStream({
          async pull(controller) {
            await initialized;
            controller.enqueue(new TextEncoder().encode(changed));
            await new Promise((left) => heard.signal.addEventListener('abort', left));
          },
        }),
        { headers: { 'content-type': 'text/event-stream' } },
      );
    });
    await using source = await dialHttp({ url: server.url, protocol: 'session' });
    const seen: string[] = [];
    for await (const { type } of source.listen!()) if (seen.push(type) === 2) break;
    expect(seen).toEqual(['listening', 'tools']);
  });

  test('resumes a response whose stream broke after the last event', async () => {
    await using server = await scriptedHttp((heard, name) => {
      if (name === 'tools/call')
        return events(['retry: 1\nid: e1\n', event(progress(heard, 1)), 'id: e2\ndata:\n\n']);
      if (name === 'GET' && heard.headers.get('last-event-id') === 'e2') {
        const first = server.heard.find(({ message }) => message['method'] === 'tools/call')!;
        return events([event(progress(first, 2)), event(answer(first, RESULT))]);
      }
      return undefined;
    });
    await using source = await dialHttp({ url: server.url, protocol: 'session' });
    expect(await toArray(source.callTool(call('a')))).toEqual([
      { type: 'progress', progress: 1 },
      { type: 'progress', progress: 2 },
      { type: 'result', result: RESULT },
    ]);
  });

  test('reports a lost response, and keeps the progress before it', async () => {
    await using server = await scriptedHttp((heard, name) =>
      name === 'tools/call' ? events([event(progress(heard, 1))]) : undefined,
    );
    await using source = await dialHttp({ url: server.url, protocol: 'session' });
    const seen: unknown[] = [];
    const run = (async () => {
      for await (const one of source.callTool(call('a'))) seen.push(one);
    })();
    await expect(run).rejects.toMatchObject({ code: 'response_lost' });
    expect(seen).toEqual([{ type: 'progress', progress: 1 }]);
  });

  test('is opened again if the server has lost it; only safe requests are repeated', async () => {
    let sessions = 0;
    await using server = await scriptedHttp((heard, name) => {
      if (name === 'initialize')
        return json(answer(heard, INITIALIZED), { 'mcp-session-id': `session-${(sessions += 1)}` });
      if (heard.method === 'POST' && heard.headers.get('mcp-session-id') !== `session-${sessions}`)
        return new Response('no such session', { status: 404 });
      if (name === 'tools/list') return json(answer(heard, TOOLS));
      if (name === 'tools/call') return json(answer(heard, RESULT));
      return undefined;
    });
    await using source = await dialHttp({ url: server.url, protocol: 'session' });
    const changes = source.listen!()[Symbol.asyncIterator]();
    await changes.next();

    sessions += 1; // as if it had restarted
    const both = [toArray(source.listTools()), toArray(source.listTools())];
    expect(await Promise.all(both)).toEqual([TOOLS.tools, TOOLS.tools]);
    expect((await changes.next()).value).toEqual({ type: 'tools' });
    expect(server.names.filter((name) => name === 'initialize')).toHaveLength(2);

    sessions += 1;
    await expect(toArray(source.callTool(call('a')))).rejects.toMatchObject({
      code: 'interrupted',
      retryable: true,
    });
    expect(server.names.filter((name) => name === 'tools/call')).toHaveLength(1);
    expect(await toArray(source.callTool(call('a')))).toEqual([{ type: 'result', result: RESULT }]);
  });

  test('subscribes the same resources when it is opened again', async () => {
    let forgotten = true;
    const capabilities = { tools: {}, resources: { subscribe: true } };
    await using server = await scriptedHttp((heard, name) => {
      if (name === 'initialize')
        return json(answer(heard, { ...INITIALIZED, capabilities }), { 'mcp-session-id': 's' });
      if (name !== 'tools/list' || !forgotten) return undefined;
      forgotten = false;
      return new Response(null, { status: 404 });
    });
    await using source = await dialHttp({ url: server.url, protocol: 'session' });
    const seen: unknown[] = [];
    for await (const change of source.listen!({ resources: ['a://1'] })) {
      seen.push(change);
      if (change.type === 'listening') await toArray(source.listTools()).catch(() => {});
      if (change.type === 'resource') break;
    }
    expect(seen).toContainEqual({ type: 'resource', uri: 'a://1' });
    expect(server.names.filter((name) => name === 'resources/subscribe')).toHaveLength(2);
  });

  test('counts a break of its message stream as a change', async () => {
    let streams = 0;
    await using server = await scriptedHttp((heard, name) => {
      if (name !== 'GET') return undefined;
      streams += 1;
      return streams === 1
        ? events(['retry: 1\nid: 7\ndata:\n\n'], listens.signal)
        : events([], heard.signal);
    });
    const listens = new AbortController();
    await using source = await dialHttp({ url: server.url, protocol: 'session' });
    const seen: string[] = [];
    for await (const { type } of source.listen!()) {
      listens.abort();
      if (seen.push(type) === 2) break;
    }
    expect(seen).toEqual(['listening', 'tools']);
    expect(server.heard.at(-1)?.headers.get('last-event-id')).toBe('7');
  });

  test('an aborted call closes its stream and sends a cancel', async () => {
    let left = (): void => {};
    const closed = new Promise<void>((resolve) => (left = resolve));
    await using server = await scriptedHttp((heard, name) => {
      if (name !== 'tools/call') return undefined;
      heard.signal.addEventListener('abort', left);
      return events([event(progress(heard, 1))], heard.signal);
    });
    await using source = await dialHttp({ url: server.url, protocol: 'session' });
    for await (const one of source.callTool(call('a'))) {
      expect(one).toEqual({ type: 'progress', progress: 1 });
      break;
    }
    await closed;
    expect(server.heard.at(-1)?.message).toMatchObject({ method: 'notifications/cancelled' });
  });
});

describe('an error response', () => {
  for (const [status, headers, expected] of [
    [401, {}, { code: 'unauthorized', status: 401 }],
    [403, {}, { code: 'unauthorized', status: 403 }],
    [404, {}, { code: 'not_found', status: 404 }],
    [429, { 'retry-after': '7' }, { code: 'rate_limited', status: 429, retryAfterMs: 7_000 }],
    [500, {}, { code: 'server', status: 500 }],
    [503, {}, { code: 'overloaded', status: 503 }],
  ] as const)
    test(`with HTTP ${status} has its code`, async () => {
      await using server = await scriptedHttp(
        () => new Response('why not', { status, headers: { ...headers } }),
      );
      await expect(dialHttp({ url: server.url })).rejects.toMatchObject(expected);
    });

  test('with a JSON-RPC error keeps it', async () => {
    await using server = await scriptedHttp((heard, name) =>
      name === 'tools/call'
        ? Response.json(
            { jsonrpc: '2.0', id: heard.message['id'], error: { code: -32602, message: 'bad' } },
            { status: 400 },
          )
        : undefined,
    );
    await using source = await dialHttp({ url: server.url, protocol: 'session' });
    await expect(toArray(source.callTool(call('a')))).rejects.toMatchObject({ code: 'invalid' });
  });

  test('of a failed connection is `network` and names the address', async () => {
    await expect(dialHttp({ url: 'http://127.0.0.1:9/mcp' })).rejects.toMatchObject({
      code: 'network',
      message: expect.stringContaining('http://127.0.0.1:9') as string,
    });
  });

  test('with HTML is reported as a wrong address', async () => {
    await using server = await scriptedHttp(
      () => new Response('<html>', { headers: { 'content-type': 'text/html' } }),
    );
    await expect(dialHttp({ url: server.url, protocol: 'session' })).rejects.toMatchObject({
      code: 'malformed',
      message: expect.stringContaining('expected JSON or an event stream') as string,
    });
  });

  for (const [what, body] of [
    ['half a message', 'data: {"jsonrpc":\n\n'],
    ['a list for a message', 'data: [1]\n\n'],
  ] as const)
    test(`with invalid JSON (${what}) is malformed and affects no other call`, async () => {
      await using server = await scriptedHttp((heard, name) => {
        if (name === 'tools/call') return events([body]);
        if (name === 'tools/list') return json(answer(heard, TOOLS));
        return undefined;
      });
      await using source = await dialHttp({ url: server.url, protocol: 'session' });
      const [bad, good] = await Promise.allSettled([
        toArray(source.callTool(call('a'))),
        toArray(source.listTools()),
      ]);
      expect(bad).toMatchObject({ status: 'rejected', reason: { code: 'malformed' } });
      expect(good).toMatchObject({ status: 'fulfilled' });
    });
});
