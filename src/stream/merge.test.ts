import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Channel } from './channel.ts';
import { merge } from './merge.ts';

async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of source) items.push(item);
  return items;
}

test('every item of every source comes once and in its order, however they interleave', async () => {
  await fc.assert(
    fc.asyncProperty(fc.scheduler(), fc.array(fc.nat(10), { maxLength: 4 }), async (s, sizes) => {
      const sources = sizes.map(async function* (size, w): AsyncGenerator<[number, number]> {
        for (let n = 0; n < size; n++) {
          await s.schedule(Promise.resolve());
          yield [w, n];
        }
      });
      const all = await s.waitFor(collect(merge(...sources)));
      sizes.forEach((size, w) => {
        expect(all.filter(([each]) => each === w).map(([, n]) => n)).toEqual([
          ...Array.from({ length: size }).keys(),
        ]);
      });
    }),
  );
});

test('a busy source does not starve the others', async () => {
  const sources = ['a', 'b', 'c'].map((name) => {
    const channel = new Channel<string>({ capacity: 100 });
    for (let n = 0; n < 10; n++) channel.offer(name);
    channel.close();
    return channel;
  });
  const all = await collect(merge(...sources));
  for (let n = 3; n < 30; n += 3) expect(new Set(all.slice(n, n + 3)).size).toBe(3);
});

test('each source is read one item ahead at most', async () => {
  let asked = 0;
  async function* counted(): AsyncGenerator<number> {
    for (;;) yield ++asked;
  }
  const reader = merge(counted());
  for (let n = 1; n <= 5; n++) {
    expect((await reader.next()).value).toBe(n);
    expect(asked).toBeLessThanOrEqual(n + 1);
  }
  await reader.return?.();
});

test('an error of one source is thrown and closes the others, also those with a pending read', async () => {
  const [bad, waiting] = [new Channel<number>(), new Channel<number>()];
  const read = collect(merge(bad, waiting));
  bad.fail(new Error('broken'));
  await expect(read).rejects.toThrow('broken');
  expect(waiting.ended).toBe(true);
});

test('breaking out closes all sources, also a generator that waits', async () => {
  const channel = new Channel<number>();
  channel.offer(1);
  async function* asleep(): AsyncGenerator<number> {
    await new Promise(() => {});
    yield 0;
  }
  for await (const _ of merge(channel, asleep())) break;
  expect(channel.ended).toBe(true);
});

test('return ends a pending read', async () => {
  const channel = new Channel<number>();
  const reader = merge(channel);
  const read = reader.next();
  await reader.return?.();
  expect(await read).toEqual({ done: true, value: undefined });
  expect(channel.ended).toBe(true);
});

test('merging no sources gives an empty stream', async () => {
  expect(await collect(merge())).toEqual([]);
});
