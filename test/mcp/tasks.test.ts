import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { createInterface } from 'node:readline';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import type { JsonObject } from '../../src/json.ts';
import { dialGrpc, offerGrpc, openTunnel } from '../../src/mcp/grpc/index.ts';
import { dialMessages } from '../../src/mcp/json-rpc/client/dial-messages.ts';
import { dialHttp } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { mcpHandler } from '../../src/mcp/json-rpc/http/server/mcp-handler.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import { offerMessages } from '../../src/mcp/json-rpc/server/offer-messages.ts';
import { serveMessages } from '../../src/mcp/json-rpc/server/serve-messages.ts';
import { createRegistry } from '../../src/mcp/registry/registry.ts';
import { tool } from '../../src/mcp/registry/tool.ts';
import { callToEnd } from '../../src/mcp/sources/call-to-end.ts';
import { gateway } from '../../src/mcp/sources/gateway.ts';
import { TASK_CAPABILITY } from '../../src/mcp/sources/task-codec.ts';
import { withTasks } from '../../src/mcp/tasks/index.ts';
import type { SourceTasks, ToolEvent, ToolSource, ToolTask } from '../../src/mcp/types.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { memoryLog } from '../../src/task/index.ts';
import { listen } from '../../src/http/node-server.ts';
import { toArray } from '../contracts/tool-source.contract.ts';
import { messagePair } from '../support/mcp/message-pair.ts';

/** Long tools whose work the test ends. */
function longTools(scope: Disposer): {
  source: ToolSource;
  readonly finish: () => void;
  log: ReturnType<typeof memoryLog>;
} {
  let finish = (): void => {};
  const finished = new Promise<void>((resolve) => (finish = resolve));
  const registry = createRegistry({
    name: 'long-tools',
    tools: [
      tool('quick', 'Is quick', {}, () => 'quick'),
      tool(
        'work',
        'Works until the test ends it',
        {},
        async (_, ctx) => {
          await ctx.progress(1, 2, 'half');
          await new Promise<void>((resolve, reject) => {
            void finished.then(resolve);
            ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason as Error));
          });
          return 'worked';
        },
        { long: true },
      ),
      tool(
        'confirm',
        'Asks',
        { what: z.string() },
        async ({ what }, ctx) => {
          const ask = (id: string) => ctx.ask({ id, kind: 'approval', message: `${what} ${id}?` });
          const answers = await Promise.all([ask('one'), ask('two')]);
          return answers.map(({ action }) => action).join();
        },
        { long: true },
      ),
      tool('required', 'Needs a task', {}, () => 'required', { long: 'required' }),
      tool('large', 'Has a large result', {}, () => '🙂'.repeat(1_500_000), { long: true }),
      tool('later', 'Continues as a task', {}, async (_, ctx) => {
        await ctx.continueAsTask();
        return 'later';
      }),
    ],
  });
  const log = scope.use(memoryLog());
  return {
    source: scope.use(withTasks(registry, { log, pollIntervalMs: 50, graceMs: 50 })),
    finish,
    log,
  };
}

const capabilities = { elicitation: {} };

/** The ways from a client to the tasks: both kinds of the protocol, gRPC, and bridges of them. */
const WAYS: Record<string, (scope: Disposer, source: ToolSource) => Promise<ToolSource>> = {
  direct: async (_, source) => source,
  async 'stateless http'(scope, source) {
    const { url } = scope.use(await offerHttp(source));
    return scope.use(await dialHttp({ url, protocol: 'stateless', capabilities }));
  },
  async 'session http'(scope, source) {
    const { url } = scope.use(await offerHttp(source));
    return scope.use(await dialHttp({ url, protocol: 'session', capabilities }));
  },
  async 'session messages'(scope, source) {
    const [near, far] = messagePair();
    scope.use(serveMessages(source, far));
    return scope.use(await dialMessages(near, { capabilities }));
  },
  async grpc(scope, source) {
    const { url } = scope.use(await offerGrpc(source));
    return scope.use(await dialGrpc({ url }));
  },
  async 'grpc tunnel'(scope, source) {
    const tunnel = (transport: Parameters<typeof serveMessages>[1]) =>
      serveMessages(source, transport);
    const { url } = scope.use(await offerGrpc(source, { tunnel }));
    return scope.use(await dialMessages(openTunnel({ url }), { capabilities }));
  },
  async 'http > grpc > http'(scope, source) {
    const http = scope.use(await offerHttp(source));
    const near = scope.use(await dialHttp({ url: http.url, protocol: 'stateless', capabilities }));
    const grpc = scope.use(await offerGrpc(near));
    const far = scope.use(await dialGrpc({ url: grpc.url }));
    const { url } = scope.use(await offerHttp(far));
    return scope.use(await dialHttp({ url, protocol: 'stateless', capabilities }));
  },
  async 'stateless > session'(scope, source) {
    const http = scope.use(await offerHttp(source));
    const near = scope.use(await dialHttp({ url: http.url, protocol: 'session', capabilities }));
    const { url } = scope.use(await offerHttp(near));
    return scope.use(await dialHttp({ url, protocol: 'stateless', capabilities }));
  },
  async gateway(scope, source) {
    const many = scope.use(gateway({ long: source }));
    // The names of the tools are prefixed; the rest of this test does not know that.
    const callTool: ToolSource['callTool'] = (call, options) =>
      many.callTool({ ...call, name: `long__${call.name}` }, options);
    return { info: many.info, listTools: () => many.listTools(), callTool, tasks: many.tasks! };
  },
};

