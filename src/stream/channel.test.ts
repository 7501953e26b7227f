import fc from 'fast-check';
import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import { Channel } from './channel.ts';

const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'taken',
    (error: unknown) => (error as { code?: unknown }).code,
  );

test('any interleaving keeps each writer in order, loses nothing and stays in bounds', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.integer({ min: 1, max: 4 }),
      fc.array(fc.nat(20), { minLength: 1, maxLength: 4 }),
      async (s, capacity, sizes) => {
        const channel = new Channel<[writer: number, n: number]>({ capacity });
        let ahead = 0;
        let furthest = 0;
        const writers = sizes.map(async (size, w) => {
          for (let n = 0; n < size; n++) {
            await s.schedule(Promise.resolve());
            await channel.push([w, n]);
            furthest = Math.max(furthest, ++ahead);
          }
        });
        const seen: number[][] = sizes.map(() => []);
        const reader = (async () => {
          for await (const [w, n] of channel) {
            ahead--;
            seen[w]?.push(n);
            await s.schedule(Promise.resolve());
          }
        })();
        await s.waitFor(Promise.all(writers));
        channel.close();
        await s.waitFor(reader);
        expect(seen).toEqual(sizes.map((size) => Array.from({ length: size }, (_, n) => n)));
        expect(furthest).toBeLessThanOrEqual(capacity + 1); // those that wait, and the one in hand
      },
    ),
    { numRuns: 200 },
  );
});

test('breaking out at any moment settles every writer, and the items read are a prefix', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.integer({ min: 1, max: 3 }),
      fc.nat(10),
      fc.constantFrom('break', 'throw', 'abort', 'close', 'fail', 'dispose'),
      async (s, capacity, after, way) => {
        const controller = new AbortController();
        const channel = new Channel<number>({ capacity, signal: controller.signal });
        const pushes = Array.from({ length: 12 }, async (_, n) => {
          await s.schedule(Promise.resolve());
          return channel.push(n).then(
            () => n,
            () => undefined,
          );
        });
        const seen: number[] = [];
        const reader = (async () => {
          for await (const n of channel) {
            seen.push(n);
            await s.schedule(Promise.resolve());
            if (seen.length > after && way === 'break') break;
            if (seen.length > after && way === 'throw') throw new Error('left');
          }
        })().catch(() => {});
        const ended = (async () => {
          await s.schedule(Promise.resolve());
          if (way === 'abort') controller.abort();
          if (way === 'close') channel.close();
          if (way === 'fail') channel.fail(new Error('left'));
          if (way === 'dispose') await channel[Symbol.asyncDispose]();
        })();
        const taken = (await s.waitFor(Promise.all(pushes))).filter((n) => n !== undefined);
        await s.waitFor(ended);
        channel.close();
        await s.waitFor(reader);
        expect(new Set(seen).size).toBe(seen.length);
        expect(taken).toEqual(expect.arrayContaining(seen));
        expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
      },
    ),
    { numRuns: 200 },
  );
});

test('breaking out of the loop rejects a waiting writer', async () => {
  const channel = new Channel<number>({ capacity: 1 });
  await channel.push(1);
  const [second, third] = [channel.push(2), channel.push(3)];
  const codes = Promise.all([codeOf(second), codeOf(third)]);
  for await (const _ of channel) break;
  expect(await codes).toEqual(['taken', 'closed']); // the second took the place of the one read
  expect(await codeOf(channel.push(4))).toBe('closed');
  expect(() => channel.offer(5)).toThrow(expect.objectContaining({ code: 'closed' }) as Error);
});

test('writers that wait are admitted in the order of their pushes', async () => {
  const channel = new Channel<number>({ capacity: 1 });
  const order: number[] = [];
  const pushes = [0, 1, 2, 3].map((n) => channel.push(n).then(() => order.push(n)));
  const reader = channel[Symbol.asyncIterator]();
  for (const n of [0, 1, 2, 3]) expect((await reader.next()).value).toBe(n);
  await Promise.all(pushes);
  expect(order).toEqual([0, 1, 2, 3]);
});

test('an item offered beyond the capacity keeps writers waiting until the buffer has space', async () => {
  const channel = new Channel<string>({ capacity: 1 });
  await channel.push('first');
  let admitted = false;
  const waiting = channel.push('waits').then(() => (admitted = true));
  channel.offer('beyond');
  const reader = channel[Symbol.asyncIterator]();
  expect((await reader.next()).value).toBe('first');
  await new Promise((resolve) => void setImmediate(resolve));
  expect(admitted).toBe(false);
  expect((await reader.next()).value).toBe('beyond');
  await waiting;
  expect((await reader.next()).value).toBe('waits');
});

