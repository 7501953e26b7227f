import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { grpcMethods } from '../../src/a2a/grpc/codec.ts';
import { GrpcClient } from '../../src/grpc/index.ts';
import type { JsonObject } from '../../src/json.ts';

const SERVER = fileURLToPath(new URL('../fixtures/attacked-server.mjs', import.meta.url));

interface Attacked {
  readonly file: string;
  readonly grpcUrl: string;
  /** Sends a request. Resolves when its body is written, with the promise of its response. */
  post(path: string, body: object, headers?: Readonly<Record<string, string>>): Promise<Posted>;
  /** The number of tasks. */
  tasks(): Promise<number>;
  /** Whether the server still responds. */
  lives(): Promise<boolean>;
  stop(): Promise<void>;
}

interface Posted {
  readonly response: Promise<{ readonly status: number; readonly text: string; session: string }>;
}

/** A server with a heap of 96 MB. It is gone at the end of the test. */
async function attacked(known?: string): Promise<Attacked> {
  const folder = mkdtempSync(join(tmpdir(), 'duolane-test-'));
  const file = known ?? join(folder, 'tasks.sqlite');
  const child = fork(SERVER, [JSON.stringify({ file })], {
    execArgv: ['--max-old-space-size=96'],
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  const exited = once(child, 'exit');
  const agent = new Agent({ maxSockets: 1000 });
  const stop = async (): Promise<void> => {
    if (child.connected) child.disconnect();
    await exited;
  };
  onTestFinished(async () => {
    agent.destroy();
    await stop();
    rmSync(folder, { recursive: true, force: true });
  });
  const [{ url, grpcUrl }] = (await once(child, 'message')) as [Record<'url' | 'grpcUrl', string>];
  const post: Attacked['post'] = async (path, body, headers = {}) => {
    const text = JSON.stringify(body);
    const sent = request(`${url}${path}`, {
      agent,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(text),
        accept: 'application/json, text/event-stream',
        ...headers,
      },
    });
    const response = new Promise<Awaited<Posted['response']>>((resolve) => {
      sent.on('error', () => resolve({ status: 0, text: '', session: '' }));
      sent.on('response', (message) => {
        let got = '';
        message.on('error', () => {}); // the test ends the connection
        message.on('data', (chunk: Buffer) => (got += chunk.toString()));
        message.on('end', () =>
          resolve({
            status: message.statusCode ?? 0,
            text: got,
            session: String(message.headers['mcp-session-id'] ?? ''),
          }),
        );
      });
    });
    sent.end(text);
    await Promise.race([once(sent, 'finish'), response]);
    return { response };
  };
  return {
    file,
    grpcUrl,
    post,
    async tasks() {
      const response = await fetch(`${url}/a2a/agent/tasks?A2A-Version=1.0`);
      return ((await response.json()) as { readonly totalSize: number }).totalSize;
    },
    async lives() {
      const { status } = await (await post('/a2a', {})).response;
      return status === 200 && child.exitCode === null && child.signalCode === null;
    },
    stop,
  };
}

const send = (version: '1.0' | '0.3', text: string, configuration: object, more = {}): object => ({
  jsonrpc: '2.0',
  id: 1,
  method: version === '1.0' ? 'SendMessage' : 'message/send',
  params: {
    message: {
      messageId: crypto.randomUUID(),
      ...(version === '1.0'
        ? { role: 'ROLE_USER', parts: [{ text }] }
        : { kind: 'message', role: 'user', parts: [{ kind: 'text', text }] }),
    },
    configuration,
    ...more,
  },
});

test('receivers that fail hold nothing of their tasks in memory, also after a restart', async () => {
  const server = await attacked();
  // Port 9 of this machine refuses connections.
  const configuration = {
    blocking: false,
    historyLength: 0,
    pushNotificationConfig: { url: 'http://127.0.0.1:9/' },
  };
  const text = 'x'.repeat(900 * 1024);
  for (let n = 0; n < 100; n++) {
    const { response } = await server.post('/a2a', send('0.3', text, configuration));
    expect((await response).status).toBe(200);
  }
  expect(await server.lives()).toBe(true);
  await server.stop();

  const next = await attacked(server.file);
  for (let n = 0; n < 20; n++) {
    const { response } = await next.post('/a2a', send('0.3', text, configuration));
    expect((await response).status).toBe(200);
  }
  expect(await next.lives()).toBe(true);
});

const PLACES = ['junk', 'metadata'] as const;

test.each(PLACES)(
  'a call that waits for its run does not keep a long request in memory (%s)',
  async (place) => {
    const server = await attacked();
    const more = { [place]: { long: 'x'.repeat(8 * 1024 * 1024) } };
    const statuses: number[] = [];
    for (let n = 0; n < 24; n++) {
      const { response } = await server.post('/a2a', send('1.0', 'wait', {}, more), {
        'a2a-version': '1.0',
      });
      response.then(({ status }) => statuses.push(status)).catch(() => {});
      expect(await server.lives()).toBe(true);
    }
    expect(statuses).toEqual([]);
  },
);

test('the same applies over gRPC', async () => {
  const server = await attacked();
  await using client = new GrpcClient(server.grpcUrl, { maxMessageBytes: 16 * 1024 * 1024 });
  const [, method] = grpcMethods('1.0').find(([operation]) => operation === 'send')!;
  let failed = 0;
  for (let n = 0; n < 24; n++) {
    const { params } = send(
      '1.0',
      'wait',
      {},
      {
        metadata: { long: 'x'.repeat(8 * 1024 * 1024) },
      },
    ) as { readonly params: JsonObject };
    client.unary(method, params).catch(() => (failed += 1));
    await expect.poll(() => server.tasks(), { timeout: 20_000 }).toBe(n + 1);
  }
  expect(failed).toBe(0);
  expect(await server.lives()).toBe(true);
});

const rpc = (method: string, params: object, id?: number): object => ({
  jsonrpc: '2.0',
  ...(id !== undefined && { id }),
  method,
  params,
});
const LONG = 'x'.repeat(14 * 1024 * 1024);
const hello = (capabilities: object): object =>
  rpc('initialize', { protocolVersion: '2025-06-18', capabilities }, 1);

test('an MCP session keeps nothing long that its client sent', async () => {
  const server = await attacked();
  for (let n = 0; n < 12; n++) {
    const { response } = await server.post('/mcp', hello({ long: LONG }));
    expect((await response).text).toContain('capabilities must have at most');
  }
  const { session } = await (await server.post('/mcp', hello({}))).response;
  const own = { 'mcp-session-id': session };
  for (let n = 0; n < 12; n++) {
    const cancelled = rpc('notifications/cancelled', { requestId: `${n}${LONG}` });
    expect((await (await server.post('/mcp', cancelled, own)).response).status).toBe(202);
    const level = rpc('logging/setLevel', { level: `${n}${LONG}` }, n);
    expect((await (await server.post('/mcp', level, own)).response).text).toContain('-32602');
  }
  expect(await server.lives()).toBe(true);
});

test('calls of slow tools have a limit of memory; further ones are refused', async () => {
  const server = await attacked();
  const { session } = await (await server.post('/mcp', hello({}))).response;
  const statuses: number[] = [];
  for (let n = 0; n < 12; n++) {
    const call = rpc('tools/call', { name: 'wait', arguments: { long: LONG } }, n);
    const { response } = await server.post('/mcp', call, { 'mcp-session-id': session });
    response.then(({ status }) => statuses.push(status)).catch(() => {});
  }
  await expect.poll(() => statuses).toEqual(Array.from({ length: 11 }, () => 503));
  expect(await server.lives()).toBe(true);
});
