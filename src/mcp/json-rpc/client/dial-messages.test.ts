import { once } from 'node:events';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ourCatalogue } from '../../../../test/support/mcp/catalogue.ts';
import { messagePair, type Road } from '../../../../test/support/mcp/message-pair.ts';
import { call, toArray } from '../../../../test/contracts/tool-source.contract.ts';
import { verifies } from '../../../../test/verifies.ts';
import type { JsonObject } from '../../../json.ts';
import { rpcResult, type RpcId } from '../../../wire/json-rpc.ts';
import type { DialMessagesOptions, ToolEvent, ToolSource } from '../../types.ts';
import { McpClient } from './mcp-client.ts';
import { dialMessages } from './dial-messages.ts';
import { serveMessages } from '../server/serve-messages.ts';
import { clientSource } from './client-source.ts';

const HELLO = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: {}, resources: {}, prompts: {}, completions: {} },
  serverInfo: { name: 'scripted', version: '1' },
};

type Handler = (message: JsonObject, far: Road) => Promise<unknown> | void;

/** A peer that follows a script, one handler per method. */
function script(far: Road, handlers: Record<string, Handler>): void {
  void (async () => {
    for await (const message of far.incoming) {
      const method = message['method'];
      if (method === 'initialize') await far.send(rpcResult(message['id'] as RpcId, HELLO));
      else if (typeof method === 'string') void handlers[method]?.(message, far);
    }
  })();
}

const tokenOf = ({ params }: JsonObject): unknown =>
  ((params as JsonObject)['_meta'] as JsonObject)['progressToken'];

const progress = (message: JsonObject, n: number): JsonObject => ({
  jsonrpc: '2.0',
  method: 'notifications/progress',
  params: { progressToken: tokenOf(message), progress: n },
});

const result = (message: JsonObject, text: string): JsonObject =>
  rpcResult(message['id'] as RpcId, { content: [{ type: 'text', text }] });

async function open(
  handlers: Record<string, Handler>,
): Promise<{ source: ToolSource & AsyncDisposable; near: Road; far: Road }> {
  const [near, far] = messagePair();
  script(far, handlers);
  return { source: await dialMessages(near), near, far };
}

const methods = (road: Road): unknown[] => road.sent.map((message) => message['method']);

