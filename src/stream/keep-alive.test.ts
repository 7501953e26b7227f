import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Channel } from './channel.ts';
import { keepAlive } from './keep-alive.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('yields heartbeats while the source is silent, and only then', async () => {
  const source = new Channel<string>();
  const reader = keepAlive(source, 1000, () => 'beat');
  const read = async (advanceMs: number): Promise<unknown> => {
    const next = reader.next();
    await vi.advanceTimersByTimeAsync(advanceMs);
    return (await next).value;
  };
  expect(await read(1000)).toBe('beat');
  expect(await read(1000)).toBe('beat');
  source.offer('item');
  expect(await read(0)).toBe('item');
  const late = reader.next();
  await vi.advanceTimersByTimeAsync(999);
  source.offer('in time');
  expect((await late).value).toBe('in time');
  const again = reader.next();
  await vi.advanceTimersByTimeAsync(999);
  source.offer('in time again');
  expect((await again).value).toBe('in time again');
  expect(await read(1000)).toBe('beat');
});

test('a reader that was busy when a heartbeat was due does not get it later', async () => {
  const source = new Channel<string>();
  const reader = keepAlive(source, 1000, () => 'beat');
  const first = reader.next();
  source.offer('item');
  expect((await first).value).toBe('item');
  await vi.advanceTimersByTimeAsync(5000);
  expect(vi.getTimerCount()).toBe(0);
  const next = reader.next();
  await vi.advanceTimersByTimeAsync(999);
  source.offer('in time');
  expect((await next).value).toBe('in time');
  await reader.return?.();
  expect(vi.getTimerCount()).toBe(0);
});

test('an item that arrives with a heartbeat is kept for the next read', async () => {
  const source = new Channel<number>();
  const reader = keepAlive(source, 10, () => 'beat');
  const beat = reader.next();
  await vi.advanceTimersByTimeAsync(10);
  source.offer(1);
  source.offer(2);
  expect((await beat).value).toBe('beat');
  expect((await reader.next()).value).toBe(1);
  expect((await reader.next()).value).toBe(2);
});

test('a reader that breaks out leaves no timer behind', async () => {
  const source = new Channel<number>();
  source.offer(1);
  for await (const _ of keepAlive(source, 10, () => 'beat')) break;
  expect(vi.getTimerCount()).toBe(0);
  expect(source.ended).toBe(true);
});

test('return during a pending read ends the read, the timer and the source', async () => {
  const source = new Channel<number>();
  const reader = keepAlive(source, 10, () => 'beat');
  const read = reader.next();
  await reader.return?.();
  expect(await read).toEqual({ done: true, value: undefined });
  expect(vi.getTimerCount()).toBe(0);
  expect(source.ended).toBe(true);
});

test('the end and an error of the source pass through', async () => {
  const ended = new Channel<number>();
  ended.close();
  expect((await keepAlive(ended, 10, () => 'beat').next()).done).toBe(true);
  const failed = new Channel<number>();
  failed.fail(new Error('broken'));
  await expect(keepAlive(failed, 10, () => 'beat').next()).rejects.toThrow('broken');
  expect(vi.getTimerCount()).toBe(0);
});

test('a make() that throws ends the loop, not the process', async () => {
  const source = new Channel<number>();
  const read = keepAlive(source, 10, () => {
    throw new Error('no beat');
  })
    .next()
    .catch((error: unknown) => (error as Error).message);
  await vi.advanceTimersByTimeAsync(10);
  expect(await read).toBe('no beat');
  expect(source.ended).toBe(true);
});

test('a thousand heartbeats request one item of the source', async () => {
  const next = vi.fn<() => Promise<IteratorResult<number>>>(() => new Promise(() => {}));
  const reader = keepAlive({ [Symbol.asyncIterator]: () => ({ next }) }, 10, () => 'beat');
  for (let n = 0; n < 1000; n++) {
    const beat = reader.next();
    await vi.advanceTimersByTimeAsync(10);
    await beat;
  }
  expect(next).toHaveBeenCalledTimes(1);
});

test('a time that is not positive is invalid', () => {
  for (const ms of [0, -1, Number.NaN]) {
    expect(() => keepAlive(new Channel(), ms, () => 'beat')).toThrow(
      expect.objectContaining({ code: 'invalid' }) as Error,
    );
  }
});
