import { describe, expect, test } from 'vitest';
import { listen } from '../../../../http/node-server.ts';
import type { JsonObject } from '../../../../json.ts';
import { createRegistry } from '../../../registry/registry.ts';
import { tool } from '../../../registry/tool.ts';
import type { ToolSource } from '../../../types.ts';
import { META } from '../../protocol-versions.ts';
import { mcpHandler, type McpHandler } from './mcp-handler.ts';
import { sseHandler } from './sse-handler.ts';
import { eventually } from '../../../../../test/support/busy.ts';

const MCP = 'http://localhost:1/mcp';
const HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
};
const INITIALIZE = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'a' } },
};

const post = (
  { handle }: McpHandler,
  message: unknown,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Response> =>
  handle(
    new Request(MCP, {
      method: 'POST',
      headers: { ...HEADERS, ...headers },
      body: JSON.stringify(message),
      ...(signal && { signal }),
    }),
  );

const get = (
  { handle }: McpHandler,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Response> =>
  handle(new Request(MCP, { headers: { ...HEADERS, ...headers }, ...(signal && { signal }) }));

const begin = async (handler: McpHandler): Promise<Record<string, string>> => {
  const response = await post(handler, INITIALIZE);
  expect(response.status).toBe(200);
  return { 'mcp-session-id': response.headers.get('mcp-session-id')! };
};

const callOf = (name: string, id: number, args: JsonObject = {}): JsonObject => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: args, _meta: { progressToken: id } },
});

const stateless = (method: string, id: number): [JsonObject, Record<string, string>] => [
  {
    jsonrpc: '2.0',
    id,
    method,
    params: { _meta: { [META.version]: '2026-07-28', [META.capabilities]: {} } },
  },
  { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method },
];

/** A tool that waits for its cancellation, one that floods, and one with a large answer. */
function workshop(): {
  readonly source: ToolSource;
  readonly started: Promise<void>;
  readonly aborted: Promise<void>;
} {
  let start = (): void => {};
  let abort = (): void => {};
  const started = new Promise<void>((resolve) => (start = resolve));
  const aborted = new Promise<void>((resolve) => (abort = resolve));
  const source = createRegistry({
    name: 'workshop',
    tools: [
      tool('wait', 'Waits', {}, async (_, context) => {
        const { signal } = context;
        await context.progress(1);
        start();
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
        abort();
        return 'aborted';
      }),
      tool('flood', 'Reports more than a client may leave unread', {}, async (_, context) => {
        const { signal } = context;
        signal.addEventListener('abort', abort);
        start();
        for (let i = 0; !signal.aborted; i += 1)
          await context.progress(i, undefined, 'x'.repeat(32 * 1024));
        return 'aborted';
      }),
      tool('large', 'Answers at length', {}, async (_, context) => {
        await context.progress(1);
        return 'x'.repeat(1024 * 1024);
      }),
      tool('small', 'Answers', {}, async (_, context) => {
        await context.progress(1);
        return 'x';
      }),
    ],
  });
  return { source, started, aborted };
}