let calls = 0;
async function start(source: ToolSource, name: string, args: JsonObject = {}): Promise<ToolTask> {
  const call = { id: `call-${(calls += 1)}`, name, args };
  const [last] = (await toArray(source.callTool(call, { task: true }))).slice(-1);
  if (last?.type !== 'task') throw new Error(`expected a task, got ${JSON.stringify(last)}`);
  return last.task;
}

/** Watches a task until it has a status, or has ended. */
async function until(
  tasks: SourceTasks,
  { taskId }: ToolTask,
  status: ToolTask['status'],
): Promise<ToolTask> {
  let last: ToolTask | undefined;
  for await (const task of tasks.watch(taskId)) {
    last = task;
    if (task.status === status) break;
  }
  return last!;
}

const text = (task: ToolTask): unknown => task.result?.['content'];
const worked = [{ type: 'text', text: 'worked' }];

for (const [way, connect] of Object.entries(WAYS))
  describe(`tasks: ${way}`, () => {
    test('a long call becomes a task, which goes on and is found', async () => {
      await using scope = new Disposer();
      const { source, finish } = longTools(scope);
      const dialled = await connect(scope, source);
      const task = await start(dialled, 'work');
      expect(task).toMatchObject({ status: 'working', ttlMs: 86_400_000, pollIntervalMs: 50 });
      expect(await dialled.tasks!.get(task.taskId)).toMatchObject({ status: 'working' });
      finish();
      const ended = await until(dialled.tasks!, task, 'completed');
      expect(ended).toMatchObject({ taskId: task.taskId, status: 'completed' });
      expect(text(ended)).toEqual(worked);
      expect(text(await dialled.tasks!.get(task.taskId))).toEqual(worked);
    });

    test('a task asks in the middle, and goes on when all is answered', async () => {
      await using scope = new Disposer();
      const dialled = await connect(scope, longTools(scope).source);
      const tasks = dialled.tasks!;
      const task = await start(dialled, 'confirm', { what: 'delete' });
      const asked = await until(tasks, task, 'input_required');
      expect(asked.inputRequests).toMatchObject({
        one: { method: 'elicitation/create', params: { message: 'delete one?' } },
        two: { method: 'elicitation/create' },
      });
      await tasks.update(task.taskId, { unknown: { action: 'accept' } });
      await tasks.update(task.taskId, { one: { action: 'accept' } });
      await expect
        .poll(async () => Object.keys((await tasks.get(task.taskId)).inputRequests ?? {}))
        .toEqual(['two']);
      await tasks.update(task.taskId, { two: { action: 'decline' } });
      const ended = await until(tasks, task, 'completed');
      expect(text(ended)).toEqual([{ type: 'text', text: 'accept,decline' }]);
    });

    test('a cancelled task ends as cancelled, however often it is cancelled', async () => {
      await using scope = new Disposer();
      const dialled = await connect(scope, longTools(scope).source);
      const tasks = dialled.tasks!;
      const task = await start(dialled, 'work');
      await tasks.cancel(task.taskId);
      expect(await until(tasks, task, 'cancelled')).toMatchObject({ status: 'cancelled' });
      await tasks.cancel(task.taskId);
      expect(await tasks.get(task.taskId)).toMatchObject({ status: 'cancelled' });
    });

    test('a call that does not ask for a task gets its result, also of a tool that needs one', async () => {
      await using scope = new Disposer();
      const { source, finish } = longTools(scope);
      const dialled = await connect(scope, source);
      finish();
      const result = async (name: string): Promise<ToolEvent | undefined> =>
        (await toArray(dialled.callTool({ id: `plain-${name}`, name, args: {} }))).at(-1);
      expect(await result('work')).toMatchObject({ type: 'result', result: { content: worked } });
      expect(await result('later')).toMatchObject({ type: 'result' });
      if (way !== 'direct' && way !== 'gateway')
        expect(await result('required')).toMatchObject({ type: 'result' });
      else await expect(result('required')).rejects.toMatchObject({ code: 'server' });
    });

    test('a tool that is not long answers immediately; one that decides so continues as a task', async () => {
      await using scope = new Disposer();
      const dialled = await connect(scope, longTools(scope).source);
      const quick = dialled.callTool({ id: 'quick', name: 'quick', args: {} }, { task: true });
      expect((await toArray(quick)).map(({ type }) => type)).toEqual(['result']);
      const task = await start(dialled, 'later');
      expect(text(await until(dialled.tasks!, task, 'completed'))).toEqual([
        { type: 'text', text: 'later' },
      ]);
    });

    test('an unknown task is refused', async () => {
      await using scope = new Disposer();
      const { tasks } = await connect(scope, longTools(scope).source);
      for (const refused of [
        () => tasks!.get('nothing'),
        () => tasks!.update('nothing', {}),
        () => tasks!.cancel('nothing'),
        () => toArray(tasks!.watch('nothing')),
      ])
        await expect(refused()).rejects.toMatchObject({
          code: expect.stringMatching(/^(not_found|invalid)$/) as string,
        });
    });

    test('callToEnd follows a task like any other call', async () => {
      await using scope = new Disposer();
      const { source, finish } = longTools(scope);
      const dialled = await connect(scope, source);
      const call = { id: 'to-end', name: 'confirm', args: { what: 'go' } };
      const first = await toArray(callToEnd(dialled, call));
      expect(first.map(({ type }) => type)).toEqual(['task', 'input']);
      const input = first.at(-1) as Extract<ToolEvent, { type: 'input' }>;
      const answers = input.requests.map(({ id }) => ({ id, action: 'accept' }) as const);
      const last = await toArray(callToEnd(dialled, { ...call, answers, state: input.state! }));
      expect(last).toMatchObject([
        { type: 'result', result: { content: [{ type: 'text', text: 'accept,accept' }] } },
      ]);
      // A reader that leaves cancels the task.
      let left: ToolTask | undefined;
      for await (const event of callToEnd(dialled, { id: 'leave', name: 'work', args: {} })) {
        if (event.type === 'task') left = event.task;
        break;
      }
      expect(left).toBeDefined();
      await until(dialled.tasks!, left!, 'cancelled').catch(() => {});
      finish();
    });
  });