describe('dialling', () => {
  test('does the handshake, or skips it when its result is known', async () => {
    const { source, near } = await open({});
    expect(near.sent).toMatchObject([
      {
        id: 0,
        method: 'initialize',
        params: {
          protocolVersion: '2025-11-25',
          capabilities: {},
          clientInfo: { name: 'duolane' },
        },
      },
      { method: 'notifications/initialized' },
    ]);
    expect(source.info).toEqual({ name: 'scripted', version: '1' });
    await source[Symbol.asyncDispose]();
    const [quiet] = messagePair();
    const known = await dialMessages(quiet, { initializeResult: HELLO });
    expect(quiet.sent).toEqual([]);
    expect(known.info.name).toBe('scripted');
    await known[Symbol.asyncDispose]();
  });

  test('the former names of `protocol` and of its values are refused with the new ones', async () => {
    for (const [options, message] of [
      [{ protocol: 'legacy' }, 'unknown protocol "legacy"; did you mean "session"?'],
      [{ protocol: 'modern' }, 'unknown protocol "modern"; did you mean "stateless"?'],
      [{ era: 'modern' }, `unknown option "${'era'}"; did you mean "protocol"?`],
      [{ protocol: 'x' }, 'invalid protocol "x": expected "auto", "session" or "stateless"'],
    ] satisfies [object, string][]) {
      const [near] = messagePair();
      const dialled = dialMessages(near, options as object as DialMessagesOptions);
      await expect(dialled).rejects.toMatchObject({ code: 'invalid', message });
      expect(near.sent).toEqual([]);
    }
  });

  test('a server of an unknown protocol, or one that disconnects, is refused and closed', async () => {
    const [near, far] = messagePair();
    void (async () => {
      for await (const { id } of far.incoming)
        await far.send(rpcResult(id as RpcId, { ...HELLO, protocolVersion: '1999-01-01' }));
    })();
    await expect(dialMessages(near)).rejects.toMatchObject({ code: 'unsupported' });
    await expect(near.send({})).rejects.toMatchObject({ code: 'closed' });
    const [mute, gone] = messagePair();
    await gone.close();
    await expect(dialMessages(mute)).rejects.toMatchObject({ code: expect.any(String) as string });
  });

  test('a signal ends a handshake without a response', async () => {
    const [near] = messagePair();
    const stop = new AbortController();
    const dialled = dialMessages(near, { signal: stop.signal });
    dialled.catch(() => {});
    stop.abort(new Error('enough'));
    await expect(dialled).rejects.toThrow('enough');
  });

  test('unknown members of tools and results are kept, unknown kinds of content too', async () => {
    const odd = {
      name: 't',
      inputSchema: { type: 'object' },
      icons: [{ src: 'x', extra: 1 }],
      new: { a: [1] },
    };
    const strange = { content: [{ type: 'hologram', beams: 3 }], future: true };
    const { source } = await open({
      'tools/list': (message, far) => far.send(rpcResult(message['id'] as RpcId, { tools: [odd] })),
      'tools/call': (message, far) => far.send(rpcResult(message['id'] as RpcId, strange)),
    });
    await using dialled = source;
    expect(await toArray(dialled.listTools())).toEqual([odd]);
    expect(await toArray(dialled.callTool(call('t')))).toEqual([
      { type: 'result', result: strange },
    ]);
  });

  test('errors keep code, message and data through a second server', async () => {
    const error = { code: -32042, message: 'quota', data: { left: 0 } };
    const { source } = await open({
      'tools/call': ({ id }, far) => far.send({ jsonrpc: '2.0', id, error }),
    });
    const [near, far] = messagePair();
    await using serving = serveMessages(source, far);
    await near.send({ jsonrpc: '2.0', id: 'q', method: 'tools/call', params: { name: 't' } });
    for await (const message of near.incoming) {
      expect(message).toEqual({ jsonrpc: '2.0', id: 'q', error });
      break;
    }
    await serving[Symbol.asyncDispose]();
    await source[Symbol.asyncDispose]();
  });

  test('resources, prompts and completion are passed on', async () => {
    const echo: Handler = ({ id, method, params }, far) =>
      far.send(rpcResult(id as RpcId, { contents: [{ method }], method, params }));
    const { source } = await open({
      'resources/read': echo,
      'prompts/get': echo,
      'completion/complete': echo,
    });
    await using dialled = source;
    expect(await toArray(dialled.readResource!('file:///a'))).toEqual([
      { method: 'resources/read' },
    ]);
    expect(await dialled.getPrompt!('p', { x: 'y' })).toMatchObject({
      params: { name: 'p', arguments: { x: 'y' } },
    });
    expect(await dialled.complete!({ ref: 'r' })).toMatchObject({ params: { ref: 'r' } });
  });
});

