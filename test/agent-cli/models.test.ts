import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { type ModelScript, startModelServer } from '../support/model-server.ts';
import { peer } from '../peers.ts';
import { suite, verifies } from '../verifies.ts';
import { RawHost, Workspace } from './workspace.ts';

const APIS = ['anthropic', 'openai'] as const;
const fast = { DUOLANE_RETRY_BASE_MS: '1', ANTHROPIC_API_KEY: 'dummy', OPENAI_API_KEY: 'dummy' };

async function open(
  api: (typeof APIS)[number],
  script: ModelScript,
  flags: readonly string[] = [],
) {
  const ws = await Workspace.open(fast);
  const server = await startModelServer(script);
  const model = api === 'anthropic' ? 'anthropic:scripted' : `openai:scripted@${server.url}/v1`;
  const host = new RawHost(ws, ['--model', model, ...flags], { ANTHROPIC_BASE_URL: server.url });
  return {
    host,
    server,
    async [Symbol.asyncDispose]() {
      await host[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
      await ws[Symbol.asyncDispose]();
    },
  };
}

test.each(APIS)(
  '%s over HTTP: thinking, text, a tool, and its result in the next request',
  async (api) => {
    await using run = await open(
      api,
      [
        {
          thinking: 'Hm.',
          text: 'I add.',
          tools: [{ id: 'call_1', name: 'mcp__calc__add', input: { a: 2 } }],
        },
        { text: 'It is five.', usage: { input: 11, output: 4 } },
      ],
      ['--allowedTools', 'mcp__calc__*'],
    );
    run.host.serve(
      [{ name: 'add', description: 'Adds' }],
      ({ arguments: args }) => `got ${JSON.stringify(args)}`,
    );
    run.host.prompt('What is 2+3?');
    const result = await run.host.result();
    expect(result).toMatchObject({
      result: 'It is five.',
      is_error: false,
      num_turns: 2,
      stop_reason: 'end_turn',
    });
    expect((result['usage'] as JsonObject)['output_tokens']).toBeGreaterThanOrEqual(4);
    const blocks = run.host.seen
      .filter(({ type }) => type === 'assistant')
      .flatMap(({ message }) => (message as { content: JsonObject[] }).content);
    expect(blocks).toMatchObject([
      { type: 'thinking', thinking: 'Hm.' },
      { type: 'text', text: 'I add.' },
      { type: 'tool_use', id: 'call_1', input: { a: 2 } },
      { type: 'text', text: 'It is five.' },
    ]);
    const [first, second] = run.server.calls;
    expect(JSON.stringify(first?.body['tools'])).toContain('mcp__calc__add');
    expect(JSON.stringify(second?.body['messages'])).toContain('got {');
  },
);

test.each(APIS)(
  '%s over HTTP: status 529 and a lost connection are retried, and partial text is withdrawn',
  async (api) => {
    await using run = await open(
      api,
      [
        { status: 529, message: 'busy' },
        { text: ['half ', 'an ', 'answer'], fail: { after: 3, how: 'cut' } },
        { text: 'whole' },
      ],
      ['--include-partial-messages'],
    );
    run.host.prompt('go');
    expect(await run.host.result()).toMatchObject({ result: 'whole' });
    const retries = run.host.seen.filter(({ subtype }) => subtype === 'api_retry');
    expect(retries).toMatchObject([
      { error_status: 529, discard: false },
      { error_status: null, discard: true },
    ]);
  },
);

test.each(APIS)('%s over HTTP: an interrupt closes the connection', async (api) => {
  await using run = await open(
    api,
    [{ text: 'a b c d e f g h', pieceDelayMs: 500 }],
    ['--include-partial-messages'],
  );
  run.host.prompt('go');
  await run.host.next(
    ({ event }) => (event as JsonObject | undefined)?.['type'] === 'content_block_delta',
  );
  run.host.request('i', 'interrupt');
  expect(await run.host.result()).toMatchObject({ terminal_reason: 'aborted_streaming' });
  expect(await run.server.calls[0]?.closed).toBe('dropped');
});

test.each([
  ['anthropic', ['--effort', 'high'], { output_config: { effort: 'high' } }],
  ['anthropic', ['--thinking', 'disabled'], { thinking: { type: 'disabled' } }],
  [
    'anthropic',
    ['--max-thinking-tokens', '2048'],
    { thinking: { type: 'enabled', budget_tokens: 2048 } },
  ],
  ['openai', ['--effort', 'low'], { reasoning_effort: 'low' }],
  ['openai', ['--effort', 'max'], { reasoning_effort: 'high' }],
  ['openai', ['--thinking', 'disabled'], { reasoning_effort: 'none' }],
] as const)('%s with %j asks for %j', async (api, flags, asked) => {
  await using run = await open(api, [{ text: 'ok' }], flags);
  run.host.prompt('go');
  await run.host.result();
  expect(run.server.calls[0]?.body).toMatchObject(asked);
});

test.each(APIS)(
  '%s: a request without effort and thinking has no members for them',
  async (api) => {
    await using run = await open(api, [{ text: 'ok' }]);
    run.host.prompt('go');
    await run.host.result();
    const body = run.server.calls[0]?.body as JsonObject;
    for (const key of ['thinking', 'output_config', 'reasoning_effort'])
      expect(body).not.toHaveProperty(key);
  },
);

test('Retry-After of status 429 is respected', async () => {
  await using run = await open('anthropic', [
    { status: 429, headers: { 'retry-after': '1' } },
    { text: 'ok' },
  ]);
  run.host.prompt('go');
  const retry = await run.host.type('system', 'api_retry');
  expect(retry).toMatchObject({ error: 'rate_limit' });
  expect(retry['retry_delay_ms']).toBeGreaterThanOrEqual(1000);
  expect(retry['retry_delay_ms']).toBeLessThanOrEqual(1100);
  expect(await run.host.result()).toMatchObject({ result: 'ok' });
});

test('a refused connection is retried, then reported as an error', async () => {
  await using ws = await Workspace.open(fast);
  const gone = await startModelServer([]);
  await gone[Symbol.asyncDispose]();
  await using host = new RawHost(ws, ['--model', `openai:m@${gone.url}/v1`]);
  host.prompt('go');
  expect(await host.result()).toMatchObject({
    is_error: true,
    terminal_reason: 'api_error',
    result: expect.stringContaining('could not be reached'),
  });
  expect(host.seen.filter(({ subtype }) => subtype === 'api_retry')).toHaveLength(2);
});

verifies(
  ['S208', 'S209'],
  'the time to the first token uses a monotonic clock and counts from the message and from the model call',
  async () => {
    await using ws = await Workspace.open(fast);
    const model = await ws.script([
      { error: { status: 500 } },
      { waitMs: 300, text: 'one two three', delayMs: 200 },
    ]);
    // The wall clock goes back an hour on each read.
    const clock = encodeURIComponent('let t = Date.now(); Date.now = () => (t -= 3_600_000);');
    await using host = new RawHost(
      ws,
      ['--model', model, '--settings', '{"retry":{"baseMs":400}}'],
      { DUOLANE_RETRY_BASE_MS: '400', NODE_OPTIONS: `--import=data:text/javascript,${clock}` },
    );
    host.prompt('go');
    const {
      ttft_ms: all,
      ttft_model_ms: call,
      duration_ms: whole,
    } = (await host.result()) as { ttft_ms: number; ttft_model_ms: number; duration_ms: number };
    expect(call).toBeGreaterThanOrEqual(490);
    expect(all).toBeGreaterThanOrEqual(call + 390);
    expect(whole).toBeGreaterThanOrEqual(all + 390);
  },
);

const provider = await peer('ai-provider');
suite('ai-provider', provider.reason, () => {
  test('a provider package of the AI SDK: text, a tool, its result, and a retry', async () => {
    await using ws = await Workspace.open(fast);
    await using server = await startModelServer([
      {
        text: 'I add.',
        tools: [{ id: 'call_1', name: 'mcp__calc__add', input: { a: 2 } }],
      },
      { status: 503, message: 'busy' },
      { text: 'It is five.', usage: { input: 11, output: 4 } },
    ]);
    await writeFile(
      join(ws.cwd, 'provider.mjs'),
      `import { createOpenAICompatible } from ${JSON.stringify(provider.resolve('@ai-sdk/openai-compatible'))};
       export default createOpenAICompatible({
         name: 'loopback', baseURL: ${JSON.stringify(`${server.url}/v1`)}, apiKey: 'dummy',
       }).chatModel('scripted');`,
    );
    const flags = ['--model', 'ai-sdk:./provider.mjs', '--allowedTools', 'mcp__calc__*'];
    await using host = new RawHost(ws, flags);
    host.serve([{ name: 'add', description: 'Adds' }], () => 'got it');
    host.prompt('What is 2+3?');
    expect(await host.result()).toMatchObject({ result: 'It is five.', is_error: false });
    const blocks = host.seen
      .filter(({ type }) => type === 'assistant')
      .flatMap(({ message }) => (message as { content: JsonObject[] }).content);
    expect(blocks).toMatchObject([
      { type: 'text', text: 'I add.' },
      { type: 'tool_use', id: 'call_1', input: { a: 2 } },
      { type: 'text', text: 'It is five.' },
    ]);
    expect(host.types().filter((type) => type === 'system/api_retry')).toHaveLength(1);
    expect(JSON.stringify(server.calls[0]?.body['tools'])).toContain('mcp__calc__add');
    expect(JSON.stringify(server.calls[2]?.body['messages'])).toContain('got it');
  });
});

test('a module, or a provider model of the AI SDK, can be the model', async () => {
  await using ws = await Workspace.open();
  await writeFile(
    join(ws.cwd, 'model.mjs'),
    'export default async function* ({ messages }) { yield "You said "; yield messages.at(-1).content[0].text; }',
  );
  await writeFile(
    join(ws.cwd, 'provider.mjs'),
    `export default { specificationVersion: 'v3', async doStream({ prompt }) {
       const parts = [{ type: 'text-delta', id: '0', delta: prompt.at(-1).content[0].text.toUpperCase() }, { type: 'finish', finishReason: 'stop', usage: { inputTokens: { total: 1 }, outputTokens: { total: 1 } } }];
       return { stream: ReadableStream.from(parts) };
     } };`,
  );
  for (const [model, answer] of [
    ['module:./model.mjs', 'You said hello'],
    ['ai-sdk:./provider.mjs', 'HELLO'],
  ]) {
    await using host = new RawHost(ws, ['--model', model ?? '']);
    host.prompt('hello');
    expect(await host.result()).toMatchObject({ result: answer });
  }
});
