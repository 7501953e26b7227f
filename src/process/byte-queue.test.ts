import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ByteQueue } from './byte-queue.ts';

const chunk = (size: number, fill = 0): Uint8Array => new Uint8Array(size).fill(fill);

test('every chunk comes once and in order, for any order of pushes and reads', async () => {
  const steps = fc.array(fc.oneof(fc.constant('read' as const), fc.integer({ min: 1, max: 30 })));
  await fc.assert(
    fc.asyncProperty(steps, async (plan) => {
      const queue = new ByteQueue(50, () => {});
      const reads: Promise<IteratorResult<Uint8Array>>[] = [];
      let pushed = 0;
      for (const step of plan) {
        if (step !== 'read') queue.push(chunk(step, pushed++ % 256));
        else if (!queue.starved) reads.push(queue.next()); // one reader: one read at a time
      }
      queue.end();
      const got: number[] = [];
      for (const read of reads) {
        const { value } = await read;
        if (value) got.push(value[0]!);
      }
      for await (const rest of queue) got.push(rest[0]!);
      expect(got).toEqual(Array.from({ length: pushed }, (_, i) => i % 256));
    }),
  );
});

test('push returns false when full, and onRoom is called once the queue is half empty', async () => {
  let asked = 0;
  const queue = new ByteQueue(100, () => asked++);
  expect(queue.push(chunk(60))).toBe(true);
  expect(queue.push(chunk(60))).toBe(false);
  await queue.next();
  expect(asked).toBe(0);
  await queue.next();
  expect([asked, queue.full]).toEqual([1, false]);
});

test('return unblocks the writer, and later chunks are dropped', async () => {
  let asked = 0;
  const queue = new ByteQueue(10, () => asked++);
  queue.push(chunk(20));
  queue.push(chunk(20));
  for await (const one of queue) {
    expect(one).toHaveLength(20);
    break;
  }
  expect([asked, queue.full, queue.push(chunk(20))]).toEqual([1, false, true]);
  expect(await queue.next()).toEqual({ done: true, value: undefined });
});