describe('a call', () => {
  test('gets all its progress before its result under any interleaving, and none of other calls', async () => {
    const plan = fc.array(fc.nat(6), { minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(plan, fc.scheduler(), async (counts, scheduler) => {
        const { source, far } = await open({
          'tools/call': async (message) => {
            const index = Number((message['params'] as JsonObject)['name']);
            for (let n = 1; n <= counts[index]!; n += 1) {
              await scheduler.schedule(Promise.resolve());
              await far.send(progress(message, index * 100 + n));
            }
            await far.send(result(message, `${index}`));
            await far.send(progress(message, 999));
          },
        });
        const runs = counts.map((_, index) => toArray(source.callTool(call(`${index}`))));
        const all = await scheduler.waitFor(Promise.all(runs));
        for (const [index, events] of all.entries()) {
          expect(events.slice(0, -1)).toEqual(
            Array.from({ length: counts[index]! }, (_, n) => ({
              type: 'progress',
              progress: index * 100 + n + 1,
            })),
          );
          expect(events.at(-1)).toMatchObject({ result: { content: [{ text: `${index}` }] } });
        }
        await source[Symbol.asyncDispose]();
      }),
      { numRuns: 40 },
    );
  });

  test('a reader that is far behind gets the newest progress and always the result', async () => {
    const { source, far } = await open({
      'tools/call': async (message) => {
        for (let n = 1; n <= 1_000; n += 1) await far.send(progress(message, n));
        await far.send(result(message, 'end'));
      },
    });
    await using dialled = source;
    const events = dialled.callTool(call('t'))[Symbol.asyncIterator]();
    const seen: ToolEvent[] = [(await events.next()).value as ToolEvent];
    while (far.sent.length < 1_002) await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    for (let step = await events.next(); !step.done; step = await events.next())
      seen.push(step.value);
    expect(seen.length).toBeLessThan(300);
    expect(seen.at(-2)).toEqual({ type: 'progress', progress: 1_000 });
    expect(seen.at(-1)).toMatchObject({ type: 'result' });
  });

  test('sends one cancel for its own id when it is cancelled or aborted at any point, and leaves nothing', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ leaveAt: fc.nat(5), abort: fc.boolean() }), {
          minLength: 1,
          maxLength: 6,
        }),
        async (plan) => {
          const [near, far] = messagePair();
          script(far, {
            'tools/call': async (message) => {
              for (let n = 1; n <= 4; n += 1) await far.send(progress(message, n));
            },
          });
          const client = new McpClient(near, undefined);
          const source = clientSource(client, HELLO);
          const thrown: Array<[unknown, unknown]> = [];
          await Promise.all(
            plan.map(async ({ leaveAt, abort }) => {
              const stop = new AbortController();
              let seen = 0;
              if (leaveAt === 0) stop.abort(new Error('before'));
              try {
                for await (const _ of source.callTool(call('t'), { signal: stop.signal })) {
                  seen += 1;
                  if (seen < Math.min(leaveAt, 4)) continue;
                  if (!abort) break;
                  stop.abort(new Error('stop'));
                }
              } catch (error) {
                thrown.push([error, stop.signal.reason]);
              }
            }),
          );
          const called = near.sent.filter(({ method }) => method === 'tools/call');
          const cancelled = near.sent.filter(({ method }) => method === 'notifications/cancelled');
          expect(cancelled).toHaveLength(called.length);
          expect(
            new Set(cancelled.map(({ params }) => (params as JsonObject)['requestId'])),
          ).toEqual(new Set(called.map(({ id }) => id)));
          for (const [error, reason] of thrown) expect(error).toBe(reason);
          expect(client.open).toBe(0);
          await source[Symbol.asyncDispose]();
        },
      ),
      { numRuns: 40 },
    );
  });
});

