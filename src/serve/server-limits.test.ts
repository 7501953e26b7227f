import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type ClientHttp2Stream, connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { DuolaneError, type Failure } from '../errors.ts';
import type { Agent } from '../event/types.ts';
import { onAbort } from '../stream/abort.ts';
import { memoryLog } from '../task/memory/memory-log.ts';
import type { LogHealth } from '../task/types.ts';
import { createRegistry } from '../mcp/registry/registry.ts';
import { fileBlobs } from '../task/blob-store.ts';
import { destroySession } from '../http/close-http2.ts';
import { readLimits } from './server-limits.ts';
import { createReadiness } from './readiness.ts';
import { serve } from './serve.ts';

const hello: Agent = async function* () {
  yield { type: 'text.delta', id: 't', delta: 'hello' };
};
/** Waits until it is canceled. */
const waits: Agent = async function* (_turn, { signal }) {
  yield { type: 'status', message: 'waits' };
  await new Promise<void>((resolve) => void onAbort(signal, () => resolve()));
};
const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

const post = (url: string, body: unknown, headers: Record<string, string> = {}) =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });

describe('limits', () => {
  test('maxUnsentBytes counts what clients do not read, such as blobs', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'duolane-unsent-'));
    const blobs = fileBlobs({ directory });
    const { id } = await blobs.put({ task: 't', mediaType: 'text/plain' }, [
      new Uint8Array(20_000_000),
    ]);
    const warnings: unknown[] = [];
    const logger = { ...SILENT, warn: (_: string, data?: object) => void warnings.push(data) };
    {
      await using served = await serve(hello, {
        log: memoryLog(),
        page: false,
        blobs,
        logger,
        limits: { maxUnsentBytes: 1 },
      });
      const silent = await Promise.all(
        [1, 2].map(async () => {
          const client = connect(Number(new URL(served.url).port), '127.0.0.1');
          client.on('error', () => {});
          client.write(`GET /blobs/${id} HTTP/1.1\r\nhost: localhost\r\n\r\n`);
          await once(client, 'readable');
          return client;
        }),
      );
      await expect
        .poll(() => warnings, { timeout: 10_000 })
        .toEqual([{ error: expect.stringContaining('exceed maxUnsentBytes') }]);
      for (const client of silent) client.destroy();
    }
    await rm(directory, { recursive: true });
  });

  test('maxUnsentBytes leaves half of it to other owners', async () => {
    const long: Agent = async function* () {
      for (let n = 0; n < 64; n++)
        yield { type: 'text.delta', id: 't', delta: 'x'.repeat(250_000) };
    };
    await using served = await serve(long, {
      log: memoryLog(),
      page: false,
      logger: SILENT,
      auth: { bearer: { ada: 'alpha', bob: 'beta' } },
      limits: { maxUnsentBytes: 40_000_000 },
    });
    const begun = async (secret: string): Promise<string> => {
      const authorization = `Bearer ${secret}`;
      const sent = await post(
        `${served.url}/api/agents/agent/turns`,
        { text: 'hi' },
        { authorization },
      );
      const { task } = (await sent.json()) as { readonly task: string };
      for await (const entry of served.log.read(task, 0)) if (entry.type === 'run.finished') break;
      return `/api/tasks/${task}`;
    };
    const [own, other] = [await begun('alpha'), await begun('beta')];
    const silent = await Promise.all(
      [1, 2].map(async () => {
        const client = connect(Number(new URL(served.url).port), '127.0.0.1');
        client.on('error', () => {});
        client.write(
          `GET ${own} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer alpha\r\n\r\n`,
        );
        await once(client, 'readable');
        return client;
      }),
    );
    const response = await fetch(`${served.url}${other}`, {
      headers: { authorization: 'Bearer beta' },
    });
    expect(response.status).toBe(200);
    expect((await response.text()).length).toBeGreaterThan(16_000_000);
    for (const client of silent) client.destroy();
  });

  test.each(['/a2a', '/api/agents/agent/turns', '/mcp'])(
    'maxReceivingBytes counts bodies that arrive slowly (%s)',
    async (path) => {
      await using served = await serve(hello, {
        log: memoryLog(),
        page: false,
        logger: SILENT,
        tools: createRegistry({ name: 'none' }),
        limits: { maxReceivingBytes: 150_000 },
      });
      const begin = () => {
        const client = connect(Number(new URL(served.url).port), '127.0.0.1');
        client.on('error', () => {});
        const head = [
          `POST ${path} HTTP/1.1`,
          'host: localhost',
          'content-type: application/json',
          'accept: application/json, text/event-stream',
          'content-length: 200000',
        ];
        client.write(`${head.join('\r\n')}\r\n\r\n${' '.repeat(100_000)}`);
        return client;
      };
      const clients = [begin(), begin()];
      const [first] = (await Promise.race(clients.map((client) => once(client, 'data')))) as [
        Buffer,
      ];
      expect(String(first)).toContain('try again');
      for (const client of clients) client.destroy();
    },
  );

  test('maxStreamsPerOwner counts the streams of each owner, also on the page', async () => {
    await using served = await serve(waits, {
      log: memoryLog(),
      page: false,
      graceMs: 10,
      auth: { bearer: { ada: 'alpha', bob: 'beta' } },
      limits: { maxStreamsPerOwner: 2 },
    });
    const leaving = new AbortController();
    const as = (token: string) => ({ authorization: `Bearer ${token}` });
    const { task } = (await (
      await post(`${served.url}/api/agents/agent/turns`, { text: 'hi' }, as('alpha'))
    ).json()) as { task: string };
    const entries = (signal: AbortSignal | null = leaving.signal): Promise<Response> =>
      fetch(`${served.url}/api/tasks/${task}/entries`, { headers: as('alpha'), signal });
    expect((await entries()).status).toBe(200);
    expect((await entries()).status).toBe(200);
    const third = await entries();
    expect([third.status, third.headers.get('retry-after')]).toEqual([429, '5']);
    const ui = {
      id: 'c',
      messages: [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
    };
    expect((await post(`${served.url}/ui/agent`, ui, as('alpha'))).status).toBe(429);
    expect(await served.log.count({ owner: 'ada' })).toBe(1); // the refused one made no task
    const other = await post(`${served.url}/ui/agent`, ui, as('beta'));
    expect(other.status).toBe(200);
    await other.body?.cancel();
    leaving.abort();
    await expect
      .poll(async () => {
        const again = await entries(null);
        await again.body?.cancel();
        return again.status;
      })
      .toBe(200);
  });

  /** What a server says to this text, up to the end of the connection. */
  const raw = async (url: string, text: string): Promise<string> => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    let said = '';
    socket.on('data', (chunk) => (said += String(chunk)));
    socket.on('error', () => {}); // the close says it
    socket.write(text);
    await once(socket, 'close');
    return said;
  };

  test('the HTTP listener limits incomplete requests and connections', async () => {
    const line = 'POST /api/agents/agent/turns HTTP/1.1\r\n';
    const head = `${line}Host: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n`;
    for (const [limits, half] of [
      [{ headersMs: 100 }, `${line}Host: 127.0.0.1`],
      [{ requestMs: 100 }, `${head}{"`],
    ] as const) {
      const options = { log: memoryLog(), page: false, logger: SILENT, limits };
      await using slow = await serve(hello, options);
      expect(await raw(slow.url, half)).toContain(' 408 ');
    }
    await using served = await serve(hello, {
      log: memoryLog(),
      page: false,
      logger: SILENT,
      limits: { maxConnections: 1 },
    });
    const first = connect(Number(new URL(served.url).port), '127.0.0.1');
    first.write('GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n');
    await once(first, 'data');
    expect(await raw(served.url, 'GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')).toBe('');
    first.destroy();
  });

  test('the gRPC listener limits incomplete messages and health watches', async () => {
    const limits = { maxWatches: 1, requestMs: 100 };
    const grpc = { port: 0 };
    await using served = await serve(hello, {
      log: memoryLog(),
      page: false,
      logger: SILENT,
      limits,
      grpc,
    });
    const session = connectHttp2(`http://${new URL(served.grpcUrl ?? '').host}`);
    const call = (path: string, bytes: readonly number[]): ClientHttp2Stream => {
      const headers = { 'content-type': 'application/grpc', te: 'trailers' };
      const stream = session.request({ ':method': 'POST', ':path': path, ...headers });
      stream.on('error', () => {}); // its status says it
      stream.write(Uint8Array.from(bytes));
      return stream;
    };
    /** In the trailers, or in the header of a call that is refused immediately. */
    const statusOf = (stream: ClientHttp2Stream): Promise<unknown> =>
      new Promise((resolve) => {
        const look = (headers: object): void => {
          if ('grpc-status' in headers) resolve(headers['grpc-status']);
        };
        stream.on('response', look).on('trailers', look).resume();
      });
    try {
      const watch = '/grpc.health.v1.Health/Watch';
      const first = call(watch, [0, 0, 0, 0, 0]).end();
      await once(first, 'data');
      expect(await statusOf(call(watch, [0, 0, 0, 0, 0]).end())).toBe('8');
      // A message of nine bytes, of which one comes.
      expect(await statusOf(call('/grpc.health.v1.Health/Check', [0, 0, 0, 0, 9, 1]))).toBe('4');
    } finally {
      destroySession(session);
    }
  });

  test('the store that the server opens enforces the limits per owner', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'duolane-'));
    const cwd = process.cwd();
    process.chdir(directory);
    try {
      await using served = await serve(waits, {
        page: false,
        graceMs: 10,
        maxRuns: 8,
        auth: { bearer: { ada: 'alpha', bob: 'beta' } },
        limits: { maxRunsPerOwner: 1, maxQueuedPerOwner: 1 },
      });
      const turn = (token: string): Promise<Response> =>
        post(
          `${served.url}/api/agents/agent/turns`,
          { text: 'hi' },
          { authorization: `Bearer ${token}` },
        );
      const statuses: number[] = [];
      for (const token of ['alpha', 'alpha', 'alpha', 'beta'])
        statuses.push((await turn(token)).status);
      // One runs, one waits, and the third is refused; another owner has the same.
      expect(statuses).toEqual([201, 201, 429, 201]);
    } finally {
      process.chdir(cwd);
      await rm(directory, { recursive: true, maxRetries: 3 });
    }
  });

  test('maxBodyBytes applies to every protocol', async () => {
    await using served = await serve(hello, {
      log: memoryLog(),
      page: false,
      limits: { maxBodyBytes: 2000 },
    });
    const text = 'x'.repeat(3000);
    for (const path of ['/api/agents/agent/turns', '/ui/agent', '/a2a/agent/message:send'])
      expect([path, (await post(`${served.url}${path}`, { text })).status]).toEqual([path, 413]);
  });

  test.each([
    [{ limits: { maxStreams: 5 } }, 'unknown limit "maxStreams"; available: maxConnections'],
    [{ limits: { stallMs: 0 } }, 'invalid limits.stallMs "0"'],
    [{ limits: { headersMs: Number.NaN } }, 'invalid limits.headersMs "NaN"'],
    [{ retention: { tasksMs: -1 } }, 'invalid retention.tasksMs "-1"'],
    [{ retention: { everyMs: 0 } }, 'invalid retention.everyMs "0"'],
  ])('%j is refused', async (options, message) => {
    const refused = serve(hello, { log: memoryLog(), page: false, ...(options as object) });
    await expect(refused).rejects.toThrow(message);
  });
});

