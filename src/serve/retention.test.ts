import { expect, test, vi } from 'vitest';
import { startRetention } from './retention.ts';

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

test.each([30 * 24 * 60 * 60 * 1000, Infinity])(
  'pruning waits between two periods of %s ms',
  async (everyMs) => {
    vi.useFakeTimers();
    try {
      let looks = 0;
      const log = { prune: async () => (looks++, 0) };
      const retention = startRetention(log, { everyMs }, SILENT);
      await vi.advanceTimersByTimeAsync(24 * 60 * 60 * 1000);
      expect(looks).toBe(1);
      await retention[Symbol.asyncDispose]();
    } finally {
      vi.useRealTimers();
    }
  },
);

test('disposing ends a pruning at its next step', async () => {
  let isLooking = (): void => {};
  const looks = new Promise<void>((resolve) => (isLooking = resolve));
  const log = {
    // As a log with a million ended tasks.
    async prune({ signal }: { readonly signal?: AbortSignal }) {
      isLooking();
      for (;;) {
        signal?.throwIfAborted();
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
  };
  const failures: string[] = [];
  const logger = { ...SILENT, error: (message: string) => void failures.push(message) };
  const retention = startRetention(log, { everyMs: 1 }, logger);
  await looks;
  await retention[Symbol.asyncDispose]();
  expect(failures).toEqual([]);
});
