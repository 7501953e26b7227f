import type { Answer } from '../../src/ask.ts';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

// How the page handles the connection to its server, without a browser: the EventSource is a fake.

interface Api {
  subscribeToTask(
    task: string,
    after: number,
    on: {
      head(): void;
      alive(): void;
      entry(): void;
      connection(state: string): void;
      failed(error: Error): void;
    },
  ): { close(): void };
  sendAnswer(task: string, answer: Answer): Promise<unknown>;
}

interface Polling {
  pollInterval(
    ask: () => Promise<void>,
    everyMs: number,
    isHidden: () => boolean,
  ): { now(): void; stop(): void };
}

/**
 * Imports a module of the page without its types, which need those of a browser. The compiler does
 * not see a rename there: the interfaces above have to follow by hand.
 */
const load = async <T>(path: string): Promise<T> => (await import(/* @vite-ignore */ path)) as T;

class FakeSource {
  static readonly CLOSED = 2;
  static readonly made: FakeSource[] = [];
  readonly url: string;
  readyState = 1;
  onmessage: ((event: { data: string }) => void) | undefined;
  onerror: (() => void) | undefined;
  readonly #listeners = new Map<string, (event: { data: string }) => void>();

  constructor(url: string) {
    this.url = url;
    FakeSource.made.push(this);
  }

  addEventListener(name: string, listener: (event: { data: string }) => void): void {
    this.#listeners.set(name, listener);
  }

  emit(name: string, data: unknown): void {
    this.#listeners.get(name)?.({ data: JSON.stringify(data) });
  }

  close(): void {
    this.readyState = FakeSource.CLOSED;
  }
}

const answers: { status: number; body: unknown }[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('EventSource', FakeSource);
  vi.stubGlobal('fetch', async () => {
    const { status, body } = answers.shift() ?? { status: 200, body: {} };
    return Response.json(body, { status });
  });
  FakeSource.made.length = 0;
  answers.length = 0;
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function subscribed() {
  const api = await load<Api>('../../web/src/api/subscribe-to-task.ts');
  const states: string[] = [];
  const errors: string[] = [];
  const subscription = api.subscribeToTask('t', 7, {
    head() {},
    alive() {},
    entry() {},
    connection: (state) => states.push(state),
    failed: (error) => errors.push(error.message),
  });
  return { subscription, states, errors };
}

describe('a stream that the server ends with a failure', () => {
  test('is resumed behind the last entry, with growing pauses', async () => {
    const { subscription, states, errors } = await subscribed();
    const entry = { seq: 9, at: 1, type: 'status', message: 'x' };
    FakeSource.made[0]!.onmessage?.({ data: JSON.stringify(entry) });
    for (const pauseMs of [1000, 2000, 4000]) {
      FakeSource.made
        .at(-1)!
        .emit('failure', { message: 'the store is unavailable', retryable: true });
      expect(states.at(-1)).toBe('lost');
      const before = FakeSource.made.length;
      await vi.advanceTimersByTimeAsync(pauseMs - 1);
      expect(FakeSource.made).toHaveLength(before);
      await vi.advanceTimersByTimeAsync(1);
      expect(FakeSource.made).toHaveLength(before + 1);
    }
    expect(FakeSource.made.at(-1)!.url).toContain('after=9');
    expect(errors).toEqual([]);
    subscription.close();
  });

  test('is reported and not retried if the failure is permanent', async () => {
    const { states, errors } = await subscribed();
    FakeSource.made[0]!.emit('failure', { message: 'no', retryable: false });
    expect([states.at(-1), errors]).toEqual(['failed', ['no']]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(FakeSource.made).toHaveLength(1);
  });

  test('is not retried after close', async () => {
    const { subscription } = await subscribed();
    FakeSource.made[0]!.emit('failure', { message: 'x' });
    subscription.close();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(FakeSource.made).toHaveLength(1);
  });
});

test('a second answer to a question is rejected with the code conflict', async () => {
  const api = await load<Api>('../../web/src/api/requests.ts');
  const error = { code: 'conflict', message: 'question "q" was already answered' };
  answers.push({ status: 409, body: { error } });
  await expect(api.sendAnswer('t', { id: 'q', action: 'decline' })).rejects.toMatchObject(error);
});

test('a poll waits for the response before the next request, and a failure does not end the polling', async () => {
  const module = await load<Polling>('../../web/src/state/poll.ts');
  const waiting: { resolve: () => void; reject: (error: Error) => void }[] = [];
  const polling = module.pollInterval(
    () => new Promise((resolve, reject) => waiting.push({ resolve, reject })),
    1000,
    () => false,
  );
  polling.now();
  polling.now();
  await vi.advanceTimersByTimeAsync(5000);
  expect(waiting).toHaveLength(1);
  waiting[0]!.reject(new Error('unavailable'));
  await vi.advanceTimersByTimeAsync(1000);
  expect(waiting).toHaveLength(2);
  polling.stop();
  waiting[1]!.resolve();
  await vi.advanceTimersByTimeAsync(5000);
  expect(waiting).toHaveLength(2);
});
