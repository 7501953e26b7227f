import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ConcurrencySlots } from './concurrency-slots.ts';

test('never more than the limit run, in order, also if callers abort', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 4 }),
      fc.array(fc.boolean(), { maxLength: 20 }),
      fc.scheduler(),
      async (limit, givesUp, scheduler) => {
        const slots = new ConcurrencySlots(limit);
        let running = 0;
        const started: number[] = [];
        const gaveUp: Array<[number, unknown]> = [];
        const patience = givesUp.map(() => new AbortController());
        const work = givesUp.map(async (impatient, index) => {
          const { signal } = patience[index]!;
          if (impatient)
            void scheduler.schedule(Promise.resolve()).then(() => patience[index]!.abort(index));
          try {
            const release = await slots.take(signal);
            running += 1;
            started.push(index);
            expect(running).toBeLessThanOrEqual(limit);
            await scheduler.schedule(Promise.resolve());
            running -= 1;
            release();
            release();
          } catch (reason) {
            gaveUp.push([index, reason]);
          }
        });
        await scheduler.waitFor(Promise.all(work));
        expect(running).toBe(0);
        expect(started).toEqual([...started].sort((a, b) => a - b));
        for (const [index, reason] of gaveUp) expect(reason).toBe(index);
        const patient = [...givesUp.keys()].filter((index) => !givesUp[index]);
        expect(started).toEqual(expect.arrayContaining(patient));
        const free = await Promise.all(
          Array.from({ length: limit }, () => slots.take(new AbortController().signal)),
        );
        expect(free).toHaveLength(limit);
      },
    ),
  );
});

test('a caller with an aborted signal takes no slot', async () => {
  const slots = new ConcurrencySlots(1);
  await expect(slots.take(AbortSignal.abort('no'))).rejects.toBe('no');
  expect(await slots.take(new AbortController().signal)).toBeTypeOf('function');
});

test('a signal that aborts while the caller checks it leaves nothing in the queue', async () => {
  const slots = new ConcurrencySlots(1);
  const release = await slots.take(new AbortController().signal);
  const client = new AbortController();
  const reason = new Error('the client disconnected');
  // A signal that aborts between the first look at it and the wait.
  const late = Object.create(client.signal, {
    throwIfAborted: { value: () => client.abort(reason) },
    aborted: { get: () => client.signal.aborted },
    reason: { get: (): unknown => client.signal.reason },
  }) as AbortSignal;
  await expect(slots.take(late)).rejects.toBe(reason);
  const next = slots.take(new AbortController().signal);
  release();
  (await next)();
});
