import { generateKeyPairSync } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { connectA2A, type A2ATask } from '../a2a/index.ts';
import type { Agent } from '../event/types.ts';
import { fileBlobs } from '../task/blob-store.ts';
import { memoryLog } from '../task/memory/memory-log.ts';
import type { TaskLog } from '../task/types.ts';
import { openTaskLog, serve } from './serve.ts';
import type { AgentModule } from './types.ts';

test.each([
  ['https://agents.example.com', undefined, 1],
  ['https://agents.example.com', { bearer: 'secret' }, 0],
  ['http://localhost:8003', undefined, 0],
  [undefined, undefined, 0],
])('at %s with auth %j there are %i warnings', async (publicUrl, auth, count) => {
  const warn = vi.fn<(message: string) => void>();
  const logger = { debug() {}, info() {}, warn, error() {} };
  const options = { ...(publicUrl !== undefined && { publicUrl }), ...(auth && { auth }) };
  await using _ = await serve(hello, { log: memoryLog(), page: false, logger, ...options });
  expect(warn.mock.calls.filter(([text]) => text.includes('without auth'))).toHaveLength(count);
});

test('a server that cannot listen closes its runner, which would otherwise claim tasks', async () => {
  const ran: string[] = [];
  const agent = (name: string): Agent =>
    async function* () {
      ran.push(name);
      yield { type: 'text.delta', id: 't', delta: name };
    };
  await using log = memoryLog();
  const busy = createServer().listen(0, '127.0.0.1');
  await once(busy, 'listening');
  const { port } = busy.address() as AddressInfo;
  const first = serve(agent('first'), { log, port, queue: true, page: false });
  await expect(first).rejects.toThrow(`cannot listen on 127.0.0.1:${port}: the port is in use`);
  busy.close();
  await using served = await serve(agent('second'), { log, queue: true });
  for (let n = 0; n < 5; n++)
    await fetch(`${served.url}/api/agents/agent/turns`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"text":"go"}',
    });
  await expect.poll(() => ran.length).toBe(5);
  expect(new Set(ran)).toEqual(new Set(['second']));
});

const hello: Agent = async function* () {
  yield { type: 'text.delta', id: 't', delta: 'hello' };
};

describe('a module', () => {
  const log = (): TaskLog => memoryLog();

  test('sets an option of the server that serve() does not set', async () => {
    const options = { auth: { bearer: 'of the module' }, page: false, log: log() };
    const modules = { one: { default: hello, options }, two: { default: hello } };
    await using served = await serve(modules);
    const status = async (token: string): Promise<number> => {
      const headers = { authorization: `Bearer ${token}` };
      return (await fetch(`${served.url}/api/tasks`, { headers })).status;
    };
    expect(served.log).toBe(options.log);
    expect([await status('of the module'), await status('another')]).toEqual([200, 401]);
    await using overridden = await serve(modules, { auth: { bearer: 'another' }, log: log() });
    const headers = { authorization: 'Bearer another' };
    expect((await fetch(`${overridden.url}/api/tasks`, { headers })).status).toBe(200);
  });

  test('cannot override the option of another module', async () => {
    const of = (bearer: string): AgentModule => ({ default: hello, options: { auth: { bearer } } });
    await expect(serve({ one: of('a'), two: of('b') }, { log: log() })).rejects.toMatchObject({
      code: 'invalid',
      message:
        'conflicting option "auth" in modules "one" and "two"; set it once in the options of serve()',
    });
  });
});

test('a resource is closed once', async () => {
  let closed = 0;
  const resource: AsyncDisposable = {
    async [Symbol.asyncDispose]() {
      closed += 1;
    },
  };
  const served = await serve(hello, { log: memoryLog(), page: false, resources: [resource] });
  await served[Symbol.asyncDispose]();
  expect(closed).toBe(1);
});

test('a run that exceeds timeoutMs fails with a message that says so', async () => {
  const hangs: Agent = async function* () {
    yield { type: 'status', message: 'still here' };
    await new Promise(() => {});
  };
  await using log = memoryLog();
  await using served = await serve(hangs, { log, page: false, timeoutMs: 50, graceMs: 10 });
  const stream = (await connectA2A(served.url)).stream('go');
  await stream.result();
  expect(stream.status).toMatchObject({
    state: 'TASK_STATE_FAILED',
    message: { parts: [{ text: 'the run timed out after 50 ms (timeoutMs)' }] },
  });
});

test('pruning a task deletes its blobs in a store that serve() opens', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'duolane-'));
  const blobs = fileBlobs({ directory: join(directory, 'blobs') });
  const removes = (task: string): Promise<void> => blobs.removeTask(task);
  await using log = await openTaskLog(join(directory, 'tasks.sqlite'), {
    blobs: { removeTask: removes },
  });
  const agent: Agent = async function* ({ task }) {
    const { id } = await blobs.put({ task, mediaType: 'text/plain' }, [Buffer.from('x')]);
    yield { type: 'text.delta', id: 't', delta: id };
  };
  await using served = await serve(agent, { log, page: false, blobs });
  const stream = (await connectA2A(served.url)).stream('go');
  await stream.result();
  const blob = `${served.url}/blobs/${stream.text}`;
  expect((await fetch(blob)).status).toBe(200);
  expect(await log.prune({ tasksEndedBefore: Date.now() + 1000 })).toBe(1);
  expect((await fetch(blob)).status).toBe(404);
  await rm(directory, { recursive: true });
});