test('a result of several megabytes is kept and arrives whole', async () => {
  await using scope = new Disposer();
  const dialled = await WAYS['stateless http']!(scope, longTools(scope).source);
  const task = await start(dialled, 'large');
  const ended = await until(dialled.tasks!, task, 'completed');
  const [{ text: large }] = ended.result!['content'] as [{ text: string }];
  expect(large === '🙂'.repeat(1_500_000)).toBe(true);
});

describe('owners', () => {
  /** Serves a source over HTTP to the owner that a header names. */
  async function perOwner(scope: Disposer, source: ToolSource): Promise<string> {
    const handler = scope.use(mcpHandler(source));
    const { url } = scope.use(
      await listen((request) => handler.handle(request, request.headers.get('x-owner')!), {}),
    );
    return url;
  }

  for (const protocol of ['session', 'stateless'] as const)
    for (const bridged of [false, true])
      test(`a task of one owner is not found by another (${protocol}${bridged ? ', bridged' : ''})`, async () => {
        await using scope = new Disposer();
        const { source } = longTools(scope);
        const near = bridged ? await WAYS['stateless http']!(scope, source) : source;
        const url = await perOwner(scope, near);
        const as = async (owner: string): Promise<ToolSource> =>
          scope.use(await dialHttp({ url, protocol, headers: { 'x-owner': owner } }));
        const [ann, bob] = [await as('ann'), await as('bob')];
        const { taskId } = await start(ann, 'work');
        expect(await ann.tasks!.get(taskId)).toMatchObject({ status: 'working' });
        for (const attack of [
          () => bob.tasks!.get(taskId),
          () => bob.tasks!.update(taskId, {}),
          () => bob.tasks!.cancel(taskId),
        ])
          await expect(attack()).rejects.toMatchObject({ code: 'invalid' });
        expect(await ann.tasks!.get(taskId)).toMatchObject({ status: 'working' });
        // The same owner finds it from another connection.
        expect(await (await as('ann')).tasks!.get(taskId)).toMatchObject({ status: 'working' });
      });

  test('over gRPC, the owner is what the check of the token returns', async () => {
    await using scope = new Disposer();
    const { source } = longTools(scope);
    const { url } = scope.use(await offerGrpc(source, { token: (token) => token }));
    const as = async (token: string): Promise<ToolSource> =>
      scope.use(await dialGrpc({ url, token }));
    const { taskId } = await start(await as('ann'), 'work');
    expect(await (await as('ann')).tasks!.get(taskId)).toMatchObject({ status: 'working' });
    await expect((await as('bob')).tasks!.get(taskId)).rejects.toMatchObject({
      code: 'not_found',
    });
  });

  test('the same applies to the tunnel of gRPC', async () => {
    await using scope = new Disposer();
    const { source } = longTools(scope);
    const { url } = scope.use(
      await offerGrpc(source, {
        token: (token) => token,
        tunnel: (transport) => serveMessages(source, transport),
      }),
    );
    const as = async (token: string): Promise<ToolSource> => {
      const metadata = (): Record<string, string> => ({ authorization: `Bearer ${token}` });
      return scope.use(await dialMessages(openTunnel({ url, metadata })));
    };
    const { taskId } = await start(await as('ann'), 'work');
    expect(await (await as('ann')).tasks!.get(taskId)).toMatchObject({ status: 'working' });
    const typed = scope.use(await dialGrpc({ url, token: 'ann' }));
    expect(await typed.tasks!.get(taskId)).toMatchObject({ status: 'working' });
    await expect((await as('bob')).tasks!.get(taskId)).rejects.toMatchObject({ code: 'invalid' });
  });
});