describe('retention', () => {
  test('a server deletes tasks tasksMs after their end, and no others', async () => {
    await using log = memoryLog();
    await using served = await serve(
      { hello: { default: hello }, waits: { default: waits } },
      { log, page: false, graceMs: 10, retention: { tasksMs: 1, everyMs: 10 } },
    );
    const start = async (agent: string): Promise<string> =>
      (
        (await (await post(`${served.url}/api/agents/${agent}/turns`, { text: 'hi' })).json()) as {
          task: string;
        }
      ).task;
    const [ends, stays] = [await start('hello'), await start('waits')];
    await expect.poll(() => log.get(ends)).toBeUndefined();
    expect(await log.get(stays)).toBeDefined();
  });

  test('the default is 30 days, and pruning continues after a failure', async () => {
    const asked: object[] = [];
    const logged: string[] = [];
    const log = Object.assign(memoryLog(), {
      async prune(policy: object): Promise<number> {
        asked.push(policy);
        throw new DuolaneError('server', 'the disk is full');
      },
    });
    const logger = { ...SILENT, error: (message: string) => logged.push(message) };
    await using _ = await serve(hello, { log, page: false, logger, retention: { everyMs: 5 } });
    await expect.poll(() => asked.length).toBeGreaterThan(1);
    const { tasksEndedBefore } = asked[0] as { tasksEndedBefore: number };
    const days = (Date.now() - tasksEndedBefore) / 86_400_000;
    expect(Math.round(days)).toBe(30);
    expect(logged).toContain('cannot prune ended tasks');
  });

  test('it can be switched off', async () => {
    let asked = 0;
    const log = Object.assign(memoryLog(), { prune: async () => ++asked });
    const served = await serve(hello, { log, page: false, retention: false });
    await served[Symbol.asyncDispose]();
    expect(asked).toBe(0);
  });
});

