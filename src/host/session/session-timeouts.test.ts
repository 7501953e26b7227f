import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { SessionTimeouts } from './session-timeouts.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('no timer starts after the session has ended', () => {
  const fails: string[] = [];
  const limits = { interruptMs: 10, readyMs: 10, exitMs: 10, cleanupMs: 10 };
  const timeouts = new SessionTimeouts(
    { ...limits, stall: { afterMs: 10, failMs: 10 } },
    {
      isServing: () => false,
      // The turn of a CLI that died stays open.
      isBusy: () => true,
      isSettled: () => false,
      isDoubtful: () => true,
      onDoubt: () => fails.push('doubt'),
      onStalled: () => fails.push('stalled'),
      endPeer: (why) => fails.push(why),
      fail: (what) => fails.push(what),
    },
  );
  timeouts.stop();
  // As `endInput({ force: true })` and `interrupt` do, which an app may still call.
  timeouts.expectExit();
  timeouts.expectTurn();
  timeouts.expectReceipt();
  timeouts.expectEnd(() => true);
  expect(vi.getTimerCount()).toBe(0);
  expect(fails).toEqual([]);
});
