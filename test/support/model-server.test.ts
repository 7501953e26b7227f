import { expect, test } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { startModelServer, type ModelReply } from './model-server.ts';

const messages = (url: string, body: JsonObject = {}, init: RequestInit = {}): Promise<Response> =>
  fetch(`${url}/v1/messages?beta=true`, {
    method: 'POST',
    body: JSON.stringify({ model: 'm', max_tokens: 100, stream: true, messages: [], ...body }),
    ...init,
  });

const completions = (url: string, body: JsonObject = {}): Promise<Response> =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ model: 'm', stream: true, messages: [], ...body }),
  });

const events = (text: string): JsonObject[] =>
  [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json!) as JsonObject);

interface Delta {
  readonly content?: string;
  readonly reasoning?: string;
  readonly tool_calls?: { readonly function: { readonly arguments: string } }[];
}

const REPLY: ModelReply = {
  thinking: 'hm',
  text: 'two words',
  tools: [{ id: 't1', name: 'add', input: { a: 1 } }],
  usage: { input: 7, output: 9 },
};

test('the Messages API streams thinking, text and tool input as deltas', async () => {
  await using server = await startModelServer([REPLY]);
  const all = events(await (await messages(server.url)).text());
  const deltas = all.map(({ delta }) => (delta ?? {}) as JsonObject);
  const joined = (name: string): string => deltas.map((delta) => delta[name] ?? '').join('');
  expect(all[0]).toMatchObject({ type: 'message_start', message: { usage: { input_tokens: 7 } } });
  expect([joined('thinking'), joined('text'), joined('partial_json')]).toEqual([
    'hm',
    'two words',
    '{"a":1}',
  ]);
  expect(all.at(-2)).toMatchObject({
    delta: { stop_reason: 'tool_use' },
    usage: { output_tokens: 9 },
  });
  expect(all.at(-1)).toEqual({ type: 'message_stop' });
});

test('chat completions stream reasoning, text, tool calls, usage and [DONE]', async () => {
  await using server = await startModelServer([{ ...REPLY, reasoningField: 'reasoning' }]);
  const text = await (await completions(server.url)).text();
  const all = events(text);
  const deltas = all.map(({ choices }) => (choices as { delta: Delta }[])[0]?.delta ?? {});
  expect(deltas.map(({ content = '' }) => content).join('')).toBe('two words');
  expect(deltas.map(({ reasoning = '' }) => reasoning).join('')).toBe('hm');
  const calls = deltas.flatMap(({ tool_calls = [] }) => tool_calls);
  expect(calls[0]).toMatchObject({ index: 0, id: 't1', function: { name: 'add' } });
  const args = calls.map((call) => call.function.arguments);
  expect(args.join('')).toBe('{"a":1}');
  expect(all.at(-2)).toMatchObject({ choices: [{ finish_reason: 'tool_calls' }] });
  expect(all.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 7 } });
  expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
});

test('both send one complete response to a request without stream', async () => {
  await using server = await startModelServer([REPLY, REPLY]);
  const message = await (await messages(server.url, { stream: false })).json();
  expect(message).toMatchObject({ content: [{}, { text: 'two words' }, { input: { a: 1 } }] });
  const completion = await (await completions(server.url, { stream: false })).json();
  expect(completion).toMatchObject({
    choices: [{ message: { content: 'two words', tool_calls: [{ id: 't1' }] } }],
  });
});

test('errors have the status, headers and text of the provider', async () => {
  const error: ModelReply = { status: 429, message: 'slow down', headers: { 'retry-after': '2' } };
  await using server = await startModelServer([error, error]);
  const answer = await messages(server.url);
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([429, '2']);
  const body = { type: 'rate_limit_error', message: 'slow down' };
  expect(await answer.json()).toEqual({ type: 'error', error: body });
  expect(await (await completions(server.url)).json()).toMatchObject({ error: body });
  expect((await messages(server.url)).status).toBe(400); // past the end of the script
});

test('an error inside a stream, a dropped connection and a client that disconnects are distinguished', async () => {
  await using server = await startModelServer([
    { text: 'a b c', fail: { after: 3, how: 'error' } },
    { text: 'a b c', fail: { after: 3, how: 'cut' } },
    { text: 'a b c', fail: { after: 3, how: 'hang' } },
  ]);
  const failed = events(await (await messages(server.url)).text());
  expect(failed.at(-1)).toMatchObject({ type: 'error', error: { type: 'overloaded_error' } });
  const cut = await messages(server.url);
  await expect(cut.text()).rejects.toThrow();
  const leaving = new AbortController();
  const left = await messages(server.url, {}, { signal: leaving.signal });
  const reader = left.body!.getReader();
  await reader.read();
  leaving.abort();
  await expect(reader.read()).rejects.toThrow();
  const ends = await Promise.all(server.calls.map(({ closed }) => closed));
  expect(ends).toEqual(['complete', 'dropped', 'dropped']);
});

test('a function gets the request, and side requests do not consume the script', async () => {
  await using server = await startModelServer(({ body, headers }, index) => ({
    text: `${index} ${String(body['model'])} ${String(headers['x-api-key'])}`,
  }));
  const counted = await fetch(`${server.url}/v1/messages/count_tokens`, { method: 'POST' });
  expect(await counted.json()).toEqual({ input_tokens: 42 });
  await messages(server.url, { stream: false, max_tokens: 1 });
  const options = { headers: { 'x-api-key': 'k' } };
  const answer = await messages(server.url, { stream: false }, options);
  expect(await answer.json()).toMatchObject({ content: [{ text: '0 m k' }] });
  expect([server.requests.length, server.calls.length]).toEqual([3, 1]);
});
