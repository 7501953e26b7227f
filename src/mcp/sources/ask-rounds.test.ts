import { describe, expect, test } from 'vitest';
import { DuolaneError } from '../../errors.ts';
import {
  type InputAttempt,
  askInRounds,
  CollectingAsk,
  MAX_INPUT_ROUNDS,
  tooManyRounds,
} from './ask-rounds.ts';

const question = (id: string) => ({ id, kind: 'question' as const });
const thrownBy = (work: Promise<unknown>): Promise<unknown> =>
  work.catch((error: unknown) => error);

describe('a collecting ask', () => {
  test('returns known answers and collects the questions for the rest', async () => {
    const collecting = new CollectingAsk([{ id: 'a', action: 'accept' }]);
    expect(await collecting.ask(question('a'), {})).toEqual({ id: 'a', action: 'accept' });
    const thrown = await thrownBy(collecting.ask(question('b'), {}));
    await thrownBy(collecting.ask(question('b'), {}));
    expect(thrown).toMatchObject({ code: 'suspended' });
    expect(collecting.questionsAfter(thrown)).toEqual([question('b')]);
  });

  test('rethrows an error that is not about its questions', async () => {
    const collecting = new CollectingAsk([]);
    const foreign = new DuolaneError('suspended', 'of another ask');
    expect(() => collecting.questionsAfter(foreign)).toThrow(foreign);
    await thrownBy(collecting.ask(question('a'), {}));
    const other = new Error('boom');
    expect(() => collecting.questionsAfter(other)).toThrow(other);
  });
});

describe('a request in rounds', () => {
  const asking =
    (rounds: number) =>
    async (asked: number): Promise<InputAttempt<string, number>> =>
      asked < rounds ? { questions: asked + 1 } : { result: `after ${asked}` };
  const exceeded = (): DuolaneError => tooManyRounds('the tool');

  test('is repeated until it gives a result', async () => {
    const first = { questions: 1 };
    expect(await askInRounds({ result: 'now' }, asking(1), exceeded)).toBe('now');
    expect(await askInRounds(first, asking(3), exceeded)).toBe('after 3');
    expect(await askInRounds(first, asking(MAX_INPUT_ROUNDS), exceeded)).toBe(
      `after ${MAX_INPUT_ROUNDS}`,
    );
  });

  test('fails without asking again after the last round', async () => {
    let asked = 0;
    const again = async (): Promise<InputAttempt<string, number>> => ({ questions: (asked += 1) });
    await expect(askInRounds({ questions: 0 }, again, exceeded)).rejects.toMatchObject({
      code: 'malformed',
      message: `the tool asked more than ${MAX_INPUT_ROUNDS} times: expected a result`,
    });
    expect(asked).toBe(MAX_INPUT_ROUNDS);
  });
});
