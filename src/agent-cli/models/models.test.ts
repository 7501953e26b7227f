import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import type { JsonObject } from '../../json.ts';
import { aiSdkModel } from './ai-sdk.ts';
import { anthropicModel, readEvents } from './anthropic.ts';
import { chooseModel } from './choose-model.ts';
import { moduleModel } from './module.ts';
import { openAiModel, readChunks, toMessages } from './openai.ts';
import { scriptModel } from './script.ts';
import { MessageBuilder } from '../turn/message-builder.ts';
import type { Block, ChatMessage, Model, ModelEvent, ModelRequest } from './types.ts';

const signal = new AbortController().signal;
const request = (messages: readonly ChatMessage[]): ModelRequest => ({
  model: 'm',
  system: 'be kind',
  messages,
  tools: [{ name: 't', description: 'd', input_schema: {} }],
  maxTokens: 10,
});
const said = (text: string): readonly ChatMessage[] => [{ role: 'user', content: text }];

async function* feed(
  ...data: readonly (JsonObject | string)[]
): AsyncGenerator<string, void, undefined> {
  for (const item of data) yield typeof item === 'string' ? item : JSON.stringify(item);
}
async function collect(stream: AsyncIterable<ModelEvent>): Promise<ModelEvent[]> {
  const out: ModelEvent[] = [];
  for await (const event of stream) out.push(event);
  return out;
}
const short = (events: readonly ModelEvent[]): string[] =>
  events.map((event) => {
    if (event.type === 'text' || event.type === 'thinking') return `${event.type}:${event.text}`;
    if (event.type === 'tool_use') return `call:${event.name}`;
    if (event.type === 'tool_input') return `args:${event.json}`;
    return event.type === 'stop' ? `stop:${event.reason}` : event.type;
  });
const chunk = (delta: JsonObject, finish: string | null = null): JsonObject => ({
  choices: [{ delta, finish_reason: finish }],
});
const toolCall = (fields: JsonObject, fn: JsonObject): JsonObject =>
  chunk({ tool_calls: [{ ...fields, function: fn }] });

test('chat completions: text, reasoning under both names, usage from the last chunk', async () => {
  const events = await collect(
    readChunks(
      feed(
        chunk({ reasoning_content: 'hm ' }),
        chunk({ reasoning: 'ah' }),
        chunk({ content: 'hi' }),
        chunk({}, 'stop'),
        {
          choices: [],
          usage: {
            prompt_tokens: 10,
            completion_tokens: 2,
            prompt_tokens_details: { cached_tokens: 4 },
          },
        },
        '[DONE]',
      ),
    ),
  );
  expect(short(events)).toEqual(['thinking:hm ', 'thinking:ah', 'text:hi', 'stop:end_turn']);
  expect(events.at(-1)).toMatchObject({
    usage: { input_tokens: 6, output_tokens: 2, cache_read_input_tokens: 4 },
  });
});

test('chat completions: calls in pieces, with finish_reason stop', async () => {
  const events = await collect(
    readChunks(
      feed(
        toolCall({ index: 0, id: 'a' }, { name: 'add', arguments: '' }),
        toolCall({ index: 0 }, { arguments: '{"x":' }),
        toolCall({ index: 0 }, { arguments: '1}' }),
        chunk({}, 'stop'),
        '[DONE]',
      ),
    ),
  );
  expect(short(events)).toEqual(['call:add', 'args:{"x":', 'args:1}', 'stop:tool_use']);
});

test('chat completions: parallel calls whose names come first keep their own arguments', async () => {
  const piece = (index: number, args: string): JsonObject =>
    chunk({ tool_calls: [{ index, function: { arguments: args } }] });
  const header = (index: number, name: string): JsonObject =>
    chunk({ tool_calls: [{ index, id: `c${index}`, function: { name, arguments: '' } }] });
  const events = await collect(
    readChunks(
      feed(
        header(0, 'first'),
        header(1, 'second'),
        header(2, 'third'),
        piece(0, '{"x"'),
        piece(1, '{"y"'),
        piece(0, ':1}'),
        piece(1, ':2}'),
        piece(0, ' '),
        chunk({}, 'tool_calls'),
        '[DONE]',
      ),
    ),
  );
  const calls: Record<string, string> = {};
  let last = '';
  for (const event of events) {
    if (event.type === 'tool_use') calls[(last = event.name)] = '';
    else if (event.type === 'tool_input') calls[last] += event.json;
  }
  expect(calls).toEqual({ first: '{"x":1} ', second: '{"y":2}', third: '' });
});

