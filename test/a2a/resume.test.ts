import { expect, test } from 'vitest';
import type { Agent } from '../../src/event/types.ts';
import { serve } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/index.ts';
import { all, Caller, taskIdOf, wordOf, type Seen } from './support.ts';

/** Says three words, each as an event of its own. */
const three: Agent = async function* () {
  for (const word of ['a', 'b', 'c']) {
    yield { type: 'text.delta', id: 't', delta: word };
    yield { type: 'status', message: word };
  }
  yield { type: 'text.end', id: 't', text: 'abc' };
};

for (const version of ['1.0', '0.3'] as const)
  test(`a client with a part of the last entry of a compacted task gets its end (${version})`, async () => {
    const log = memoryLog();
    await using served = await serve(three, {
      log,
      page: false,
      a2a: { text: { pattern: 'artifact' } },
    });
    const caller = new Caller(served.url, version);
    const events = await all(caller.say('go'));
    const half = events.at(-2)!.id;
    expect(half).toMatch(/\.0$/);
    await log.prune({ deltasEndedBefore: Date.now() + 1000 });
    const rest = await all(caller.subscribe(taskIdOf(events), half));
    expect(rest.map(wordOf)).toEqual(['task', 'completed']);
    expect(rest.map(({ id }) => id)).toEqual([events.at(-1)!.id, events.at(-1)!.id]);
  });

for (const version of ['1.0', '0.3'] as const)
  test(`a message that is sent again with the last event id resumes after it (${version})`, async () => {
    await using served = await serve(three, { log: memoryLog(), page: false });
    const caller = new Caller(served.url, version);
    const method = version === '1.0' ? 'SendStreamingMessage' : 'message/stream';
    const message = caller.message('go');
    const events = await all(caller.stream(method, message));
    for (const [index, { id }] of events.entries()) {
      const rest = await all(caller.stream(method, message, { 'last-event-id': id }));
      expect(rest).toEqual(events.slice(index + 1));
    }
    // Of a message that is new, nothing was missed: the id is of another stream.
    const other = await all(
      caller.stream(method, caller.message('more'), { 'last-event-id': '99' }),
    );
    expect(other.map(wordOf)).toEqual(events.map(wordOf));
    const beyond = await all(caller.stream(method, message, { 'last-event-id': '99' }));
    expect(beyond.map(wordOf)).toEqual(['error']);
  });

test('no stream has more history than maxHistory', async () => {
  const asking: Agent = async function* (turn, ctx) {
    for (const id of ['one', 'two'])
      await ctx.ask({ id: `${turn.messageId}/${id}`, kind: 'question', message: `${id}?` });
    yield { type: 'text.delta', id: 't', delta: 'thanks' };
  };
  await using served = await serve(asking, {
    log: memoryLog(),
    page: false,
    a2a: { maxHistory: 2 },
  });
  const caller = new Caller(served.url);
  const historyIn = (event: Seen | undefined): unknown =>
    (event?.result['task'] as { history?: unknown } | undefined)?.history;
  const task = taskIdOf(await all(caller.say('ask')));
  const [answered] = await all(caller.say('1', { taskId: task }));
  expect(historyIn(answered)).toHaveLength(2);
  const watching = caller.subscribe(task);
  expect(historyIn((await watching.next()).value as Seen)).toHaveLength(2);
  await watching.return();
  const configuration = { historyLength: 9 };
  const [asked] = await all(
    caller.stream('SendStreamingMessage', {
      ...caller.message('2', { taskId: task }),
      configuration,
    }),
  );
  expect(historyIn(asked)).toHaveLength(2);
  const old = new Caller(served.url, '0.3');
  const [ended] = await all(old.subscribe(task));
  expect(ended?.result['history']).toHaveLength(2);
});
