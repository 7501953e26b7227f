import { getEventListeners } from 'node:events';
import { expect, test, vi } from 'vitest';
import { abortable, onAbort, settledWithin, sleep } from './abort.ts';

const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

/** A source that never answers again after its items, and hears nothing but `return`. */
function deaf(...items: number[]): AsyncIterable<number> & { readonly left: () => boolean } {
  let left = false;
  return {
    left: () => left,
    [Symbol.asyncIterator]: () => ({
      next: () => {
        const value = items.shift();
        return value === undefined ? new Promise(() => {}) : Promise.resolve({ value });
      },
      return: () => {
        left = true;
        return new Promise(() => {});
      },
    }),
  };
}

test('sleep ends with its time and leaves no listener', async () => {
  const { signal } = new AbortController();
  await sleep(1, signal);
  expect(listeners(signal)).toBe(0);
  await sleep(0);
});

test('an abort ends a sleep with its reason and clears the timer', async () => {
  const clear = vi.spyOn(globalThis, 'clearTimeout');
  const controller = new AbortController();
  const sleeping = sleep(60_000, controller.signal);
  controller.abort(new Error('woken'));
  await expect(sleeping).rejects.toThrow('woken');
  expect(clear).toHaveBeenCalledTimes(1);
  await expect(sleep(60_000, AbortSignal.abort(new Error('before')))).rejects.toThrow('before');
  clear.mockRestore();
});

test('onAbort calls at once when the signal has aborted, later when it does, never after', () => {
  const run = vi.fn<(reason: unknown) => void>();
  onAbort(AbortSignal.abort('early'), run)();
  const controller = new AbortController();
  onAbort(controller.signal, run)();
  onAbort(controller.signal, run);
  onAbort(undefined, run)();
  controller.abort('late');
  expect(run.mock.calls).toEqual([['early'], ['late']]);
});

test('settledWithin tells whether a promise settled, either way', async () => {
  expect(await settledWithin(Promise.resolve(1), 60_000)).toBe(true);
  expect(await settledWithin(Promise.reject(new Error('x')), 60_000)).toBe(true);
  expect(await settledWithin(new Promise(() => {}), 1)).toBe(false);
});

test('abortable passes items, the end and errors on, and stops listening', async () => {
  const { signal } = new AbortController();
  async function* source(fail: boolean): AsyncGenerator<number> {
    yield 1;
    yield 2;
    if (fail) throw new Error('broken');
  }
  const seen: number[] = [];
  for await (const n of abortable(source(false), signal)) seen.push(n);
  const failing = (async () => {
    for await (const n of abortable(source(true), signal)) seen.push(n);
  })();
  await expect(failing).rejects.toThrow('broken');
  expect(seen).toEqual([1, 2, 1, 2]);
  expect(listeners(signal)).toBe(0);
});

test('an abort throws its reason promptly though the source is deaf, and calls its return', async () => {
  const controller = new AbortController();
  const source = deaf(1);
  const reading = (async () => {
    for await (const _ of abortable(source, controller.signal)) {
      setImmediate(() => controller.abort(new Error('stop')));
    }
  })();
  await expect(reading).rejects.toThrow('stop');
  expect(source.left()).toBe(true);
  expect(listeners(controller.signal)).toBe(0);
});

test('a signal that was aborted before lets no item through', async () => {
  const source = deaf(1);
  const reader = abortable(source, AbortSignal.abort(new Error('before')));
  await expect(reader.next()).rejects.toThrow('before');
  expect(await reader.next()).toEqual({ done: true, value: undefined });
});

test('leaving an abortable loop runs the finally of its source before it goes on', async () => {
  const { signal } = new AbortController();
  let closed = false;
  async function* source(): AsyncGenerator<number> {
    try {
      yield 1;
    } finally {
      await sleep(5);
      closed = true;
    }
  }
  for await (const _ of abortable(source(), signal)) break;
  expect(closed).toBe(true);
  expect(listeners(signal)).toBe(0);
});

test('a source that throws when it is asked ends the loop', async () => {
  const source: AsyncIterable<number> = {
    [Symbol.asyncIterator]: () => ({
      next: () => {
        throw new Error('not even a promise');
      },
    }),
  };
  const reader = abortable(source, new AbortController().signal);
  await expect(reader.next()).rejects.toThrow('not even a promise');
  expect((await reader.next()).done).toBe(true);
});