describe('a session without a connection', () => {
  test.each(['wait', 'flood'])('is closed although its request (%s) does not end', async (name) => {
    const { source, started, aborted } = workshop();
    await using handler = mcpHandler(source, { idleMs: 20 });
    const session = await begin(handler);
    const client = new AbortController();
    const response = await post(handler, callOf(name, 1), session, client.signal);
    expect(response.status).toBe(200);
    await started;
    client.abort();
    await aborted;
    await eventually(() => expect(handler.sessions).toBe(0));
  });

  test('makes room for a new client although its request runs', async () => {
    const { source, started, aborted } = workshop();
    await using handler = mcpHandler(source, { maxSessions: 1 });
    const session = await begin(handler);
    const client = new AbortController();
    await post(handler, callOf('wait', 1), session, client.signal);
    await started;
    expect((await post(handler, INITIALIZE)).status).toBe(503);
    client.abort();
    await begin(handler);
    await aborted;
    expect(handler.sessions).toBe(1);
  });

  test('starts with a response that is cancelled before its first byte', async () => {
    const { source } = workshop();
    await using handler = mcpHandler(source, { maxSessions: 1 });
    const session = await begin(handler);
    const stream = await get(handler, session);
    expect((await post(handler, INITIALIZE)).status).toBe(503);
    await stream.body?.cancel();
    await begin(handler);
  });

  test('thousands of clients that never send DELETE are all served', async () => {
    const { source } = workshop();
    await using handler = mcpHandler(source, { maxSessions: 20 });
    for (let i = 0; i < 1_500; i += 1) {
      const session = await begin(handler);
      const client = new AbortController();
      const stream = await get(handler, session, client.signal);
      expect((await stream.body!.getReader().read()).done).toBe(false);
      client.abort();
    }
    expect(handler.sessions).toBeLessThanOrEqual(20);
  });

  test('over sockets: a disconnected stream frees its session', async () => {
    const { source } = workshop();
    await using handler = mcpHandler(source, { maxSessions: 5 });
    await using listening = await listen(handler.handle);
    const headers = HEADERS;
    const body = JSON.stringify(INITIALIZE);
    for (let i = 0; i < 100; i += 1) {
      // The server learns of a cut a moment later, so a few sessions may still be in use.
      const opened = await eventually(async () => {
        const response = await fetch(listening.url, { method: 'POST', headers, body });
        expect(response.status).toBe(200);
        return response;
      });
      await opened.text();
      const session = { 'mcp-session-id': opened.headers.get('mcp-session-id')! };
      const client = new AbortController();
      const stream = fetch(listening.url, {
        headers: { ...headers, ...session },
        signal: client.signal,
      });
      expect((await stream).status).toBe(200);
      client.abort();
    }
  });
});

describe('responses that no client read', () => {
  test('are kept up to a number', async () => {
    await using handler = mcpHandler(workshop().source);
    const session = await begin(handler);
    const ids = Array.from({ length: 40 }, (_, i) => i + 1);
    const reached = await Promise.all(
      ids.map(async (id) => {
        const client = new AbortController();
        const response = await post(handler, callOf('small', id), session, client.signal);
        client.abort();
        return response.headers.get('content-type');
      }),
    );
    expect(new Set(reached)).toEqual(new Set(['text/event-stream; charset=utf-8']));
    await eventually(async () => expect(await kept(handler, session, ids)).toBe(16));
  });

  test('are kept up to a size', async () => {
    await using handler = mcpHandler(workshop().source);
    const session = await begin(handler);
    const ids = [1, 2, 3, 4, 5, 6];
    for (const id of ids) {
      const client = new AbortController();
      await post(handler, callOf('large', id), session, client.signal);
      client.abort();
    }
    await eventually(async () => expect(await kept(handler, session, ids)).toBe(3));
  });

  test('are kept up to a size in all sessions of one owner', { timeout: 30_000 }, async () => {
    await using handler = mcpHandler(workshop().source);
    const ids = [1, 2, 3];
    const sessions: Record<string, string>[] = [];
    for (let i = 0; i < 14; i++) {
      const session = await begin(handler);
      sessions.push(session);
      for (const id of ids) {
        const client = new AbortController();
        await post(handler, callOf('large', id), session, client.signal);
        client.abort();
      }
    }
    const keptIn = async (session: Record<string, string> = {}) => kept(handler, session, ids);
    await eventually(async () => expect(await keptIn(sessions.at(-1))).toBe(3));
    expect(await keptIn(sessions[0])).toBe(0);
  });

  /** Streams that a client can still resume. Their names are numbers; initialize was the first. */
  async function kept(
    handler: McpHandler,
    session: Record<string, string>,
    ids: readonly number[],
  ): Promise<number> {
    let found = 0;
    for (const id of ids) {
      const response = await get(handler, { ...session, 'last-event-id': `${id + 1}_0` });
      await response.body?.cancel();
      if (response.status === 200) found += 1;
    }
    return found;
  }
});

