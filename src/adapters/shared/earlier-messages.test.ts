import { expect, test } from 'vitest';
import { advance } from '../../event/fold/advance.ts';
import type { AgentContext, AgentEvent, Entry, Note, Snapshot, Turn } from '../../event/types.ts';
import { earlierMessages } from './earlier-messages.ts';

const turn = (messageId: string, text: string): Turn => ({
  agent: 'a',
  task: 't',
  context: 'c',
  messageId,
  parts: [{ text }],
});
const submitted = (messageId: string, text: string): Note => ({
  type: 'turn.submitted',
  turn: turn(messageId, text),
});
const answered = (messageId: string, id: string, content?: string): Note => {
  const answer = { id, action: 'accept', ...(content !== undefined && { content }) } as const;
  return {
    type: 'turn.submitted',
    turn: { ...turn(messageId, ''), parts: [], answers: [answer] },
  };
};
const says = (delta: string): AgentEvent => ({ type: 'text.delta', id: 'x', delta });
const started = (id: string): AgentEvent => ({ type: 'run.started', turn: id });
const ended = (outcome: 'completed' | 'input-required'): AgentEvent => ({
  type: 'run.finished',
  outcome,
  text: '',
});
const asks = (id: string, message: string): AgentEvent => ({
  type: 'input.required',
  request: { id, kind: 'question', message },
});

const taskOf = (...events: readonly (AgentEvent | Note)[]): Snapshot =>
  events
    .map((event, index) => ({ ...event, seq: index + 1, at: index }) as Entry)
    .reduce<Snapshot | undefined>(advance, undefined) as Snapshot;

const before = (task: Snapshot, of: Turn, earlier: readonly Snapshot[] = []): Promise<unknown> =>
  earlierMessages(of, {
    task,
    history: async function* () {
      yield* earlier;
    },
  } as unknown as AgentContext);

const ann = [
  { role: 'user', text: 'My name is Ann.' },
  { role: 'assistant', text: 'Hello Ann.' },
];
const first = [
  submitted('1', 'My name is Ann.'),
  started('1'),
  submitted('2', 'Book a table.'),
  says('Hello Ann.'),
  ended('completed'),
];

test('a run gets the earlier turns, also when it resumes after a question', async () => {
  const of = turn('2', 'Book a table.');
  expect(await before(taskOf(...first), of)).toEqual(ann);
  expect(await before(taskOf(...first, started('2')), of)).toEqual(ann);
  const slept = [...first, started('2'), asks('2/q', 'For when?'), ended('input-required')];
  const again = taskOf(...slept, answered('3', '2/q', 'tonight'), started('2'));
  expect(await before(again, of)).toEqual(ann);
});

test('every turn has its response, and a question with a text answer is part of the messages', async () => {
  const task = taskOf(
    ...first,
    started('2'),
    asks('2/q', 'For when?'),
    answered('3', '2/q', 'Tonight.'),
    submitted('4', 'And a taxi.'),
    says('Booked.'),
    ended('completed'),
  );
  expect(await before(task, turn('4', 'And a taxi.'))).toEqual([
    ...ann,
    { role: 'user', text: 'Book a table.' },
    { role: 'assistant', text: 'For when?' },
    { role: 'user', text: 'Tonight.' },
    { role: 'assistant', text: 'Booked.' },
  ]);
});

test('the messages of earlier tasks of the context come first', async () => {
  const task = taskOf({
    ...submitted('5', 'Who am I?'),
    turn: { ...turn('5', 'Who am I?'), task: 'u' },
  } as Note);
  const earlier = taskOf(...first, started('2'), says('Done.'), ended('completed'));
  expect(await before(task, { ...turn('5', 'Who am I?'), task: 'u' }, [earlier])).toEqual([
    ...ann,
    { role: 'user', text: 'Book a table.' },
    { role: 'assistant', text: 'Done.' },
  ]);
});
