import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { cli } from '../../src/adapters/cli-agent.ts';
import type { Agent } from '../../src/event/types.ts';
import { createSdkMcpServer, tool } from '../../src/host/index.ts';
import { type Served, serve, type ServeOptions } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/memory/memory-log.ts';
import { openKitchen } from '../outputs/scripted-agent.ts';
import { eventually } from '../support/busy.ts';

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

async function open(agent: Agent, options: ServeOptions = {}): Promise<Served> {
  const served = await serve({ cook: { default: agent } }, { log: memoryLog(), ...options });
  onTestFinished(() => served[Symbol.asyncDispose]());
  return served;
}

const say = ({ url }: Served, text: string, headers: Record<string, string> = {}) =>
  fetch(`${url}/stream-json/cook`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({
      type: 'user',
      session_id: 's',
      message: { role: 'user', content: text },
    }),
  });

const scrape = async ({ url }: Served): Promise<Record<string, number>> => {
  const response = await fetch(`${url}/metrics`);
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  const lines = (await response.text()).split('\n');
  return Object.fromEntries(
    lines
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => {
        const at = line.lastIndexOf(' ');
        return [line.slice(0, at), Number(line.slice(at + 1))];
      }),
  );
};

test('a scrape has the metrics of the process under the usual names', async () => {
  const served = await openKitchen();
  onTestFinished(() => served[Symbol.asyncDispose]());
  const before = await scrape(served);
  const until = performance.now() + 50;
  while (performance.now() < until); // blocks the event loop and uses the processor
  const cpu = 'process_cpu_seconds_total';
  expect((await scrape(served))[cpu]).toBeGreaterThan(before[cpu] ?? Infinity);
  // The delay is sampled by a timer, and each scrape begins a new interval.
  await eventually(async () => {
    await sleep(50);
    const after = await scrape(served);
    for (const name of [
      'process_resident_memory_bytes',
      'process_start_time_seconds',
      'nodejs_heap_size_used_bytes',
      'nodejs_eventloop_lag_p99_seconds',
      'nodejs_eventloop_lag_max_seconds',
    ])
      expect(after[name], name).toBeGreaterThan(0);
  });
});

test('a scrape has the counts of runs, tools, streams, resumes and cancels', async () => {
  const served = await openKitchen();
  onTestFinished(() => served[Symbol.asyncDispose]());
  const said = (await (await say(served, 'everything')).text()).trim().split('\n');
  const { uuid } = JSON.parse(said[3] ?? '') as { uuid: string };
  await (await say(served, 'everything', { 'last-event-id': uuid })).text();
  const long = await say(served, 'long');
  await eventually(async () =>
    expect(await scrape(served)).toMatchObject({
      'duolane_runs_active{agent="cook"}': 1,
      'duolane_streams_active{protocol="stream-json"}': 1,
    }),
  );
  await fetch(`${served.url}/stream-json/cook/s/stop`, { method: 'POST' });
  await long.text();
  await eventually(async () =>
    expect(await scrape(served)).toMatchObject({
      'duolane_stream_first_token_seconds_count{agent="cook"}': 2,
      'duolane_stream_first_token_seconds_bucket{agent="cook",le="10"}': 2,
      'gen_ai_client_operation_time_to_first_chunk_seconds_count{agent="cook"}': 2,
      'gen_ai_execute_tool_duration_seconds_count{agent="cook",tool="search",outcome="completed"}': 1,
      'gen_ai_execute_tool_duration_seconds_count{agent="cook",tool="weigh",outcome="tool"}': 1,
      'gen_ai_invoke_agent_duration_seconds_count{agent="cook",outcome="completed"}': 1,
      'gen_ai_invoke_agent_duration_seconds_count{agent="cook",outcome="canceled"}': 1,
      'duolane_tokens_total{agent="cook",type="input"}': 14,
      'duolane_cancels_total{agent="cook"}': 1,
      'duolane_cancel_seconds_count{agent="cook"}': 1,
      'duolane_runs_active{agent="cook"}': 0,
      'duolane_turns_waiting{agent="cook"}': 0,
      'duolane_streams_active{protocol="stream-json"}': 0,
      'duolane_stream_seconds_count{protocol="stream-json"}': 3,
      'duolane_stream_resumes_total{protocol="stream-json"}': 1,
    }),
  );
});