describe('the transport of 2024', () => {
  const open = ({ handle }: McpHandler, signal?: AbortSignal): Promise<Response> =>
    handle(new Request('http://localhost:1/sse', signal ? { signal } : {}));

  test('a client that disconnects before the first byte leaves no session', async () => {
    await using handler = sseHandler(workshop().source);
    await (await open(handler)).body?.cancel();
    await eventually(() => expect(handler.sessions).toBe(0));
    const client = new AbortController();
    await open(handler, client.signal);
    expect(handler.sessions).toBe(1);
    client.abort();
    expect(handler.sessions).toBe(0);
    await open(handler, AbortSignal.abort());
    expect(handler.sessions).toBe(0);
  });

  test('the calls of a client that disconnects are aborted', async () => {
    const { source, started, aborted } = workshop();
    await using handler = sseHandler(source);
    await using listening = await listen(handler.handle);
    const client = new AbortController();
    const stream = await fetch(`${listening.url}/sse`, { signal: client.signal });
    const { value } = await stream.body!.getReader().read();
    const address = /data: (.*)/.exec(Buffer.from(value!).toString())![1]!;
    const posted = await fetch(`${listening.url}${address}`, {
      method: 'POST',
      headers: HEADERS,
      body: JSON.stringify(callOf('wait', 1)),
    });
    expect(posted.status).toBe(202);
    await started;
    client.abort();
    await aborted;
    await eventually(() => expect(handler.sessions).toBe(0));
  });
});

describe('a disposed handler', () => {
  test('starts no session, which nothing would end', async () => {
    const handler = mcpHandler(workshop().source);
    await handler[Symbol.asyncDispose]();
    expect((await post(handler, INITIALIZE)).status).toBe(503);
    expect(handler.sessions).toBe(0);
  });

  test('starts none for a client that waits for room during disposal', async () => {
    const handler = mcpHandler(workshop().source, { maxSessions: 1 });
    await begin(handler);
    const waiting = post(handler, INITIALIZE);
    await handler[Symbol.asyncDispose]();
    expect((await waiting).status).toBe(503);
    expect(handler.sessions).toBe(0);
  });

  test('opens no stream of the transport of 2024', async () => {
    const handler = sseHandler(workshop().source);
    await handler[Symbol.asyncDispose]();
    expect((await get(handler)).status).toBe(503);
    expect(handler.sessions).toBe(0);
  });
});

describe('the stateless protocol', () => {
  test('idle subscriptions do not count as requests, and have a limit', async () => {
    await using handler = mcpHandler(workshop().source, { maxSubscriptions: 1_100 });
    const clients = Array.from({ length: 1_100 }, () => new AbortController());
    const [listenTo, headers] = stateless('subscriptions/listen', 1);
    const opened = await Promise.all(
      clients.map(({ signal }) => post(handler, listenTo, headers, signal)),
    );
    expect(new Set(opened.map(({ status }) => status))).toEqual(new Set([200]));
    const list = await post(handler, ...stateless('tools/list', 2));
    expect(await list.json()).toMatchObject({ result: { tools: [{}, {}, {}, {}] } });
    const refused = await post(handler, listenTo, headers);
    expect(await refused.json()).toMatchObject({
      error: { message: expect.stringContaining('maxSubscriptions') as unknown },
    });
    for (const client of clients) client.abort();
  });

  test('a client that disconnected before its request is handled gets no handler', async () => {
    const { source, started, aborted } = workshop();
    await using handler = mcpHandler(source);
    const [message, headers] = stateless('tools/call', 1);
    Object.assign(message['params'] as object, { name: 'wait', arguments: {} });
    const client = new AbortController();
    const request = new Request(MCP, {
      method: 'POST',
      headers: { ...HEADERS, ...headers, 'mcp-name': 'wait' },
      body: JSON.stringify(message),
    });
    // The body has been read when the client disconnects: the signal aborts before it is listened to.
    Object.defineProperty(request, 'signal', {
      get() {
        client.abort(new Error('disconnected'));
        return client.signal;
      },
    });
    const response = await handler.handle(request);
    expect(response.status).toBe(202);
    const served = await Promise.race([started.then(() => aborted), Promise.resolve('not served')]);
    expect(served).toBe('not served');
  });
});
