import { createServer, request } from 'node:http';
import { once } from 'node:events';
import { cp, mkdir } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Agent } from '../../src/event/types.ts';
import { serve, type Served } from '../../src/serve/index.ts';
import { createSdkMcpServer, query, tool } from '../../src/host/index.ts';
import { memoryLog } from '../../src/task/memory/memory-log.ts';
import type { Finding } from '../../src/trace/index.ts';
import { Workspace } from '../agent-cli/workspace.ts';
import { STUB_CLI } from '../support/stub-cli.ts';
import { verifies } from '../verifies.ts';
import { expectNoStack, PATH_AGENT, Place } from './support.ts';

let place: Place;
beforeEach(async () => {
  place = await Place.open();
});
afterEach(async () => {
  await place[Symbol.asyncDispose]();
});

interface Report {
  readonly facts: readonly string[];
  readonly findings: readonly Finding[];
}

const rules = ({ findings }: Report): string[] => findings.map(({ rule }) => rule);

test('the installation is checked, and what is missing says what it costs', async () => {
  const ended = await place.run(['doctor', '--json']);
  expect(ended.code).toBe(0);
  const { checks } = JSON.parse(ended.stdout) as {
    checks: { name: string; state: string; fix?: string }[];
  };
  const state = Object.fromEntries(checks.map((check) => [check.name, check.state]));
  expect(state).toMatchObject({
    node: 'ok',
    build: 'ok',
    sqlite: 'ok',
    store: 'ok',
    port: 'ok',
    temp: 'ok',
  });
  for (const check of checks) expect(check.state === 'ok' || check.fix !== undefined).toBe(true);
});

test('for a minimal installation it lists every optional part with its cost and fix', async () => {
  // A package with nothing of its developers around it.
  await mkdir(place.file('package'));
  for (const part of ['dist', 'package.json'])
    await cp(new URL(`../../${part}`, import.meta.url), place.file(`package/${part}`), {
      recursive: true,
    });
  const { stdout } = await place.run(['doctor', '--json'], {
    command: place.file('package/dist/cli/duolane.js'),
  });
  const { checks } = JSON.parse(stdout) as { checks: Record<string, string>[] };
  for (const [name, install] of [
    ['postgres', 'npm install pg'],
    ['telemetry', 'npm install @opentelemetry/api'],
    ['duckdb', 'npm install @duckdb/node-api'],
  ])
    expect(checks).toContainEqual(
      expect.objectContaining({ name, state: 'optional', fix: install, cost: expect.any(String) }),
    );
});

test('a port in use and a place that cannot be written are found', async () => {
  await place.write('file', 'not a folder');
  const busy = createServer().listen(0, '127.0.0.1');
  await once(busy, 'listening');
  const { port } = busy.address() as AddressInfo;
  const { code, stdout } = await place.run([
    'doctor',
    '--port',
    String(port),
    '--store',
    'file/tasks.sqlite',
  ]);
  busy.close();
  expect(code).toBe(1);
  expect(stdout).toMatch(/✗ port .*is in use/);
  expect(stdout).toMatch(/✗ store .*cannot be written/);
});

verifies(
  ['S97', 'S267'],
  'a recorded session with a lost tool answer is found, with line and fix',
  async () => {
    const script = { turns: [[{ call: { server: 'calc', tool: 'add' } }, { say: 'done' }]] };
    const wrapped = place.start(['wrap', '--trace', 'run.jsonl', '--', STUB_CLI], {
      env: { STUB_SCRIPT: JSON.stringify(script) },
    });
    wrapped.type(
      `${JSON.stringify({ type: 'user', message: { role: 'user', content: 'add' } })}\n`,
    );
    await wrapped.says(/tools\/call/);
    wrapped.child.stdin?.end(); // as a string prompt does
    await wrapped.end();
    const ended = await place.run(['doctor', 'run.jsonl']);
    expect(ended.code).toBe(1);
    expect(ended.stdout).toMatch(
      /run\.jsonl:\d+ stdin was closed while the CLI waited for tools\/call add on calc/,
    );
    expect(ended.stdout).toMatch(/tool-answer-lost: keep stdin open/);
    expectNoStack(ended);
  },
);

test('the entries of a run are a sound log, and can be shown again', async () => {
  const { stdout } = await place.run(['demo', PATH_AGENT, '--json']);
  await place.write('log.jsonl', stdout);
  const ended = await place.run(['doctor', 'log.jsonl']);
  expect(ended.stdout).toMatch(/entries of a log, no problems found\n$/);
  expect(ended.code).toBe(0);
  const replayed = await place.run(['replay', 'log.jsonl', '--speed', '50']);
  expect(replayed).toMatchObject({ code: 0 });
  expect(replayed.stdout).toContain('The tool says: lane: one of two\ncompleted\n');
});

