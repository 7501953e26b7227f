import { expect, test } from 'vitest';
import type { InputRequest } from '../../src/ask.ts';
import type { Agent } from '../../src/event/types.ts';
import { all, Caller, serveAgent, shape, taskIdOf, wordOf, type Seen } from './support.ts';

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
  test(`a resume goes past an answered question to the one that is open (${version})`, async () => {
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

  test(`a stream stays open while an authorization is awaited (${version})`, async () => {
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

/** The id of the question in a status. */
function askedIn(event: Seen | undefined): string {
  const update = (event?.result['statusUpdate'] ?? event?.result) as {
    status: { message: { parts: { data?: { request?: { id: string } } }[] } };
  };
  return update.status.message.parts.flatMap(({ data }) => data?.request?.id ?? [])[0] ?? '';
}