test('chat completions: parallel calls with index 0, without ids, with objects as arguments', async () => {
  const events = await collect(
    readChunks(
      feed(
        toolCall({ index: 0 }, { name: 'one', arguments: { a: 1 } }),
        toolCall({ index: 0 }, { name: 'two', arguments: { b: 2 } }),
        chunk({}, 'tool_calls'),
      ),
    ),
  );
  expect(short(events)).toEqual([
    'call:one',
    'args:{"a":1}',
    'call:two',
    'args:{"b":2}',
    'stop:tool_use',
  ]);
  const ids = events.flatMap((event) => (event.type === 'tool_use' ? [event.id] : []));
  expect(new Set(ids).size).toBe(2);
});

test('chat completions: alternating pieces of two calls are emitted one call after the other', async () => {
  const events = await collect(
    readChunks(
      feed(
        toolCall({ index: 0, id: 'a' }, { name: 'one', arguments: '{"a"' }),
        toolCall({ index: 1, id: 'b' }, { name: 'two', arguments: '{"b"' }),
        toolCall({ index: 0 }, { arguments: ':1}' }),
        toolCall({ index: 1 }, { arguments: ':2}' }),
        chunk({}, 'tool_calls'),
      ),
    ),
  );
  expect(short(events)).toEqual([
    'call:one',
    'args:{"a"',
    'args::1}',
    'call:two',
    'args:{"b":2}',
    'stop:tool_use',
  ]);
});

test('chat completions: an error with status 200, and a stream without an end, fail', async () => {
  await expect(
    collect(
      readChunks(feed(chunk({ content: 'x' }), { error: { code: 503, message: 'no slot' } })),
    ),
  ).rejects.toMatchObject({ status: 503, retryable: true });
  await expect(collect(readChunks(feed(chunk({ content: 'x' }))))).rejects.toMatchObject({
    code: 'network',
    retryable: true,
  });
});

test('chat completions: messages are converted', () => {
  expect(
    toMessages({
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: '5' }] },
        { type: 'text', text: 'and?' },
      ],
    }),
  ).toEqual([
    { role: 'tool', tool_call_id: 'a', content: '5' },
    { role: 'user', content: 'and?' },
  ]);
  expect(
    toMessages({
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'hm' },
        { type: 'tool_use', id: 'a', name: 'add', input: { x: 1 } },
      ],
    }),
  ).toEqual([
    {
      role: 'assistant',
      content: '',
      tool_calls: [{ id: 'a', type: 'function', function: { name: 'add', arguments: '{"x":1}' } }],
    },
  ]);
});

test('Messages API: blocks, usage in two parts, and a stream without an end', async () => {
  const start = {
    type: 'message_start',
    message: { id: 'msg_1', model: 'm', usage: { input_tokens: 7, output_tokens: 1 } },
  };
  const events = await collect(
    readEvents(
      feed(
        start,
        { type: 'ping' },
        {
          type: 'content_block_start',
          index: 0,
          content_block: { type: 'tool_use', id: 'a', name: 'add' },
        },
        {
          type: 'content_block_delta',
          index: 0,
          delta: { type: 'input_json_delta', partial_json: '{}' },
        },
        { type: 'content_block_stop', index: 0 },
        { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 9 } },
        { type: 'message_stop' },
      ),
    ),
  );
  expect(short(events)).toEqual(['start', 'call:add', 'args:{}', 'block_end', 'stop:tool_use']);
  expect(events.at(-1)).toMatchObject({ usage: { input_tokens: 7, output_tokens: 9 } });
  await expect(collect(readEvents(feed(start)))).rejects.toMatchObject({ code: 'network' });
  await expect(
    collect(
      readEvents(
        feed(start, { type: 'error', error: { type: 'overloaded_error', message: 'busy' } }),
      ),
    ),
  ).rejects.toMatchObject({ status: 529 });
});