describe('readiness', () => {
  const ready = async (url: string): Promise<readonly [number, string]> => {
    const response = await fetch(`${url}/readyz`);
    return [response.status, (await response.text()).trim()];
  };

  test('a server whose store fails is not ready, and does not say why', async () => {
    const logged: unknown[] = [];
    const logger = { ...SILENT, error: (...args: unknown[]) => logged.push(args) };
    let failure: Failure | undefined;
    const health = async (): Promise<LogHealth> =>
      failure ? { ok: false, failingSince: 0, failure } : { ok: true };
    const log = Object.assign(memoryLog(), { health });
    await using served = await serve(hello, { log, page: false, logger });
    expect(await ready(served.url)).toEqual([200, 'ready']);
    failure = new DuolaneError('server', 'database of 10.0.0.5 is gone').toJSON();
    await expect
      .poll(() => ready(served.url), { timeout: 60_000 })
      .toEqual([503, 'the task store does not respond']);
    expect(JSON.stringify(logged)).toContain('10.0.0.5');
    failure = undefined;
    await expect.poll(() => ready(served.url), { timeout: 60_000 }).toEqual([200, 'ready']);
  });

  test('many probes cause one check of the store at a time', async () => {
    let asked = 0;
    const health = async (): Promise<LogHealth> => (asked++, { ok: true });
    const readiness = createReadiness({ health }, SILENT, 60_000);
    await Promise.all([readiness(), readiness(), readiness()]);
    expect(asked).toBe(1);
  });
});

test.each(['headersMs', 'requestMs', 'stallMs'])(
  '%s: Infinity is refused, because no timer is that long',
  (name) => {
    expect(() => readLimits({ [name]: Infinity })).toThrow(`invalid limits.${name} "Infinity"`);
  },
);