test('a damaged entry does not end the replay of the others', async () => {
  const entries = [
    { seq: 1, at: 1, type: 'status' },
    { seq: 2, at: 2, type: 'status', message: 'still here' },
  ];
  await place.write('damaged.jsonl', entries.map((entry) => JSON.stringify(entry)).join('\n'));
  const ended = await place.run(['replay', 'damaged.jsonl', '--speed', '50']);
  expect(ended).toMatchObject({ code: 0 });
  expect(ended.stdout).toBe('line 1: the entry is damaged; see duolane doctor\nstill here\n');
});

test('a trace of our own host is sound, too', async () => {
  await using workspace = await Workspace.open();
  const script = [{ tools: [{ name: 'mcp__calc__add', input: {} }] }, { text: 'it is {{last}}' }];
  const trace = place.file('host.jsonl');
  const add = tool('add', 'Adds', {}, () => '5');
  const run = query({
    prompt: 'add',
    options: {
      cwd: workspace.cwd,
      env: workspace.env,
      model: await workspace.script(script),
      mcpServers: { calc: createSdkMcpServer({ name: 'calc', tools: [add] }) },
      allowedTools: ['mcp__calc__add'],
      trace,
    },
  });
  const types: string[] = [];
  for await (const { type } of run) types.push(type);
  expect(types).toContain('result');
  const { code, stdout } = await place.run(['doctor', trace]);
  expect(stdout).toMatch(/\d+ frames, no problems found\n$/);
  expect(code).toBe(0);
});

test('a file that is not a trace is refused', async () => {
  await place.write('x.txt', 'hello');
  const ended = await place.run(['doctor', 'x.txt']);
  expect(ended.code).toBe(2);
  expect(ended.stderr).toMatch(/expected a trace/);
});

describe('a running server', () => {
  const counting: Agent = async function* () {
    for (let n = 0; n < 20; n++) {
      await new Promise((resolve) => setTimeout(resolve, 30));
      yield { type: 'text.delta', id: 'a', delta: `${n} ` };
      if (n % 5 === 0) yield { type: 'status', message: `at ${n}` };
    }
  };
  let served: Served;
  beforeEach(async () => {
    served = await serve(counting, { log: memoryLog(), page: false });
  });
  afterEach(async () => {
    await served[Symbol.asyncDispose]();
    await served.log[Symbol.asyncDispose]();
  });

  async function probe(url: string): Promise<Report & { readonly code: number | null }> {
    const ended = await place.run(['doctor', url, '--json', '--timeout', '20']);
    expectNoStack(ended);
    return { ...(JSON.parse(ended.stdout) as Report), code: ended.code };
  }

  test('of ours keeps the contract, also when the connection is cut', async () => {
    const report = await probe(served.url);
    expect(report.findings).toEqual([]);
    expect(report.code).toBe(0);
    expect(report.facts.join('\n')).toMatch(/reconnected after the event \S+: \d+ further events/);
  });

  /** A proxy in front of it that does harm. */
  async function proxy(
    harm: (body: string, path: string) => string,
  ): Promise<AsyncDisposable & { url: string }> {
    const server = createServer((incoming, outgoing) => {
      const target = new URL(incoming.url ?? '/', served.url);
      const onward = request(
        target,
        { method: incoming.method, headers: { ...incoming.headers, host: target.host } },
        (answer) => {
          let body = '';
          answer.setEncoding('utf8').on('data', (text: string) => (body += text));
          answer.on('end', () => {
            const { 'content-length': _length, ...headers } = answer.headers;
            outgoing
              .writeHead(answer.statusCode ?? 500, headers)
              .end(harm(body.replaceAll(served.url, own()), target.pathname));
          });
        },
      );
      incoming.pipe(onward);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const own = (): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return {
      url: own(),
      async [Symbol.asyncDispose]() {
        server.closeAllConnections();
        server.close();
        await once(server, 'close');
      },
    };
  }

  verifies(['S267'], 'behind a proxy that buffers: a finding with the measured times', async () => {
    await using buffering = await proxy((body) => body);
    const report = await probe(buffering.url);
    expect(rules(report)).toContain('stream-buffered');
    expect(report.code).toBe(1);
  });

  test('that loses its last event: a finding', async () => {
    await using losing = await proxy((body, path) =>
      path.includes('a2a') ? body.replace(/data: .*TASK_STATE_COMPLETED.*\n\n/g, '') : body,
    );
    expect(rules(await probe(losing.url))).toContain('stream-no-final');
  });

  test('without a card, or not running: an error without a stack', async () => {
    const ended = await place.run(['doctor', 'http://127.0.0.1:1']);
    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(/cannot reach \S+: is the server running\?/);
    expectNoStack(ended);
    await using empty = await proxy(() => 'nothing here');
    expect(rules(await probe(empty.url))).toEqual(['server-card']);
  });
});
