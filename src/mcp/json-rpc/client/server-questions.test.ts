import { expect, test } from 'vitest';
import type { InputRequest } from '../../../ask.ts';
import { ServerQuestions } from './server-questions.ts';

const ask = (questions: ServerQuestions, message: string, signal?: AbortSignal) =>
  questions.answer('elicitation/create', { message }, signal ? { signal } : {});

test('an answer fits the same question of another run, by its content and its count', async () => {
  const asked: InputRequest[] = [];
  const first = new ServerQuestions('c1', (request) => asked.push(request));
  const pending = [ask(first, 'Go on?'), ask(first, 'Name?'), ask(first, 'Go on?')];
  expect(new Set(asked.map(({ id }) => id)).size).toBe(3);
  const answers = asked.map(({ id }, n) => ({ id, action: 'accept', content: { n } }) as const);
  first.give(answers);
  expect(await Promise.all(pending)).toEqual(
    [0, 1, 2].map((n) => ({ action: 'accept', content: { n } })),
  );
  expect(first.open).toEqual([]);

  const again = new ServerQuestions('c1', (request) => asked.push(request));
  again.give(answers);
  expect(await ask(again, 'Name?')).toMatchObject({ content: { n: 1 } });
  expect(await ask(again, 'Go on?')).toMatchObject({ content: { n: 0 } });
  expect(asked).toHaveLength(3);
  void ask(again, 'Something else?');
  expect(asked.at(-1)).toMatchObject({ message: 'Something else?', callId: 'c1' });
});

test('a cancelled question needs no answer, and a declined sampling is an error', async () => {
  const questions = new ServerQuestions('c1', () => {});
  const stop = new AbortController();
  const taken = ask(questions, 'Still there?', stop.signal);
  const sampled = questions.answer('sampling/createMessage', { messages: [] }, {});
  const [, sampling] = questions.open;
  stop.abort(new Error('no longer'));
  await expect(taken).rejects.toThrow('no longer');
  expect(questions.open).toEqual([sampling]);
  questions.give([{ id: sampling!.id, action: 'decline' }]);
  await expect(sampled).rejects.toMatchObject({ code: 'invalid' });
});
