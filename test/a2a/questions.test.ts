import { expect, test } from 'vitest';
import type { InputRequest } from '../../src/ask.ts';
import type { Agent } from '../../src/event/types.ts';
import { connectA2A, type A2APart, type A2ATask } from '../../src/a2a/index.ts';
import { serve } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/index.ts';
import { all, Caller, serveAgent, shape, taskIdOf, WAYS, wordOf, type Seen } from './support.ts';

/** Asks one question after the other, then says how each was answered. */
const asking = (...questions: readonly Omit<InputRequest, 'id'>[]): Agent =>
  async function* (turn, ctx) {
    const said: string[] = [];
    for (const [index, question] of questions.entries()) {
      const { action, content } = await ctx.ask({ ...question, id: `${turn.messageId}/${index}` });
      said.push(content === undefined ? action : `${action} ${JSON.stringify(content)}`);
    }
    yield { type: 'text.delta', id: 't', delta: said.join(', ') };
  };

const folder = { kind: 'question', message: 'Which folder?' } as const;
const wipe = { kind: 'approval', message: 'Delete everything?' } as const;

const statusText = (event: Seen | undefined): string =>
  JSON.stringify(event?.result['statusUpdate'] ?? event?.result);

for (const version of ['1.0', '0.3'] as const) {
  test(`a resume continues past an answered question to the open one (${version})`, async () => {
    await using served = await serveAgent(asking(folder, wipe));
    const caller = new Caller(served.url, version);
    const first = await all(caller.say('go'));
    const task = taskIdOf(first);
    expect(statusText(first.at(-1))).toContain('Which folder?');
    const second = await all(caller.say('/tmp', { taskId: task }));
    expect(statusText(second.at(-1))).toContain('Delete everything?');

    const missed = await all(caller.subscribe(task, first[0]!.id));
    const waits = missed.filter((event) => wordOf(event) === 'input-required');
    expect(statusText(waits[0])).toContain('Which folder?');
    expect(statusText(missed.at(-1))).toContain('Delete everything?');
    const finals = missed.map(({ result }) => result['final']);
    if (version === '0.3') expect(finals).toEqual([...finals.slice(1).map(() => false), true]);
  });

  test(`a stream stays open while the task waits for an authorization (${version})`, async () => {
    const login = { kind: 'auth', message: 'Sign in at https://id.example/' } as const;
    await using served = await serveAgent(asking(login));
    const caller = new Caller(served.url, version);
    const stream = caller.say('go');
    const events: Seen[] = [];
    for await (const event of stream) {
      events.push(event);
      if (wordOf(event) !== 'auth-required') continue;
      const answers = [{ id: askedIn(event), action: 'accept' }];
      const parts =
        version === '1.0' ? [{ data: { answers } }] : [{ kind: 'data', data: { answers } }];
      await caller.call(
        version === '1.0' ? 'SendMessage' : 'message/send',
        caller.message('', { taskId: taskIdOf(events), parts }),
      );
    }
    expect(shape(events)).toContain('auth-required');
    expect(wordOf(events.at(-1)!)).toBe('completed');
    if (version === '0.3')
      expect(events.filter(({ result }) => result['final'] === true)).toHaveLength(1);
  });
}

test('an "ok" that may be meant for an answered question approves nothing', async () => {
  await using served = await serveAgent(asking(wipe, wipe));
  const caller = new Caller(served.url);
  const task = taskIdOf(await all(caller.say('go')));
  const second = (await all(caller.say('ok', { taskId: task }))).at(-1);
  expect(wordOf(second!)).toBe('input-required');
  const [, code = ''] = /approve as text: approve (\w+)/.exec(statusText(second)) ?? [];

  const late = await caller.call('SendMessage', caller.message('ok', { taskId: task }));
  expect(late).toMatchObject({ error: { code: -32602 } });
  expect(JSON.stringify(late)).toContain(`approve ${code}`);
  const ended = await all(caller.say(`approve ${code}`, { taskId: task }));
  expect(wordOf(ended.at(-1)!)).toBe('completed');
});

for (const way of WAYS)
  test(`a second answer is refused with owner and time of the first (${way.binding} ${way.version})`, async () => {
    const auth = { bearer: { ada: 'secret' } };
    await using served = await serve(asking(wipe, folder), {
      log: memoryLog(),
      page: false,
      auth,
      grpc: { port: 0 },
    });
    const headers = { authorization: 'Bearer secret' };
    await using client = await connectA2A(served.url, { ...way, headers });
    const first = await client.send('go');
    const { id: taskId, status } = first as A2ATask;
    const asked = status.message?.parts.flatMap(({ data }) => data ?? [])[0];
    const { id } = (asked as { request: { id: string } }).request;
    const answer = (action: string): readonly A2APart[] => [
      { data: { answers: [{ id, action }] } },
    ];
    await client.send(answer('accept'), { taskId });
    const refusal = await client
      .send(answer('decline'), { taskId })
      .catch((error: unknown) => error);
    expect(refusal).toMatchObject({
      code: 'conflict',
      retryable: false,
      reason: 'ALREADY_ANSWERED',
      details: { question: id, action: 'accept', answeredBy: 'ada' },
    });
    expect(String(refusal)).toMatch(/already answered by "ada" at \d{4}-.*accept/);
  });

test('a second answer is 409 over REST, and has its own code in JSON-RPC', async () => {
  await using served = await serveAgent(asking(wipe, folder));
  const caller = new Caller(served.url);
  const events = await all(caller.say('go'));
  const taskId = taskIdOf(events);
  const parts = [{ data: { answers: [{ id: askedIn(events.at(-1)), action: 'accept' }] } }];
  await caller.call('SendMessage', caller.message('', { taskId, parts }));
  const again = caller.message('', { taskId, parts });
  const rest = await fetch(`${served.url}/a2a/agent/message:send`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
    body: JSON.stringify(again),
  });
  expect(rest.status).toBe(409);
  expect(await rest.json()).toMatchObject({
    error: { code: 409, status: 'ABORTED', details: [{ reason: 'ALREADY_ANSWERED' }] },
  });
  expect(await caller.call('SendMessage', again)).toMatchObject({
    error: { code: -32050, data: [{ reason: 'ALREADY_ANSWERED' }] },
  });
});

/** The id of the question in a status. */
function askedIn(event: Seen | undefined): string {
  const update = (event?.result['statusUpdate'] ?? event?.result) as {
    status: { message: { parts: { data?: { request?: { id: string } } }[] } };
  };
  return update.status.message.parts.flatMap(({ data }) => data?.request?.id ?? [])[0] ?? '';
}
