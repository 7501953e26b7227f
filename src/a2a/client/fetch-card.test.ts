import { expect, onTestFinished, test, vi } from 'vitest';
import { fetchCard } from './fetch-card.ts';

const untilAbort = (signal: AbortSignal | null | undefined): Promise<never> =>
  new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));

test.each([
  ['does not respond', async (init?: RequestInit) => untilAbort(init?.signal)],
  [
    'never finishes its card',
    async (init?: RequestInit) =>
      new Response(
        new ReadableStream({
          start(controller) {
            controller.enqueue(new TextEncoder().encode('{'));
            untilAbort(init?.signal).catch((error: unknown) => controller.error(error));
          },
        }),
      ),
  ],
])('a server that %s fails with a timeout', async (_, respond) => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const fetched = fetchCard('https://example.com/card.json', {
    fetch: (_url, init) => respond(init),
  });
  const [failed] = await Promise.allSettled([fetched, vi.advanceTimersByTimeAsync(30_000)]);
  expect(failed).toMatchObject({ status: 'rejected', reason: { code: 'timeout' } });
  expect(vi.getTimerCount()).toBe(0);
});

test('an abort of the caller has its own reason', async () => {
  const stop = new AbortController();
  const fetched = fetchCard('https://example.com/card.json', {
    fetch: (_url, init) => untilAbort(init?.signal),
    signal: stop.signal,
  });
  stop.abort(new Error('mine'));
  await expect(fetched).rejects.toThrow('mine');
});