const finish = {
  v2: {
    type: 'finish',
    finishReason: 'tool-calls',
    usage: { inputTokens: 5, outputTokens: 2, cachedInputTokens: 1 },
  },
  v4: {
    type: 'finish',
    finishReason: { unified: 'tool-calls' },
    usage: { inputTokens: { total: 5, cacheRead: 1 }, outputTokens: { total: 2 } },
  },
};

test.each(['v2', 'v4'] as const)('AI SDK: models of specification %s', async (version) => {
  let asked: JsonObject = {};
  async function* stream(): AsyncGenerator<JsonObject> {
    yield { type: 'stream-start', warnings: [] };
    yield { type: 'text-delta', id: '0', delta: 'hi' };
    yield { type: 'text-end', id: '0' };
    yield { type: 'tool-input-start', id: 'a', toolName: 'add' };
    yield { type: 'tool-input-delta', id: 'a', delta: '{"x":1}' };
    yield { type: 'tool-call', toolCallId: 'a', toolName: 'add', input: '{"x":1}' };
    yield { type: 'tool-call', toolCallId: 'b', toolName: 'sub', input: '{}' };
    yield finish[version];
  }
  const model = aiSdkModel('ai-sdk:x', {
    specificationVersion: version,
    doStream: async (options: JsonObject) => {
      asked = options;
      return { stream: stream() };
    },
  });
  const effort = { effort: 'max' };
  const events = await collect(model.stream({ ...request(said('go')), ...effort }, { signal }));
  expect(short(events)).toEqual([
    'text:hi',
    'block_end',
    'call:add',
    'args:{"x":1}',
    'call:sub',
    'args:{}',
    'stop:tool_use',
  ]);
  expect(events.at(-1)).toMatchObject({
    usage: { input_tokens: 4, output_tokens: 2, cache_read_input_tokens: 1 },
  });
  expect(asked).toMatchObject({
    reasoning: 'max',
    prompt: [
      { role: 'system', content: 'be kind' },
      { role: 'user', content: [{ type: 'text', text: 'go' }] },
    ],
    tools: [{ type: 'function', name: 't' }],
    abortSignal: signal,
  });
});

test('AI SDK: an error part is thrown with its status, and a stream without finish fails', async () => {
  const failing = (parts: JsonObject[]): Model =>
    aiSdkModel('ai-sdk:x', {
      specificationVersion: 'v3',
      doStream: async () => ({
        stream: (async function* () {
          yield* parts;
        })(),
      }),
    });
  const ask = (parts: JsonObject[]): Promise<ModelEvent[]> =>
    collect(failing(parts).stream(request(said('x')), { signal }));
  await expect(
    ask([{ type: 'error', error: Object.assign(new Error('slow'), { statusCode: 429 }) }]),
  ).rejects.toMatchObject({ code: 'rate_limited' });
  await expect(ask([{ type: 'text-delta', delta: 'x' }])).rejects.toMatchObject({
    code: 'network',
  });
  expect(() => aiSdkModel('ai-sdk:x', {})).toThrow('doStream');
});

test('a script uses each matching answer once and fills in the last message', async () => {
  const model = scriptModel('script:x', {
    answers: [
      { when: '^b', text: 'to b' },
      { text: 'first of {{last}}' },
      { repeat: true, text: 'again' },
    ],
  });
  const ask = async (text: string): Promise<string> =>
    (await collect(model.stream(request(said(text)), { signal })))
      .flatMap((event) => (event.type === 'text' ? [event.text] : []))
      .join('');
  expect([await ask('a'), await ask('b'), await ask('b'), await ask('c')]).toEqual([
    'first of a',
    'to b',
    'again',
    'again',
  ]);
  const empty = scriptModel('script:y', []);
  await expect(collect(empty.stream(request(said('hello')), { signal }))).rejects.toThrow(
    'has no unused answer that matches "hello"',
  );
  expect(() => scriptModel('script:z', [{ when: '(' }])).toThrow('expected a regular expression');
  expect(() => scriptModel('script:z', 'x')).toThrow('list of answers');
});