describe('kill -9 of the server', () => {
  const server = fileURLToPath(new URL('../fixtures/mcp-task-server.ts', import.meta.url));

  async function serve(
    path: string,
    attempt: string,
  ): Promise<{ child: ChildProcess; url: string }> {
    const child = spawn(process.execPath, ['--import', 'tsx', server, path, attempt], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [url] = (await once(createInterface(child.stdout!), 'line')) as [string];
    return { child, url };
  }

  async function kill(child: ChildProcess): Promise<void> {
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  test('a client gets the state or a typed failure afterwards, and nothing hangs', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'duolane-tasks-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const path = join(folder, 'tasks.db');
    const before = await serve(path, 'first');
    let ids: string[];
    try {
      await using source = await dialHttp({ url: before.url, protocol: 'stateless' });
      const started = [
        await start(source, 'forever'),
        await start(source, 'again'),
        await start(source, 'confirm', { what: 'go' }),
      ];
      await until(source.tasks!, started[2]!, 'input_required');
      ids = started.map(({ taskId }) => taskId);
    } finally {
      await kill(before.child);
    }
    const after = await serve(path, 'second');
    try {
      await using source = await dialHttp({ url: after.url, protocol: 'stateless' });
      const tasks = source.tasks!;
      const [forever, again, confirm] = ids.map((taskId) => ({ taskId }) as ToolTask);
      expect(await until(tasks, forever!, 'failed')).toMatchObject({
        status: 'failed',
        error: { code: -32603, message: expect.stringContaining('stopped') as string },
      });
      const repeated = await until(tasks, again!, 'completed');
      expect(text(repeated)).toEqual([{ type: 'text', text: 'done' }]);
      expect(await tasks.get(confirm!.taskId)).toMatchObject({ status: 'input_required' });
      await tasks.update(confirm!.taskId, { sure: { action: 'accept' } });
      const answered = await until(tasks, confirm!, 'completed');
      expect(text(answered)).toEqual([{ type: 'text', text: 'go: accept' }]);
    } finally {
      await kill(after.child);
    }
  });
});

describe('notifications', () => {
  test('a stateless client is notified of the tasks that it names, and of no others', async () => {
    await using scope = new Disposer();
    const { source, finish } = longTools(scope);
    const end = scope.use(offerMessages(source));
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': TASK_CAPABILITY,
    };
    const request = (id: number, method: string, params: JsonObject): JsonObject => ({
      jsonrpc: '2.0',
      id,
      method,
      params: { _meta, ...params },
    });
    const started = async (id: number): Promise<string> => {
      const response = await end.receive(request(id, 'tools/call', { name: 'work' }));
      return String((response!['result'] as JsonObject)['taskId']);
    };
    const [mine, other] = [await started(1), await started(2)];
    const seen: JsonObject[] = [];
    const leave = new AbortController();
    const listening = end.receive(
      request(3, 'subscriptions/listen', { notifications: { taskIds: [mine, 'unknown'] } }),
      { signal: leave.signal, related: async (message) => void seen.push(message) },
    );
    await expect.poll(() => seen.length).toBeGreaterThan(0);
    finish();
    await expect.poll(() => seen.some(({ params }) => statusIn(params) === 'completed')).toBe(true);
    leave.abort();
    await listening;
    expect(seen[0]).toMatchObject({
      method: 'notifications/subscriptions/acknowledged',
      params: { notifications: { taskIds: [mine] } },
    });
    for (const { method, params } of seen.slice(1)) {
      expect(method).toBe('notifications/tasks');
      expect(params).toMatchObject({
        taskId: mine,
        _meta: { 'io.modelcontextprotocol/subscriptionId': 3 },
      });
    }
    expect(JSON.stringify(seen)).not.toContain(other);

    const undeclared = { ..._meta, 'io.modelcontextprotocol/clientCapabilities': {} };
    const notifications = { taskIds: [mine] };
    expect(
      await end.receive(request(4, 'subscriptions/listen', { _meta: undeclared, notifications })),
    ).toMatchObject({ error: { code: -32021 } });
  });

  test('a client that names very many tasks costs at most 100 looks at the store', async () => {
    await using scope = new Disposer();
    const { source } = longTools(scope);
    let looks = 0;
    const get: NonNullable<ToolSource['tasks']>['get'] = (...asked) => {
      looks += 1;
      return source.tasks!.get(...asked);
    };
    const end = scope.use(offerMessages({ ...source, tasks: { ...source.tasks!, get } }));
    const leave = new AbortController();
    const listening = end.receive(
      {
        jsonrpc: '2.0',
        id: 1,
        method: 'subscriptions/listen',
        params: {
          notifications: { taskIds: Array.from({ length: 5_000 }, (_, n) => `unknown ${n}`) },
          _meta: {
            'io.modelcontextprotocol/protocolVersion': '2026-07-28',
            'io.modelcontextprotocol/clientCapabilities': TASK_CAPABILITY,
          },
        },
      },
      { signal: leave.signal, related: async () => leave.abort() },
    );
    await listening;
    expect(looks).toBeLessThanOrEqual(100);
  });

  test('a client of a session is notified of the tasks that it started', async () => {
    await using scope = new Disposer();
    const { source, finish } = longTools(scope);
    const [near, far] = messagePair();
    scope.use(serveMessages(source, far));
    const dialled = scope.use(await dialMessages(near, { capabilities }));
    const task = await start(dialled, 'work');
    finish();
    await expect
      .poll(() =>
        far.sent.some(
          ({ method, params }) =>
            method === 'notifications/tasks' && statusIn(params) === 'completed',
        ),
      )
      .toBe(true);
    expect(await dialled.tasks!.get(task.taskId)).toMatchObject({ status: 'completed' });
  });
});

