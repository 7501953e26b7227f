import { expect, test } from 'vitest';
import type { Ask } from '../../ask.ts';
import type { Snapshot } from '../../event/types.ts';
import { advance } from '../../event/index.ts';
import { createRunner, memoryLog } from '../../task/index.ts';
import { approve, questionIdByContent } from './approval.ts';
import { openaiAgents, type OpenAiStream } from '../openai-agents/openai-agent.ts';

const turn = { agent: 'a', task: 't', context: 'c', messageId: 'm', parts: [{ text: 'hi' }] };

test('equal calls of a run have separate questions, with the same ids when the run starts over', () => {
  const call = { callId: 'x', name: 'refresh', args: {} };
  const first = questionIdByContent(turn);
  const ids = [first(call), first(call), first({ ...call, args: { all: true } })];
  expect(new Set(ids).size).toBe(3);
  const again = questionIdByContent(turn);
  expect([again(call), again(call)]).toEqual(ids.slice(0, 2));
});

test('two calls with one id are asked about one by one', async () => {
  const call = { callId: 'call_0', name: 'pay', args: { amount: 1 } };
  const { signal } = new AbortController();
  const ask: Ask = async ({ id }) => ({
    id,
    action: id === 'call_0/approval' ? 'accept' : 'decline',
  });
  const verdicts = await approve([call, call], { ask, signal });
  expect(verdicts.map(({ approved }) => approved)).toEqual([true, false]);
});

test.each([
  ['arguments', { amount: 2 }],
  ['data', { name: 'pay', args: { amount: 2 } }],
])('a call whose %s the person has changed does not run unchanged', async (_, content) => {
  const call = { callId: 'c', name: 'pay', args: { amount: 1 } };
  const { signal } = new AbortController();
  const ask: Ask = async ({ id }) => ({ id, action: 'accept', content });
  const [refused] = await approve([call], { ask, signal });
  expect(refused).toMatchObject({
    approved: false,
    reason: expect.stringContaining('{"amount":2}') as string,
  });
  const [changed] = await approve([call], { ask, signal }, { edits: true });
  expect(changed).toMatchObject({ approved: true, args: { amount: 2 } });
});

/** A run of the SDK that wants two equal calls approved, then ends with what was decided. */
function equalCalls(): (input: unknown) => Promise<OpenAiStream> {
  const decided: string[] = [];
  const interruptions = ['c1', 'c2'].map((callId) => ({
    rawItem: { callId, name: 'refresh', arguments: '{}' },
  }));
  const decide = (word: string) => (given: { rawItem: { callId: string } }) =>
    void decided.push(`${given.rawItem.callId} ${word}`);
  const state = { approve: decide('approved'), reject: decide('rejected') };
  return async (input) => ({
    completed: Promise.resolve(),
    interruptions: input === state ? [] : interruptions,
    finalOutput: input === state ? decided : undefined,
    state: state as OpenAiStream['state'],
    async *[Symbol.asyncIterator]() {},
  });
}

test('openaiAgents asks about each of two equal parallel calls, and the task ends', async () => {
  await using log = memoryLog();
  await using runner = createRunner({ log, agents: { a: openaiAgents(equalCalls()) } });
  await runner.submit(turn);
  const actions = ['accept', 'decline'] as const;
  let snapshot: Snapshot | undefined;
  let output: unknown;
  for await (const entry of log.read('t', 0)) {
    snapshot = advance(snapshot, entry);
    if (entry.type === 'run.finished') output = entry.output;
    if (snapshot.pending.length !== 2 || entry.type !== 'input.required') continue;
    const answers = snapshot.pending.map(({ id }, index) => ({
      id,
      action: actions[index] ?? ('cancel' as const),
    }));
    await runner.submit({ ...turn, messageId: 'm2', parts: [], answers });
  }
  expect(snapshot?.state).toBe('completed');
  expect(output).toEqual(['c1 approved', 'c2 rejected']);
});