describe('messages of the server', () => {
  test('a server that asks without end and reads no answer is disconnected', async () => {
    const { source, near, far } = await open({});
    const sent: unknown[] = [];
    const unread = new Promise<void>(() => {});
    Object.assign(near, { send: (message: JsonObject) => (sent.push(message), unread) });
    const call = toArray(source.callTool({ id: '1', name: 'x', args: {} }));
    for (let n = 0; n < 2_000; n += 1)
      void far.send({ jsonrpc: '2.0', id: `p${n}`, method: 'ping' }).catch(() => {});
    await expect(call).rejects.toMatchObject({ code: 'too_large' });
    expect(sent.length).toBeLessThan(1_000);
  });

  test('a server cannot ask thousands of questions in one response', async () => {
    const [near, far] = messagePair();
    const request = { method: 'sampling/createMessage', params: {} };
    script(far, {
      'tools/call': (message) =>
        far.send(
          rpcResult(message['id'] as RpcId, {
            resultType: 'input_required',
            inputRequests: Object.fromEntries(Array.from({ length: 101 }, (_, n) => [n, request])),
          }),
        ),
    });
    let asked = 0;
    await using source = await dialMessages(near, { onRequest: async () => ({ asked: ++asked }) });
    const call = toArray(source.callTool({ id: '1', name: 'x', args: {} }));
    await expect(call).rejects.toThrow('limit of 100 questions in one response');
    expect(asked).toBe(0);
  });

  test.each(['constructor', 'toString', '__proto__'])(
    'a method with the name of an object member is unknown: %s',
    async (method) => {
      const { source, near, far } = await open({});
      await using _ = source;
      const changes = source.listen!()[Symbol.asyncIterator]();
      expect((await changes.next()).value).toEqual({ type: 'listening' });
      const call = toArray(source.callTool({ id: '1', name: 'x', args: {} }));
      call.catch(() => {}); // it ends with the connection
      await far.send({ jsonrpc: '2.0', method });
      await far.send({ jsonrpc: '2.0', id: 'q', method });
      await far.send({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
      expect((await changes.next()).value).toEqual({ type: 'tools' });
      while (!near.sent.some(({ id }) => id === 'q'))
        await new Promise((resolve) => setImmediate(resolve));
      expect(near.sent.find(({ id }) => id === 'q')).toHaveProperty('error');
    },
  );

  test('an error of onRequest that the server does not see becomes a warning', async () => {
    const [near, far] = messagePair();
    script(far, {});
    const failure = new Error('secret');
    await using source = await dialMessages(near, {
      capabilities: { roots: {} },
      onRequest: async () => {
        throw failure;
      },
    });
    const warned = once(process, 'warning');
    await far.send({ jsonrpc: '2.0', id: 5, method: 'roots/list' });
    expect(await warned).toEqual([failure]);
    expect(source.info.name).toBe('scripted');
  });

  test('requests go to onRequest, pings are answered, the rest gets an error', async () => {
    const [near, far] = messagePair();
    script(far, {});
    const asked: unknown[] = [];
    await using source = await dialMessages(near, {
      capabilities: { elicitation: {} },
      onRequest: async (method, params) => {
        asked.push([method, params]);
        if (method === 'roots/list') throw new Error('secret');
        return { action: 'accept' };
      },
    });
    near.sent.length = 0;
    const ids = [0, '', 5, 'x'] as const;
    await far.send({ jsonrpc: '2.0', id: ids[0], method: 'ping' });
    await far.send({ jsonrpc: '2.0', id: ids[1], method: 'elicitation/create', params: { a: 1 } });
    await far.send({ jsonrpc: '2.0', id: ids[2], method: 'roots/list' });
    while (near.sent.length < 3) await new Promise((resolve) => setImmediate(resolve));
    expect(near.sent).toEqual(
      expect.arrayContaining([
        { jsonrpc: '2.0', id: 0, result: {} },
        { jsonrpc: '2.0', id: '', result: { action: 'accept' } },
        { jsonrpc: '2.0', id: 5, error: { code: -32603, message: 'internal error' } },
      ]),
    );
    expect(asked).toEqual([
      ['elicitation/create', { a: 1 }],
      ['roots/list', {}],
    ]);
    expect(source.info.name).toBe('scripted');
  });

  test('a request that the server cancels aborts onRequest and gets no response', async () => {
    const [near, far] = messagePair();
    script(far, {});
    let onAbort = (): void => {};
    const aborted = new Promise<void>((resolve) => (onAbort = resolve));
    await using source = await dialMessages(near, {
      onRequest: (_, __, { signal }) =>
        new Promise((___, reject) =>
          signal?.addEventListener('abort', () => {
            onAbort();
            reject(new Error('taken back'));
          }),
        ),
    });
    near.sent.length = 0;
    await far.send({ jsonrpc: '2.0', id: 0, method: 'elicitation/create' });
    await far.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 0 } });
    await aborted;
    await new Promise((resolve) => setImmediate(resolve));
    expect(near.sent).toEqual([]);
    expect(source.info.version).toBe('1');
  });

  test('a log line arrives with the only call that it can belong to', async () => {
    const { source } = await open({
      'tools/call': async (message, far) => {
        const params = { level: 'info', data: { a: 1 }, logger: 'db' };
        await far.send({ jsonrpc: '2.0', method: 'notifications/message', params });
        await far.send(result(message, 'x'));
      },
    });
    await using dialled = source;
    expect(await toArray(dialled.callTool(call('t')))).toMatchObject([
      { type: 'log', level: 'info', data: { a: 1 }, logger: 'db' },
      { type: 'result' },
    ]);
  });

  test('invalid messages affect no call', async () => {
    const { source } = await open({
      'tools/call': async (message, far) => {
        await far.send({ jsonrpc: '2.0', id: 999, result: {} });
        await far.send({ jsonrpc: '2.0', method: 'notifications/progress' });
        await far.send({ what: 'ever' });
        await far.send(result(message, 'still here'));
      },
    });
    await using dialled = source;
    expect(await toArray(dialled.callTool(call('t')))).toMatchObject([
      { result: { content: [{ text: 'still here' }] } },
    ]);
  });

  test('messages of any form end neither the connection nor a call', async () => {
    const json = fc.jsonValue({ maxDepth: 3 });
    const methods = [
      'notifications/progress',
      'notifications/cancelled',
      'notifications/message',
      'notifications/tools/list_changed',
      'notifications/resources/updated',
      'notifications/subscriptions/acknowledged',
      'ping',
    ];
    const members = {
      id: fc.oneof(fc.constantFrom('x', 'y'), fc.constant(null)),
      method: fc.oneof(fc.constantFrom(...methods), json),
      params: fc.oneof(json, fc.record({ progressToken: json, progress: json, uri: json })),
    };
    const junk = fc.record(members, { requiredKeys: [] });
    await fc.assert(
      fc.asyncProperty(fc.array(junk, { maxLength: 8 }), async (messages) => {
        const { source } = await open({
          'tools/call': async (message, road) => {
            for (const each of messages) await road.send(each as JsonObject);
            await road.send(result(message, 'fine'));
          },
        });
        await using _ = source;
        const events = await toArray(source.callTool(call('echo')));
        expect(events.at(-1)).toMatchObject({ result: { content: [{ text: 'fine' }] } });
      }),
      { numRuns: 200 },
    );
  });

  test('a response with neither result nor error is `malformed`', async () => {
    const { source } = await open({
      'tools/call': async (message, road) => road.send({ jsonrpc: '2.0', id: message['id'] }),
    });
    await using _ = source;
    await expect(toArray(source.callTool(call('echo')))).rejects.toMatchObject({
      code: 'malformed',
    });
  });

  test('a response without a result is `malformed`', async () => {
    const { source } = await open({
      'tools/call': ({ id }, far) => far.send({ jsonrpc: '2.0', id, result: 'text' }),
      'tools/list': ({ id }, far) => far.send({ jsonrpc: '2.0', id, error: 'text' }),
    });
    await using dialled = source;
    await expect(toArray(dialled.callTool(call('t')))).rejects.toMatchObject({ code: 'malformed' });
    await expect(toArray(dialled.listTools())).rejects.toMatchObject({ code: 'malformed' });
  });
});

