import { getEventListeners } from 'node:events';
import { expect, test, vi } from 'vitest';
import { abortable, onAbort, raceAbort, settledWithin, sleep, withTimeout } from './abort.ts';

const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

/** A source that never settles `next` after its items, and ignores everything but `return`. */
function unresponsive(
  ...items: number[]
): AsyncIterable<number> & { readonly returned: () => boolean } {
  let returned = false;
  return {
    returned: () => returned,
    [Symbol.asyncIterator]: () => ({
      next: () => {
        const value = items.shift();
        return value === undefined ? new Promise(() => {}) : Promise.resolve({ value });
      },
      return: () => {
        returned = true;
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

test('onAbort calls immediately if the signal has aborted, else when it aborts, and never after that', () => {
  const run = vi.fn<(reason: unknown) => void>();
  onAbort(AbortSignal.abort('early'), run)();
  const controller = new AbortController();
  onAbort(controller.signal, run)();
  onAbort(controller.signal, run);
  onAbort(undefined, run)();
  controller.abort('late');
  expect(run.mock.calls).toEqual([['early'], ['late']]);
});

test('settledWithin resolves to whether a promise settled, either way', async () => {
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

test('an abort throws its reason although the source ignores it, and calls its return', async () => {
  const controller = new AbortController();
  const source = unresponsive(1);
  const reading = (async () => {
    for await (const _ of abortable(source, controller.signal)) {
      setImmediate(() => controller.abort(new Error('stop')));
    }
  })();
  await expect(reading).rejects.toThrow('stop');
  expect(source.returned()).toBe(true);
  expect(listeners(controller.signal)).toBe(0);
});

test('a signal that aborted before the first read lets no item through', async () => {
  const source = unresponsive(1);
  const reader = abortable(source, AbortSignal.abort(new Error('before')));
  await expect(reader.next()).rejects.toThrow('before');
  expect(await reader.next()).toEqual({ done: true, value: undefined });
});

test('breaking out of an abortable loop waits for the finally block of its source', async () => {
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

test('a source whose next() throws ends the loop', async () => {
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

test('raceAbort passes on the result of the work and leaves no listener', async () => {
  const { signal } = new AbortController();
  await expect(raceAbort(Promise.resolve(1), signal)).resolves.toBe(1);
  await expect(raceAbort(Promise.reject(new Error('broken')), signal)).rejects.toThrow('broken');
  expect(listeners(signal)).toBe(0);
});

test('raceAbort rejects with the reason of an abort before or during the work', async () => {
  const never = new Promise<never>(() => {});
  await expect(raceAbort(never, AbortSignal.abort('before'))).rejects.toBe('before');
  const controller = new AbortController();
  const racing = raceAbort(never, controller.signal, (reason) => new Error(String(reason)));
  controller.abort('during');
  await expect(racing).rejects.toThrow('during');
});

test('raceAbort ignores a failure of the work after the abort', async () => {
  const controller = new AbortController();
  let fail: (error: Error) => void = () => {};
  const work = new Promise<never>((_, reject) => (fail = reject));
  const racing = raceAbort(work, controller.signal);
  controller.abort('stop');
  await expect(racing).rejects.toBe('stop');
  fail(new Error('too late'));
  // An unhandled rejection would fail the run.
  await new Promise((resolve) => setImmediate(resolve));
  expect(listeners(controller.signal)).toBe(0);
});

test('withTimeout passes on the result, or rejects after its time', async () => {
  vi.useFakeTimers();
  try {
    await expect(withTimeout(Promise.resolve(1), 10, () => 'late')).resolves.toBe(1);
    expect(vi.getTimerCount()).toBe(0);
    const waiting = withTimeout(new Promise(() => {}), 10, () => 'late');
    vi.advanceTimersByTime(10);
    await expect(waiting).rejects.toBe('late');
  } finally {
    vi.useRealTimers();
  }
});