test('a module returns text, a scripted answer, or a stream of texts and events', async () => {
  const ask = async (answer: unknown): Promise<string[]> =>
    short(
      await collect(moduleModel('module:x', () => answer).stream(request(said('x')), { signal })),
    );
  expect(await ask('one two')).toEqual(['start', 'text:one', 'text: two', 'stop:end_turn']);
  expect(await ask({ tools: [{ name: 'add' }] })).toEqual([
    'start',
    'call:add',
    'args:{}',
    'block_end',
    'stop:tool_use',
  ]);
  const pieces = (async function* () {
    yield 'a';
    yield { type: 'tool_use', id: '1', name: 'add' };
  })();
  expect(await ask(pieces)).toEqual(['text:a', 'call:add', 'stop:tool_use']);
  await expect(ask(7)).rejects.toThrow('returned number');
});

test.each([
  [undefined, {}, 'missing model'],
  ['claude-x', {}, 'unknown model "claude-x"'],
  ['openai:llama3', {}, 'missing URL of model'],
  ['anthropic:claude-x', {}, 'missing key for model "anthropic:claude-x"; set ANTHROPIC_API_KEY'],
  ['module:./missing.js', {}, 'cannot load module'],
])('a model that cannot be created is refused with a fix: %s', async (name, env, text) => {
  await expect(chooseModel(name, { env, cwd: '/' })).rejects.toThrow(text);
});

test('a prefix chooses the driver, and the environment chooses it for a name without one', async () => {
  const choose = async (
    name: string | undefined,
    env: Record<string, string>,
  ): Promise<[string, string]> => {
    const { model, id } = await chooseModel(name, { env, cwd: '/' });
    return [model.name, id];
  };
  expect(await choose('openai:llama3@http://localhost:1/v1', {})).toEqual([
    'openai:llama3@http://localhost:1/v1',
    'llama3',
  ]);
  expect(await choose('claude-x', { ANTHROPIC_API_KEY: 'k' })).toEqual(['claude-x', 'claude-x']);
  expect(await choose('anthropic:claude-x', { ANTHROPIC_BASE_URL: 'http://localhost:1' })).toEqual([
    'anthropic:claude-x',
    'claude-x',
  ]);
  // A host that always names a model of its own still gets the one that was set up here.
  expect(await choose('claude-x', { DUOLANE_MODEL: 'openai:a@http://b/v1' })).toEqual([
    'openai:a@http://b/v1',
    'a',
  ]);
});

interface ScriptedReply {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly body: string;
}