test('an abort rejects the reader and the waiting writers immediately with its reason', async () => {
  const controller = new AbortController();
  const channel = new Channel<number>({ capacity: 1, signal: controller.signal });
  await channel.push(1);
  const waiting = channel.push(2);
  controller.abort(new Error('user pressed stop'));
  await expect(waiting).rejects.toThrow('user pressed stop');
  await expect(channel[Symbol.asyncIterator]().next()).rejects.toThrow('user pressed stop');
});

test('an abort also ends a channel that was closed and still holds items', async () => {
  const controller = new AbortController();
  const channel = new Channel<number>({ signal: controller.signal });
  channel.offer(1);
  channel.close();
  controller.abort(new Error('stop'));
  await expect(channel[Symbol.asyncIterator]().next()).rejects.toThrow('stop');
});

test('a signal that has aborted already gives an ended channel', async () => {
  const channel = new Channel<number>({ signal: AbortSignal.abort(new Error('before')) });
  expect(channel.ended).toBe(true);
  expect(await codeOf(channel.push(1))).toBe('closed');
  await expect(channel[Symbol.asyncIterator]().next()).rejects.toThrow('before');
});

test('an abort wakes a reader that waits', async () => {
  const controller = new AbortController();
  const channel = new Channel<number>({ signal: controller.signal });
  const read = channel[Symbol.asyncIterator]().next();
  controller.abort(new Error('stop'));
  await expect(read).rejects.toThrow('stop');
});

test('fail delivers what is in the buffer first, and its error once', async () => {
  const channel = new Channel<number>();
  channel.offer(1);
  channel.fail(new Error('broken'));
  channel.fail(new Error('too late'));
  const reader = channel[Symbol.asyncIterator]();
  expect((await reader.next()).value).toBe(1);
  await expect(reader.next()).rejects.toThrow('broken');
  expect(await reader.next()).toEqual({ done: true, value: undefined });
});

test('a reader that broke out does not get a later failure', async () => {
  const channel = new Channel<number>();
  channel.offer(1);
  channel.fail(new Error('broken'));
  const reader = channel[Symbol.asyncIterator]();
  await reader.return?.();
  expect((await reader.next()).done).toBe(true);
});

test('a channel that ended removes its abort listener', async () => {
  const { signal } = new AbortController();
  new Channel({ signal }).close();
  const full = new Channel<number>({ signal });
  full.offer(1);
  full.close();
  for await (const _ of full);
  expect(getEventListeners(signal, 'abort')).toHaveLength(0);
});

test('return ends a pending read', async () => {
  const reader = new Channel<number>()[Symbol.asyncIterator]();
  const read = reader.next();
  await reader.return?.();
  expect(await read).toEqual({ done: true, value: undefined });
});

test('a second reader and a second concurrent read are rejected', async () => {
  const channel = new Channel<number>();
  const reader = channel[Symbol.asyncIterator]();
  expect(() => channel[Symbol.asyncIterator]()).toThrow(
    expect.objectContaining({ code: 'invalid' }) as Error,
  );
  const first = reader.next();
  await expect(reader.next()).rejects.toMatchObject({ code: 'invalid' });
  channel.offer(1);
  expect((await first).value).toBe(1);
});

test('undefined is an item like any other', async () => {
  const channel = new Channel<undefined>();
  channel.offer(undefined);
  channel.close();
  const reader = channel[Symbol.asyncIterator]();
  expect(await reader.next()).toEqual({ done: false, value: undefined });
  expect(await reader.next()).toEqual({ done: true, value: undefined });
});

test('a capacity below one is invalid', () => {
  for (const capacity of [0, -1, Number.NaN]) {
    expect(() => new Channel({ capacity })).toThrow(
      expect.objectContaining({ code: 'invalid' }) as Error,
    );
  }
});

test('a hundred thousand waiting writers do not take quadratic time', async () => {
  const channel = new Channel<number>({ capacity: 1 });
  const pushes = Array.from({ length: 100_000 }, (_, n) => channel.push(n));
  let sum = 0;
  for await (const n of channel) {
    sum += n;
    if (n === 99_999) break;
  }
  await Promise.all(pushes);
  expect(sum).toBe((99_999 * 100_000) / 2);
});