const statusIn = (params: unknown): unknown => (params as JsonObject | undefined)?.['status'];

describe('time to live', () => {
  test('an expired task is not found, and its run ends', async () => {
    await using scope = new Disposer();
    const log = scope.use(memoryLog());
    let ended = (): void => {};
    const aborted = new Promise<void>((resolve) => (ended = resolve));
    const wait = tool(
      'wait',
      'Waits',
      {},
      (_, { signal }) =>
        new Promise<string>((_done, fail) => {
          signal.addEventListener('abort', () => {
            ended();
            fail(signal.reason as Error);
          });
        }),
      { long: true },
    );
    const registry = createRegistry({ name: 'waits', tools: [wait] });
    const source = scope.use(withTasks(registry, { log, ttlMs: 200, graceMs: 50 }));
    const { taskId, ttlMs } = await start(source, 'wait');
    expect(ttlMs).toBe(200);
    const find = (): Promise<string> =>
      source.tasks.get(taskId).then(
        () => 'found',
        ({ code }: { code: string }) => code,
      );
    await expect.poll(find).toBe('not_found');
    await aborted;
  });

  test('an invalid ttlMs is refused', () => {
    const registry = createRegistry({ name: 'empty' });
    const log = memoryLog();
    expect(() => withTasks(registry, { log, ttlMs: 0.5 })).toThrow('invalid ttlMs "0.5"');
    return log[Symbol.asyncDispose]();
  });
});
