import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Priority, type Prompt, PromptQueue } from './prompt-queue.ts';

const prompt = (uuid: string, priority: Priority = 'next', query = true): Prompt => ({
  uuid,
  content: uuid,
  priority,
  query,
});
const taken = (queue: PromptQueue): (string | undefined)[] => queue.take().map(({ uuid }) => uuid);

test('prompts of one priority become one turn, and urgent ones come first', () => {
  const queue = new PromptQueue();
  queue.add(prompt('a'));
  queue.add(prompt('z', 'later'));
  queue.add(prompt('b'));
  queue.add(prompt('n', 'now'));
  expect(queue.uuids).toEqual(['n', 'a', 'b', 'z']);
  expect([taken(queue), taken(queue), taken(queue), taken(queue)]).toEqual([
    ['n'],
    ['a', 'b'],
    ['z'],
    [],
  ]);
});

test('a prompt without a model call gets its own turn', () => {
  const queue = new PromptQueue();
  for (const [uuid, query] of [
    ['a', true],
    ['note', false],
    ['b', true],
  ] as const)
    queue.add(prompt(uuid, 'next', query));
  expect([taken(queue), taken(queue), taken(queue)]).toEqual([['a'], ['note'], ['b']]);
});

test('a running turn takes the prompts that may join, and not those for later', () => {
  const queue = new PromptQueue();
  queue.add(prompt('a'));
  queue.add(prompt('z', 'later'));
  queue.add(prompt('note', 'next', false));
  expect(queue.takeForRunning().map(({ uuid }) => uuid)).toEqual(['a']);
  expect(queue.uuids).toEqual(['note', 'z']);
});

test('every prompt is taken once, in order, or was cancelled', () => {
  const priorities = fc.constantFrom<Priority>('now', 'next', 'later');
  fc.assert(
    fc.property(fc.array(fc.tuple(priorities, fc.boolean(), fc.boolean())), (script) => {
      const queue = new PromptQueue();
      script.forEach(([priority, query], i) => queue.add(prompt(String(i), priority, query)));
      const cancelled = script.flatMap(([, , cancel], i) => (cancel ? [String(i)] : []));
      for (const uuid of cancelled) expect(queue.cancel(uuid)).toBe(true);
      const out: string[] = [];
      for (let turn = taken(queue); turn.length > 0; turn = taken(queue))
        out.push(...(turn as string[]));
      expect(queue.size).toBe(0);
      expect(new Set([...out, ...cancelled]).size).toBe(script.length);
      for (const priority of ['now', 'next', 'later']) {
        const same = out.map(Number).filter((i) => script[i]?.[0] === priority);
        expect(same).toEqual(same.toSorted((a, b) => a - b));
      }
    }),
  );
});