describe('the end of the transport', () => {
  test('ends every call, list and listener with `peer_exited`, also later ones', async () => {
    const { source, far } = await open({
      'tools/list': (message) =>
        (message['params'] as JsonObject | undefined)
          ? undefined
          : far.send(
              rpcResult(message['id'] as RpcId, {
                tools: [{ name: 'first', inputSchema: {} }],
                nextCursor: '',
              }),
            ),
      'tools/call': (message) => far.send(progress(message, 1)),
    });
    const names: string[] = [];
    const runs = [
      toArray(source.callTool(call('t'))),
      toArray(source.callTool(call('t'))),
      (async () => {
        for await (const { name } of source.listTools()) names.push(name);
      })(),
      toArray(source.listen!()),
    ];
    while (far.sent.length < 4) await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    await far.close();
    for (const run of await Promise.allSettled(runs))
      expect(run).toMatchObject({ status: 'rejected', reason: { code: 'peer_exited' } });
    expect(names).toEqual(['first']);
    await expect(toArray(source.callTool(call('t')))).rejects.toMatchObject({
      code: 'peer_exited',
    });
    await source[Symbol.asyncDispose]();
  });

  test('disposing ends everything in flight with `closed`; disposing twice is harmless', async () => {
    const { source } = await open({ 'tools/call': () => {} });
    const run = toArray(source.callTool(call('t')));
    run.catch(() => {});
    await source[Symbol.asyncDispose]();
    await source[Symbol.asyncDispose]();
    await expect(run).rejects.toMatchObject({ code: 'closed' });
  });

  verifies('S50', 'a client that disconnects aborts only its own calls', async () => {
    const { source, slow } = ourCatalogue();
    const [near, far] = messagePair();
    const [other, otherFar] = messagePair();
    await using serving = serveMessages(source, far);
    await using servingOther = serveMessages(source, otherFar);
    const leaving = await dialMessages(near);
    await using staying = await dialMessages(other);
    const run = toArray(leaving.callTool(call('slow')));
    run.catch(() => {});
    await slow.started;
    await leaving[Symbol.asyncDispose]();
    await serving.done;
    await slow.aborted;
    expect(await toArray(staying.callTool(call('echo', { text: 'on' })))).toMatchObject([
      { result: { content: [{ text: 'on' }] } },
    ]);
    await servingOther[Symbol.asyncDispose]();
  });

  verifies('S245', 'the messages on the wire are standard JSON-RPC with cursors', async () => {
    const { source } = ourCatalogue();
    const [near, far] = messagePair();
    await using serving = serveMessages(source, far, { pageSize: 20 });
    await using dialled = await dialMessages(near);
    await toArray(dialled.listTools());
    expect(methods(near)).toEqual([
      'initialize',
      'notifications/initialized',
      'tools/list',
      'tools/list',
    ]);
    const [first, second] = near.sent.slice(2);
    expect(first).toEqual({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
    expect(second).toMatchObject({ id: 2, params: { cursor: expect.any(String) as string } });
    await serving[Symbol.asyncDispose]();
  });
});
