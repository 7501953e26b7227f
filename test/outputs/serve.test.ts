import { request } from 'node:http';
import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { frameReader } from '../../src/adapters/stream-json/frame-reader.ts';
import type { JsonObject } from '../../src/json.ts';
import { type Served, serve } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/index.ts';
import { SseDecoder } from '../../src/wire/sse.ts';
import { openKitchen } from './scripted-agent.ts';

let served: Served;
let guarded: Served;
beforeAll(async () => {
  served = await openKitchen();
  guarded = await openKitchen({ auth: { bearer: { ann: 'secret-a', bob: 'secret-b' } } });
});
afterAll(() => Promise.all([served, guarded].map((each) => each[Symbol.asyncDispose]())));

const post = (path: string, body: object, headers: Record<string, string> = {}, from = served) =>
  fetch(`${from.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });

const user = (text: string, session: string, more: object = {}): object => ({
  type: 'user',
  message: { role: 'user', content: text },
  session_id: session,
  ...more,
});
const uiPost = (text: string, id: string): object => ({
  id,
  trigger: 'submit-message',
  messages: [{ id: `m-${id}`, role: 'user', parts: [{ type: 'text', text }] }],
});
const uiUser = (text: string): object => ({
  id: 'answer',
  role: 'user',
  parts: [{ type: 'text', text }],
});
const agUiPost = (text: string, threadId: string): object => ({
  threadId,
  runId: `run-${threadId}`,
  messages: [{ id: `m-${threadId}`, role: 'user', content: text }],
  tools: [],
  context: [{ description: 'where', value: 'Bern' }],
  state: {},
});

const lines = async (response: Response): Promise<JsonObject[]> =>
  (await response.text())
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as JsonObject);

const events = async (response: Response): Promise<{ id: string; data: string }[]> =>
  new SseDecoder()
    .decode(new Uint8Array(await response.arrayBuffer()))
    .flatMap((item) => ('data' in item ? [{ id: item.lastEventId, data: item.data }] : []));

test('stream-json is what an agent CLI writes, and reads back as a valid run', async () => {
  const response = await post('/stream-json/cook', user('everything', 's1'));
  expect(response.headers.get('content-type')).toContain('application/jsonl');
  const said = await lines(response);
  expect(said[0]).toMatchObject({ type: 'system', subtype: 'init', session_id: 's1' });
  expect(said.at(-1)).toMatchObject({
    type: 'result',
    subtype: 'success',
    is_error: false,
    structured_output: { kinds: 3 },
    usage: { input_tokens: 14, output_tokens: 11 },
    num_turns: 2,
  });
  const read = frameReader();
  const back = said.flatMap((data) => [...read({ lane: 'message', direction: 'in', at: 1, data })]);
  expect(back.filter(({ type }) => type === 'tool.called')).toMatchObject([
    { callId: 'a', args: { q: 'tea' } },
    { callId: 'b', args: { what: 'tea' } },
  ]);
  expect(back.find(({ type }) => type === 'tool.completed')).toMatchObject({ output: { hits: 3 } });
  expect(back.at(-1)).toMatchObject({ type: 'run.finished', outcome: 'completed' });
});

test('stream-json: questions end the stream, and results or answers continue it', async () => {
  const asked = (await lines(await post('/stream-json/cook', user('approve', 's2')))).at(-1);
  expect(asked).toMatchObject({ type: 'result', terminal_reason: 'tool_deferred' });
  expect(asked?.['pending']).toMatchObject([{ id: 'c/ok' }, { id: 'd/ok' }]);
  const content = [
    { type: 'tool_result', tool_use_id: 'c', content: 'yes' },
    { type: 'tool_result', tool_use_id: 'd', content: 'no', is_error: true },
  ];
  const message = { role: 'user', content };
  const rest = await lines(
    await post('/stream-json/cook', { type: 'user', message, session_id: 's2' }),
  );
  expect(rest.at(-1)).toMatchObject({ subtype: 'success', result: 'That is decided.' });

  await post('/stream-json/cook', user('question', 's3')).then((response) => response.text());
  const plain = await lines(await post('/stream-json/cook', user('green', 's3', { uuid: 'u' })));
  expect(plain.at(-1)).toMatchObject({ result: 'You said green' });
});

test.each([
  ['/ui/cook', uiPost('everything', 'r1')],
  ['/ag-ui/cook', agUiPost('everything', 'r2')],
] as const)('%s resumes behind any id, missing and repeating nothing', async (path, body) => {
  const all = await events(await post(path, body));
  const place = all.findLastIndex(({ data }) => data === '[DONE]');
  const sent = place < 0 ? all : all.slice(0, place);
  expect(new Set(sent.map(({ id }) => id)).size).toBe(sent.length);
  for (const [i, { id }] of sent.entries()) {
    if (i % 5 !== 0 && i !== sent.length - 1) continue;
    const rest = await events(await post(path, body, { 'last-event-id': id }));
    expect(rest.filter(({ data }) => data !== '[DONE]')).toEqual(sent.slice(i + 1));
  }
  // The same message again is the same turn: it is streamed again, not run again.
  expect((await events(await post(path, body))).map(({ data }) => data)).toEqual(
    all.map(({ data }) => data),
  );
});

const agUiResume = (id: string): object => ({
  ...agUiPost('', 'twice'),
  runId: 'answer',
  messages: [],
  resume: [{ interruptId: id, payload: { approved: true } }],
});

test.each([
  ['/ui/agent', uiPost('go', 'twice'), { ...uiPost('ok', 'twice'), messages: [uiUser('ok')] }],
  ['/ag-ui/agent', agUiPost('go', 'twice'), { ...agUiPost('ok', 'twice'), runId: 'answer' }],
  ['/ag-ui/agent', agUiPost('go', 'twice'), agUiResume('twice/run-twice/0')],
  ['/stream-json/agent', user('go', 'twice', { uuid: 'a' }), user('ok', 'twice', { uuid: 'b' })],
] as const)(
  '%s: an answer that is posted again is streamed again, also when the next question is open',
  async (path, question, answer) => {
    await using asking = await serve(
      async function* (turn, ctx) {
        for (const key of [0, 1])
          await ctx.ask({ id: `${turn.messageId}/${key}`, kind: 'approval', message: `${key}?` });
        yield* [];
      },
      { log: memoryLog(), page: false },
    );
    const say = async (body: object): Promise<[number, string]> => {
      const response = await post(path, body, {}, asking);
      // The line that only says where the stream stops has a random uuid.
      return [response.status, (await response.text()).replace(/"uuid":"[^"]*"/g, '')];
    };
    await say(question);
    const first = await say(answer);
    expect(first[0]).toBe(200);
    expect(await say(answer)).toEqual(first);
    for await (const { turns, pending } of asking.log.list({}))
      expect([turns.length, pending.length]).toEqual([2, 1]);
  },
);

test('stream-json resumes after the uuid of any line', async () => {
  const body = user('everything', 'r3', { uuid: 'once' });
  const all = await lines(await post('/stream-json/cook', body));
  const at = Math.floor(all.length / 2);
  const id = String(all[at]?.['uuid']);
  const rest = await lines(await post('/stream-json/cook', body, { 'last-event-id': id }));
  expect(rest).toEqual(all.slice(at + 1));
});

test('the agent gets the other members of the body as metadata', async () => {
  await (await post('/ag-ui/cook', agUiPost('hello', 'm1'))).text();
  await (await post('/ui/cook', { ...uiPost('hello', 'm2'), model: 'fast' })).text();
  const seen: unknown[] = [];
  for (const context of ['m1', 'm2'])
    for await (const { turns } of served.log.list({ context })) seen.push(turns[0]?.metadata);
  expect(seen).toMatchObject([
    { runId: 'run-m1', context: [{ value: 'Bern' }] },
    { model: 'fast' },
  ]);
});

test.each([
  ['/ui/cook', { id: 'x', messages: [] }, 400, 'invalid messages'],
  ['/ui/cook', { messages: [] }, 400, 'missing member'],
  [
    '/ui/cook',
    { id: 'x', messages: [{ id: 'n', role: 'assistant', parts: [] }] },
    400,
    'missing input',
  ],
  ['/ag-ui/cook', { threadId: 't' }, 400, 'runId'],
  [
    '/ag-ui/cook',
    { threadId: 't', runId: 'r', messages: [], resume: [{ interruptId: 'i', status: 'resolved' }] },
    400,
    'no open question matches the answers',
  ],
  ['/stream-json/cook', { type: 'control_request' }, 400, 'type user'],
  ['/ui/unknown', uiPost('hi', 'x'), 404, ''],
])('%s refuses %j', async (path, body, status, words) => {
  const response = await post(path, body);
  expect(response.status).toBe(status);
  expect(await response.text()).toContain(words);
});

test('only its owner reads, resumes, answers or stops a conversation', async () => {
  const ann = { authorization: 'Bearer secret-a' };
  const bob = { authorization: 'Bearer secret-b' };
  expect((await post('/ui/cook', uiPost('hi', 'o'), {}, guarded)).status).toBe(401);
  const asked = await events(await post('/ui/cook', uiPost('approve', 'o'), ann, guarded));
  const { id } = asked[0] ?? { id: '' };
  const get = (path: string, headers: Record<string, string>): Promise<Response> =>
    fetch(`${guarded.url}${path}`, { headers });
  expect((await get('/ui/cook/o/stream', bob)).status).toBe(204);
  expect((await get('/ui/cook/o/stream', { ...bob, 'last-event-id': id })).status).toBe(404);
  expect((await post('/ui/cook/o/stop', {}, bob, guarded)).status).toBe(204);
  const answer = {
    id: 'o',
    messages: [
      {
        id: id.split(':')[0],
        role: 'assistant',
        parts: [{ state: 'approval-responded', approval: { id: 'c/ok', approved: true } }],
      },
    ],
  };
  expect((await post('/ui/cook', answer, bob, guarded)).status).toBe(400);
  expect((await get('/ui/cook/o/stream', ann)).status).toBe(200);
  expect((await post('/ui/cook/o/stop', {}, ann, guarded)).status).toBe(200);
});

test('requests of another site or host are refused without a CORS header', async () => {
  for (const path of ['/ui/cook', '/ag-ui/cook', '/stream-json/cook', '/ui/cook/x/stop']) {
    const response = await post(path, {}, { origin: 'https://evil.example' });
    expect([response.status, response.headers.get('access-control-allow-origin')]).toEqual([
      403,
      null,
    ]);
    const sending = request(`${served.url}${path}`, {
      method: 'POST',
      headers: { host: 'evil.example', 'content-type': 'application/json' },
    });
    sending.end('{}');
    const [answer] = (await once(sending, 'response')) as [{ statusCode: number; resume(): void }];
    answer.resume();
    expect(answer.statusCode).toBe(403);
  }
});
