import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { dialGrpc, offerGrpc } from '../../src/mcp/grpc/index.ts';
import { dialMessages } from '../../src/mcp/json-rpc/client/dial-messages.ts';
import { dialHttp, dialSse } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import { dialInProcess } from '../../src/mcp/json-rpc/in-process.ts';
import { serveMessages } from '../../src/mcp/json-rpc/server/serve-messages.ts';
import type { TimeLimits, ToolSource } from '../../src/mcp/types.ts';
import { type RpcId, rpcResult } from '../../src/wire/json-rpc.ts';
import { onAbort } from '../../src/stream/abort.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { messagePair } from '../support/mcp/message-pair.ts';
import { missing, serverV1, serverV2 } from '../support/mcp/mcp-sdk.ts';
import { eventually } from '../support/busy.ts';
import { call, toArray } from '../contracts/tool-source.contract.ts';
import { suite } from '../verifies.ts';

interface Silent {
  readonly source: ToolSource;
  readonly begun: string[];
  readonly canceled: string[];
}

/** A source that never answers, and which of its requests arrived and were cancelled. */
function silent(): Silent {
  const begun: string[] = [];
  const canceled: string[] = [];
  const hang = (what: string, signal: AbortSignal | undefined): Promise<never> => {
    begun.push(what);
    return new Promise((_, reject) =>
      onAbort(signal, (reason) => {
        canceled.push(what);
        reject(reason as Error);
      }),
    );
  };
  const source: ToolSource = {
    info: { name: 'silent', version: '1' },
    async *listTools(options) {
      yield await hang('list', options?.signal);
    },
    async *callTool({ name }, { signal } = {}) {
      if (name === 'busy')
        for (let progress = 0; ; progress += 1) {
          signal?.throwIfAborted();
          await new Promise((resolve) => setTimeout(resolve, 1));
          yield { type: 'progress', progress };
        }
      yield await hang(name, signal);
    },
    listPrompts: () => (async function* () {})() as never,
    getPrompt: (name, _, options) => hang(name, options?.signal),
  };
  return { source, begun, canceled };
}

type Dial = (source: ToolSource, limits: TimeLimits, scope: Disposer) => Promise<ToolSource>;

const overHttp =
  (protocol: 'session' | 'stateless'): Dial =>
  async (source, limits, scope) => {
    const { url } = scope.use(await offerHttp(source));
    return scope.use(await dialHttp({ url, protocol, ...limits }));
  };

const ROADS: Readonly<Record<string, Dial>> = {
  async messages(source, limits, scope) {
    const [near, far] = messagePair();
    scope.use(serveMessages(source, far));
    return scope.use(await dialMessages(near, limits));
  },
  'HTTP with a session': overHttp('session'),
  'stateless HTTP': overHttp('stateless'),
  async gRPC(source, limits, scope) {
    const { url } = scope.use(await offerGrpc(source));
    return scope.use(await dialGrpc({ url, ...limits }));
  },
};

const LIMITED = { code: 'timeout', message: expect.stringMatching(/set timeoutMs$/) as string };

/** Dials again if the handshake took longer than the limit, as it may on a busy machine. */
async function patiently(dial: () => Promise<ToolSource>): Promise<ToolSource> {
  for (;;)
    try {
      return await dial();
    } catch (error) {
      expect(error).toMatchObject({ code: 'timeout' });
    }
}

for (const [road, dial] of Object.entries(ROADS))
  describe(`a silent server over ${road}`, () => {
    test('calls, lists and prompts fail with timeout and are cancelled', async () => {
      // On a busy machine a short limit may end a request before the server has it.
      for (let timeoutMs = 100, arrived = 0; arrived < 3; timeoutMs *= 2) {
        await using scope = new Disposer();
        const { source, begun, canceled } = silent();
        const dialled = await patiently(() => dial(source, { timeoutMs }, scope));
        await Promise.all([
          expect(toArray(dialled.callTool(call('slow')))).rejects.toMatchObject(LIMITED),
          expect(toArray(dialled.listTools())).rejects.toMatchObject(LIMITED),
          expect(dialled.getPrompt?.('ask', {})).rejects.toMatchObject(LIMITED),
        ]);
        arrived = begun.length;
        await eventually(() => expect(canceled.toSorted()).toEqual(begun.toSorted()));
      }
    });

    test('a server that reports progress without end is stopped by the total', async () => {
      await using scope = new Disposer();
      const dialled = await dial(silent().source, { maxTotalMs: 100 }, scope);
      await expect(toArray(dialled.callTool(call('busy')))).rejects.toMatchObject({
        code: 'timeout',
        message: expect.stringMatching(/set maxTotalMs$/) as string,
      });
    });
  });

test('a call with a deadline has only that limit', async () => {
  await using scope = new Disposer();
  const dialled = await patiently(() =>
    ROADS['messages']!(silent().source, { timeoutMs: 30 }, scope),
  );
  const called = toArray(dialled.callTool(call('slow'), { deadline: Date.now() + 100 }));
  await expect(called).rejects.toThrow('call of tool "slow" timed out: its deadline has passed');
});

test('the time in which a person answers does not count', async () => {
  const [near, far] = messagePair();
  const answered = (async () => {
    for await (const { id, method } of far.incoming)
      if (method === 'initialize')
        await far.send(rpcResult(id as RpcId, { protocolVersion: '2025-11-25' }));
      else if (method === 'tools/call') {
        const params = { message: 'PIN?', requestedSchema: { type: 'object', properties: {} } };
        await far.send({ jsonrpc: '2.0', id: 'q', method: 'elicitation/create', params });
      } else if (id === 'q') return far.send(rpcResult(1, { content: [] }));
  })();
  // The person takes as long as five limits.
  const onRequest = (): Promise<JsonObject> =>
    new Promise((resolve) => setTimeout(() => resolve({ action: 'decline' }), 500));
  const capabilities = { elicitation: {} };
  await using dialled = await dialMessages(near, { timeoutMs: 100, capabilities, onRequest });
  expect(await toArray(dialled.callTool(call('ask')))).toEqual([
    { type: 'result', result: { content: [] } },
  ]);
  await answered;
});

test('an event stream of 2024 that names no address for messages is given up', async () => {
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const dialled = dialSse({ url: `http://127.0.0.1:${port}/sse`, timeoutMs: 300 });
  await expect(dialled).rejects.toMatchObject(LIMITED);
  server.closeAllConnections();
  server.close();
});

suite('mcp-sdk', missing, () => {
  test.each([
    ['v1', serverV1],
    ['v2', serverV2],
  ])('a handler of an official %s server learns of the timeout', async (_, make) => {
    const official = make();
    let reason: unknown;
    official.add('hang', 'Never answers', {}, (_args, { signal }) => {
      signal.addEventListener('abort', () => (reason = signal.reason));
      return new Promise(() => {});
    });
    await using dialled = await dialInProcess(official.server, { timeoutMs: 100 });
    await expect(toArray(dialled.callTool(call('hang')))).rejects.toMatchObject(LIMITED);
    await eventually(() => expect(String(reason)).toContain('timed out after 100 ms'));
  });
});