for (const binding of ['JSONRPC', 'HTTP+JSON', 'GRPC'] as const)
  test(`a caller that waits for a task gets its snapshot when the server drains (${binding})`, async () => {
    const begun = new EventEmitter();
    const sleeps: Agent = Object.assign(
      async function* () {
        begun.emit('run');
        yield* [];
        await new Promise(() => {});
      } satisfies Agent,
      { resumable: true },
    );
    await using log = memoryLog();
    const served = await serve(sleeps, { log, page: false, graceMs: 10, grpc: {} });
    await using client = await connectA2A(served.url, { binding });
    const running = once(begun, 'run');
    const sent = client.send('go');
    await running;
    const [task] = await Promise.all([sent, served[Symbol.asyncDispose]()]);
    expect(task).toMatchObject({ status: { state: 'TASK_STATE_SUBMITTED' } });
    expect(await log.get((task as A2ATask).id)).toMatchObject({ state: 'submitted' });
  });

describe('a serve() that rejects', () => {
  const P384 = generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey;
  const cardKey = { kid: 'k', key: P384.export({ type: 'pkcs8', format: 'pem' }) as string };

  test('frees its port', async () => {
    const port = await freePort();
    const failed = serve(hello, { log: memoryLog(), port, page: false, a2a: { cardKey } });
    await expect(failed).rejects.toThrow('P-256');
    await using served = await serve(hello, { log: memoryLog(), port, page: false });
    expect((await fetch(`${served.url}/readyz`)).status).toBe(200);
  });

  test('unlocks the store that it opened', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'duolane-'));
    const cwd = process.cwd();
    process.chdir(directory);
    try {
      const busy = createServer().listen(0, '127.0.0.1');
      await once(busy, 'listening');
      const { port } = busy.address() as AddressInfo;
      await expect(serve(hello, { port, page: false })).rejects.toThrow('is in use');
      busy.close();
      await using served = await serve(hello, { page: false });
      expect((await fetch(`${served.url}/readyz`)).status).toBe(200);
    } finally {
      process.chdir(cwd);
      await rm(directory, { recursive: true });
    }
  });
});

test('disposing closes everything, also after a resource that fails to close', async () => {
  const closed: string[] = [];
  const resource = (name: string, fails = false): AsyncDisposable => ({
    async [Symbol.asyncDispose]() {
      closed.push(name);
      if (fails) throw new Error(`${name} failed to close`);
    },
  });
  const log = memoryLog();
  const served = await serve(hello, {
    log,
    page: false,
    resources: [resource('first'), resource('second', true), resource('third')],
  });
  await expect(served[Symbol.asyncDispose]()).rejects.toThrow('second failed to close');
  expect(closed).toEqual(['third', 'second', 'first']);
  await expect(fetch(`${served.url}/healthz`)).rejects.toThrow();
  await log[Symbol.asyncDispose]();
});

test('the error of an agent goes to stderr if no logger is given', async () => {
  const written: string[] = [];
  const write = vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    written.push(String(text));
    return true;
  });
  try {
    const throws: Agent = async function* () {
      yield { type: 'status', message: 'soon' };
      throw new Error('the warehouse is on fire');
    };
    await using served = await serve(throws, { log: memoryLog(), page: false });
    const stream = (await connectA2A(served.url)).stream('go');
    await stream.result();
    expect(written.join('')).toContain('agent agent failed: the warehouse is on fire');
    expect(JSON.stringify(stream.status)).not.toContain('warehouse');
  } finally {
    write.mockRestore();
  }
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

test('only their user can read the files of a store and its blobs', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'duolane-'));
  const umask = process.umask(0o022);
  try {
    const blobs = fileBlobs({ directory: join(directory, 'blobs') });
    await using log = await openTaskLog(join(directory, 'store', 'tasks.sqlite'));
    await using served = await serve(hello, { log, page: false });
    await (await connectA2A(served.url)).send('go');
    await blobs.put({ task: 't', mediaType: 'text/plain' }, [Buffer.from('x')]);
    const found = await readdir(directory, { recursive: true, withFileTypes: true });
    const modes = await Promise.all(
      found.map(async (entry) => {
        const { mode } = await stat(join(entry.parentPath, entry.name));
        return `${entry.isDirectory() ? 'folder' : entry.name.replace(/.*-(?=\w+$)/, '')} ${(mode & 0o777).toString(8)}`;
      }),
    );
    expect(modes.length).toBeGreaterThanOrEqual(8);
    expect(modes.filter((each) => !/^folder 700$|^(?!folder).* 600$/.test(each))).toEqual([]);
  } finally {
    process.umask(umask);
    await rm(directory, { recursive: true });
  }
});
