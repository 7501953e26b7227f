import { expect, test } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { spawnProcess } from '../../src/process/index.ts';
import { LineHost } from './json-lines.ts';
import { prompt, stub, type StubScript } from './stub-cli.ts';

interface Session extends AsyncDisposable {
  readonly host: LineHost;
  readonly peer: ReturnType<typeof spawnProcess>;
}

function open(script: StubScript | string = {}): Session {
  const peer = spawnProcess({ ...stub(script), graceMs: 200, killMs: 200 });
  return {
    peer,
    host: new LineHost(peer),
    [Symbol.asyncDispose]: () => peer[Symbol.asyncDispose](),
  };
}

const rpc = (frame: JsonObject): { id?: number; method: string } =>
  (frame['request'] as { message: { id?: number; method: string } }).message;

test('a prompt is echoed, the turn ends with one result, and end of file ends the process', async () => {
  await using session = open();
  const { host, peer } = session;
  host.request('1', { subtype: 'initialize' });
  host.prompt('hello');
  await host.until({ type: 'control_response' });
  const result = await host.until({ type: 'result' });
  expect(result).toMatchObject({ subtype: 'success', result: 'echo: hello' });
  peer.endInput();
  await host.rest();
  expect(await peer.exited).toMatchObject({ code: 0 });
});

test('a prompt that is a script calls tools, two in flight with equal JSON-RPC ids', async () => {
  await using session = open();
  const { host } = session;
  const call = (id: string): JsonObject => ({ server: 's', tool: 't', id, rpcId: 7 });
  host.prompt(prompt({ call: [call('a'), call('b')] }, { say: 'last {{last}}' }));
  const first = await host.until({ type: 'control_request' });
  const second = await host.until({ type: 'control_request' });
  expect([rpc(first).id, rpc(second).id]).toEqual([7, 7]);
  for (const [frame, text] of [
    [second, 'two'],
    [first, 'one'],
  ] as const) {
    const result = { content: [{ type: 'text', text }] };
    host.answer(frame, { mcp_response: { jsonrpc: '2.0', id: 7, result } });
  }
  expect(await host.until({ type: 'result' })).toMatchObject({ result: 'last one', num_turns: 3 });
});

test('with an early handshake it responds to initialize only after its servers have listed', async () => {
  await using session = open('early-handshake');
  const { host } = session;
  host.request('1', { subtype: 'initialize', sdkMcpServers: ['s'] });
  for (const method of ['initialize', 'notifications/initialized', 'tools/list']) {
    const frame = await host.until({ type: 'control_request' });
    expect(rpc(frame).method).toBe(method);
    const result = { tools: [{ name: 'add' }] };
    host.answer(frame, { mcp_response: { jsonrpc: '2.0', id: rpc(frame).id ?? 0, result } });
  }
  await host.until({ type: 'control_response' });
  host.prompt('hi');
  const init = await host.until({ type: 'system', subtype: 'init' });
  expect(init['tools']).toEqual(['mcp__s__add']);
});

test('an interrupt cancels pending requests and ends the turn with an error result', async () => {
  await using session = open();
  const { host, peer } = session;
  host.prompt(prompt({ permission: { tool: 'Bash', input: { command: 'ls' } } }));
  const asked = await host.until({ type: 'control_request' });
  host.request('i', { subtype: 'interrupt' });
  const withdrawn = await host.until({ type: 'control_cancel_request' });
  expect(withdrawn['request_id']).toBe(asked['request_id']);
  expect(await host.until({ type: 'result' })).toMatchObject({ is_error: true });
  peer.endInput();
  await host.rest();
  expect(await peer.exited).toMatchObject({ code: 1 });
});

test('hooks, permissions and unknown requests show the response of the host in {{last}}', async () => {
  await using session = open();
  const { host } = session;
  host.request('1', {
    subtype: 'initialize',
    hooks: { Stop: [{ hookCallbackIds: ['h1', 'h2'] }] },
  });
  const ask = { permission: { tool: 'Bash' } };
  host.prompt(prompt(ask, { say: '{{last}}' }, { hook: 'Stop' }, { say: '{{last}}' }));
  host.answer(await host.until({ type: 'control_request' }), { behavior: 'deny', message: 'no' });
  for (const continues of [true, false]) {
    host.answer(await host.until({ type: 'control_request' }), { continue: continues });
  }
  const result = await host.until({ type: 'result' });
  expect(result['result']).toBe('[{"continue":true},{"continue":false}]');
  expect(host.seen.some((line) => line.includes('"text":"deny"'))).toBe(true);
});

test('a request that is pending at end of file fails inside the turn, as in the real CLI', async () => {
  await using session = open();
  const { host, peer } = session;
  host.prompt(prompt({ call: { server: 's', tool: 't' } }, { say: '{{last}}' }));
  await host.until({ type: 'control_request' });
  peer.endInput();
  expect(await host.until({ type: 'result' })).toMatchObject({ result: 'Stream closed' });
});

test.each([
  ['junk', 'still here'],
  ['null', 'still here'],
  ['crlf', 'echo: hi'],
  ['chunks', 'echo: hi'],
  ['no-last-newline', 'cut'],
  ['keep-alive', 'alive'],
  ['stderr-flood', 'done'],
  ['late-request', 'done'],
])('mode %s still delivers its result', async (mode, text) => {
  await using session = open(mode);
  const { host } = session;
  host.prompt('hi');
  expect(await host.until({ type: 'result' })).toMatchObject({ result: text });
});

test('a flood and a 20 MB line arrive completely', async () => {
  await using session = open();
  const { host } = session;
  host.prompt('!flood 5000 200');
  await host.until({ type: 'result' });
  expect(host.seen.filter((line) => line.includes('"assistant"'))).toHaveLength(5000);
  host.prompt('!long-line');
  const long = await host.until({ type: 'assistant' });
  expect(JSON.stringify(long).length).toBeGreaterThan(20_000_000);
});

test('a crash exits with 3 and keeps its stderr', async () => {
  await using session = open('crash');
  const { host, peer } = session;
  host.prompt('hi');
  await host.rest();
  expect(await peer.exited).toEqual({ code: 3, stderr: 'fatal: boom\n' });
});

test('a background task gives a second result before the session is idle', async () => {
  await using session = open('background');
  const { host } = session;
  host.prompt('hi');
  await host.until({ type: 'result' });
  await host.until({ type: 'system', subtype: 'task_notification' });
  expect(await host.until({ type: 'result' })).toMatchObject({ result: 'background' });
  const idle = await host.until({ type: 'system', subtype: 'session_state_changed' });
  expect(idle['state']).toBe('idle');
});