/** A model API on loopback: answers each request with the given function, and keeps the bodies. */
async function modelApi(
  reply: (body: JsonObject) => ScriptedReply,
): Promise<{ readonly url: string; readonly bodies: JsonObject[] }> {
  const bodies: JsonObject[] = [];
  const server = createServer((incoming, response) => {
    void readText(incoming).then((text) => {
      const body = JSON.parse(text) as JsonObject;
      bodies.push(body);
      const { status = 200, headers, body: answer } = reply(body);
      response.writeHead(status, { 'content-type': 'text/event-stream', ...headers }).end(answer);
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies };
}

const sse = (...events: readonly JsonObject[]): string =>
  events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');

test('chat completions: max_completion_tokens for a server that refuses max_tokens, from then on', async () => {
  const message =
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
  const api = await modelApi((body) =>
    'max_tokens' in body
      ? { status: 400, body: JSON.stringify({ error: { message } }) }
      : { body: sse(chunk({ content: 'hi' }), chunk({}, 'stop')) },
  );
  const model = openAiModel({ name: 'openai:o', baseUrl: api.url });
  for (let turn = 0; turn < 2; turn++)
    expect(short(await collect(model.stream(request(said('x')), { signal })))).toEqual([
      'text:hi',
      'stop:end_turn',
    ]);
  const limits = api.bodies.map(({ max_tokens, max_completion_tokens }) => [
    max_tokens,
    max_completion_tokens,
  ]);
  expect(limits).toEqual([
    [10, undefined],
    [undefined, 10],
    [undefined, 10],
  ]);
});

test('messages: the system prompt and the last message end a prefix that the provider may keep', async () => {
  const api = await modelApi(() => ({ body: sse({ type: 'message_stop' }) }));
  const model = anthropicModel({ name: 'anthropic:m', baseUrl: api.url });
  const call = { type: 'tool_use', id: 'a', name: 't', input: {} };
  const messages: ChatMessage[] = [
    { role: 'user', content: 'one' },
    { role: 'assistant', content: [call] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: 'r' }] },
  ];
  await collect(model.stream(request(messages), { signal }));
  await collect(model.stream(request(said('')), { signal }));
  const cache_control = { type: 'ephemeral' };
  expect(api.bodies[0]).toMatchObject({
    system: [{ type: 'text', text: 'be kind', cache_control }],
    messages: [
      messages[0],
      messages[1],
      { content: [{ type: 'tool_result', tool_use_id: 'a', content: 'r', cache_control }] },
    ],
  });
  expect(api.bodies[1]).toMatchObject({ messages: [{ content: [{ text: '(no text)' }] }] });
});

test('messages: texts that the API refuses are omitted, with the rest of the history intact', async () => {
  const api = await modelApi(() => ({ body: sse({ type: 'message_stop' }) }));
  const model = anthropicModel({ name: 'anthropic:m', baseUrl: api.url });
  const text = (value: string): Block => ({ type: 'text', text: value });
  const call = (id: string): Block => ({ type: 'tool_use', id, name: 't', input: {} });
  const result = (id: string, content: unknown): Block => {
    return { type: 'tool_result', tool_use_id: id, content };
  };
  const messages: ChatMessage[] = [
    { role: 'user', content: 'one' },
    { role: 'assistant', content: [text('\n\n'), call('a'), call('b'), call('c')] },
    {
      role: 'user',
      content: [
        result('a', [text(''), text('x')]),
        result('b', [text('')]),
        { ...result('c', ''), is_error: true },
      ],
    },
    { role: 'assistant', content: [text('')] },
    { role: 'user', content: 'two' },
  ];
  await collect(model.stream(request(messages), { signal }));
  expect(api.bodies[0]).toMatchObject({
    messages: [
      { content: 'one' },
      { content: [call('a'), call('b'), call('c')] },
      {
        content: [
          result('a', [text('x')]),
          result('b', [text('(no text)')]),
          { ...result('c', '(no text)'), is_error: true },
        ],
      },
      { role: 'assistant', content: [text('(no text)')] },
      { role: 'user' },
    ],
  });
});

test('messages: redacted thinking is kept as it came', async () => {
  const block = { type: 'redacted_thinking', data: 'EmwKAhgB' };
  const events = await collect(
    readEvents(
      feed(
        { type: 'content_block_start', index: 0, content_block: block },
        { type: 'content_block_stop', index: 0 },
        { type: 'message_stop' },
      ),
    ),
  );
  const builder = new MessageBuilder('m');
  for (const event of events) builder.receive(event);
  expect(builder.blocks).toEqual([block]);
});

test('a redirect to another origin gets neither the key nor the conversation', async () => {
  const other = await modelApi(() => ({ body: sse({ type: 'message_stop' }) }));
  const api = await modelApi(() => ({
    status: 307,
    headers: { location: `${other.url}/v1/messages` },
    body: '',
  }));
  const model = anthropicModel({ name: 'anthropic:m', baseUrl: api.url, apiKey: 'dummy' });
  await expect(collect(model.stream(request(said('x')), { signal }))).rejects.toMatchObject({
    code: 'invalid',
    retryable: false,
  });
  expect(other.bodies).toEqual([]);
});

test('a redirect within the origin is followed', async () => {
  let times = 0;
  const api = await modelApi(() =>
    times++ === 0
      ? { status: 308, headers: { location: '/v2/messages' }, body: '' }
      : { body: sse({ type: 'message_stop' }) },
  );
  const model = anthropicModel({ name: 'anthropic:m', baseUrl: api.url });
  expect(short(await collect(model.stream(request(said('x')), { signal })))).toEqual([
    'stop:end_turn',
  ]);
});

test('the body of an error is not read to an end that it may not have', async () => {
  const server = createServer((_, response) => {
    response.writeHead(500);
    const more = (): void => {
      while (!response.destroyed && response.write('x'.repeat(64 * 1024)));
    };
    response.on('drain', more);
    more();
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const model = openAiModel({ name: 'openai:m', baseUrl: `http://127.0.0.1:${port}` });
  await expect(collect(model.stream(request(said('x')), { signal }))).rejects.toMatchObject({
    status: 500,
  });
});