test('every event of a stream is counted, also if one write has several', async () => {
  const served = await open(async function* () {
    for (let n = 0; n < 40; n++) yield { type: 'status', message: `step ${n}` };
  });
  const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hi' }] };
  const response = await fetch(`${served.url}/a2a`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'SendStreamingMessage',
      params: { message },
    }),
  });
  const events = (await response.text()).match(/^data:/gm)?.length;
  expect(events).toBeGreaterThan(40);
  expect(await scrape(served)).toMatchObject({
    'duolane_stream_events_total{protocol="a2a"}': events,
  });
});

test('metrics require the same authentication as all other routes', async () => {
  const served = await open(async function* () {}, { auth: { bearer: 'secret' } });
  expect((await fetch(`${served.url}/metrics`)).status).toBe(401);
  const headers = { authorization: 'Bearer secret' };
  expect((await fetch(`${served.url}/metrics`, { headers })).status).toBe(200);
});

test('the trace context of a request reaches the agent, over every protocol', async () => {
  const traces: unknown[] = [];
  const served = await open(async function* (_turn, ctx) {
    traces.push(ctx.trace);
  });
  const headers = { traceparent: TRACEPARENT, tracestate: 'a=b' };
  await (await say(served, 'hi', headers)).text();
  const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hi' }] };
  const a2a = await fetch(`${served.url}/a2a`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } }),
  });
  expect(await a2a.json()).toHaveProperty('result');
  await (await say(served, 'hi')).text();
  expect(traces).toEqual([
    { traceparent: TRACEPARENT, tracestate: 'a=b' },
    { traceparent: TRACEPARENT, tracestate: 'a=b' },
    undefined,
  ]);
});

test('telemetry without an SDK in the process changes nothing', async () => {
  const traces: unknown[] = [];
  const served = await open(
    async function* (_turn, ctx) {
      traces.push(ctx.trace?.traceparent);
      yield { type: 'text.delta', id: 't', delta: 'hello' };
    },
    { telemetry: true },
  );
  expect(await (await say(served, 'hi', { traceparent: TRACEPARENT })).text()).toContain('hello');
  await (await say(served, 'hi')).text();
  expect(traces).toEqual([TRACEPARENT, undefined]);
});

test('the trace context of a request reaches the agent CLI and the MCP tools that it calls', async () => {
  const home = mkdtempSync(join(tmpdir(), 'duolane-trace-'));
  onTestFinished(() => rmSync(home, { recursive: true, force: true, maxRetries: 3 }));
  writeFileSync(
    join(home, 'answers.json'),
    JSON.stringify([{ tools: [{ name: 'mcp__calc__run', input: {} }] }, { text: 'done' }]),
  );
  const metas: unknown[] = [];
  const calc = createSdkMcpServer({
    name: 'calc',
    tools: [
      tool('run', 'Runs', { type: 'object' }, async (_args, { meta }) => {
        metas.push(meta?.['traceparent']);
        return 'ok';
      }),
    ],
  });
  const served = await open(
    cli({
      cwd: home,
      env: { HOME: home, CLAUDE_CONFIG_DIR: join(home, 'config') },
      inheritEnv: ['PATH'],
      model: 'script:./answers.json',
      mcpServers: { calc },
      allowedTools: ['mcp__calc__*'],
    }),
  );
  const said = await (await say(served, 'go', { traceparent: TRACEPARENT })).text();
  expect(said).toContain('"result":"done"');
  expect(metas).toEqual([TRACEPARENT]);
  expect(await scrape(served)).toHaveProperty([
    'gen_ai_client_operation_time_to_first_chunk_seconds_count{agent="cook"}',
  ]);
});
