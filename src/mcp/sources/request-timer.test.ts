import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { DuolaneError } from '../../errors.ts';
import {
  checkLimits,
  limitsOf,
  NO_LIMITS,
  RequestTimer,
  streamWithinLimits,
  withinLimits,
} from './request-timer.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

/** A timer of 100 ms of silence and 250 ms in total, and what it ended with. */
function started(isOurTurn?: () => boolean): { timer: RequestTimer; ended: string[] } {
  const ended: string[] = [];
  const end = ({ message }: DuolaneError): void => void ended.push(message);
  const limits = { timeoutMs: 100, maxTotalMs: 250 };
  const timer = new RequestTimer(limits, { what: 'x', end, ...(isOurTurn && { isOurTurn }) });
  timer.wait();
  return { timer, ended };
}

describe('RequestTimer', () => {
  test('a server that is silent for too long ends the request, once', () => {
    const { timer, ended } = started();
    vi.advanceTimersByTime(99);
    expect(ended).toEqual([]);
    vi.advanceTimersByTime(1_000);
    expect(ended).toEqual([
      'x timed out after 100 ms without a message of the tool server; set timeoutMs',
    ]);
    timer[Symbol.dispose]();
  });

  test('each message begins the silence anew, up to the total', () => {
    const { timer, ended } = started();
    for (let message = 0; message < 3; message += 1) {
      vi.advanceTimersByTime(80);
      timer.pause();
      timer.wait();
    }
    expect(ended).toEqual([]);
    vi.advanceTimersByTime(11);
    expect(ended).toEqual(['x timed out after 250 ms in total; set maxTotalMs']);
    timer[Symbol.dispose]();
  });

  test('the time of a slow reader counts for neither limit', () => {
    const { timer, ended } = started();
    timer.pause();
    vi.advanceTimersByTime(10_000);
    timer.wait();
    vi.advanceTimersByTime(99);
    expect(ended).toEqual([]);
    vi.advanceTimersByTime(2);
    expect(ended).toHaveLength(1);
    timer[Symbol.dispose]();
  });

  test('time in which the server waits for us does not count', () => {
    let isOurTurn = true;
    const { timer, ended } = started(() => isOurTurn);
    vi.advanceTimersByTime(10_000);
    expect(ended).toEqual([]);
    isOurTurn = false;
    vi.advanceTimersByTime(200);
    expect(ended).toHaveLength(1);
    timer[Symbol.dispose]();
  });

  test('disposing leaves no timer, and no limit sets none', () => {
    const { timer } = started();
    timer[Symbol.dispose]();
    timer[Symbol.dispose]();
    using unlimited = new RequestTimer(NO_LIMITS, { what: 'x', end: () => {} });
    unlimited.wait();
    expect(vi.getTimerCount()).toBe(0);
  });
});

test('the defaults are 60 seconds of silence and an hour in total', () => {
  expect(limitsOf({})).toEqual({ timeoutMs: 60_000, maxTotalMs: 3_600_000 });
  for (const timeoutMs of [0, -1, Number.NaN])
    expect(() => checkLimits({ timeoutMs })).toThrow(
      `invalid timeoutMs "${timeoutMs}": expected a number above 0, or Infinity`,
    );
});

test('a request gets the abort of its caller and of its limit', async () => {
  const hang = (signal: AbortSignal): Promise<never> =>
    new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  const stop = new AbortController();
  const limited = withinLimits(limitsOf({}), { what: 'x' }, stop.signal, hang);
  stop.abort(new Error('enough'));
  await expect(limited).rejects.toThrow('enough');
  const late = withinLimits(limitsOf({}), { what: 'x' }, undefined, hang);
  late.catch(() => {});
  vi.advanceTimersByTime(60_000);
  await expect(late).rejects.toMatchObject({ code: 'timeout' });
  expect(vi.getTimerCount()).toBe(0);
});

test('breaking out of a stream leaves no timer', async () => {
  async function* numbers(): AsyncGenerator<number> {
    for (let number = 0; ; number += 1) yield number;
  }
  for await (const number of streamWithinLimits(limitsOf({}), 'x', undefined, numbers))
    if (number === 3) break;
  expect(vi.getTimerCount()).toBe(0);
});
