import type { Answer } from '../../src/ask.ts';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

// What the page does with the line to its server, without a browser: its EventSource is a puppet.

interface Api {
  subscribeToTask(
    task: string,
    after: number,
    on: {
      head(): void;
      entry(): void;
      line(state: string): void;
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

/** Loaded untyped: the page's own types are those of a browser. */
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

  say(name: string, data: unknown): void {
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
  const api = await load<Api>('../../web/src/api.ts');
  const lines: string[] = [];
  const errors: string[] = [];
  const subscription = api.subscribeToTask('t', 7, {
    head() {},
    entry() {},
    line: (state) => lines.push(state),
    failed: (error) => errors.push(error.message),
  });
  return { subscription, lines, errors };
}

describe('a stream that the server ends with a failure', () => {
  test('is taken up again behind the last entry, and the pauses grow', async () => {
    const { subscription, lines, errors } = await subscribed();
    const entry = { seq: 9, at: 1, type: 'status', message: 'x' };
    FakeSource.made[0]!.onmessage?.({ data: JSON.stringify(entry) });
    for (const pauseMs of [1000, 2000, 4000]) {
      FakeSource.made.at(-1)!.say('failure', { message: 'the store is away', retryable: true });
      expect(lines.at(-1)).toBe('lost');
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

  test('that will not pass is said, and left to the person', async () => {
    const { lines, errors } = await subscribed();
    FakeSource.made[0]!.say('failure', { message: 'no', retryable: false });
    expect([lines.at(-1), errors]).toEqual(['failed', ['no']]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(FakeSource.made).toHaveLength(1);
  });

  test('is left alone once it was closed', async () => {
    const { subscription } = await subscribed();
    FakeSource.made[0]!.say('failure', { message: 'x' });
    subscription.close();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(FakeSource.made).toHaveLength(1);
  });
});

test('an answer that came second is known by its code', async () => {
  const api = await load<Api>('../../web/src/api.ts');
  const error = { code: 'conflict', message: 'question "q" was already answered' };
  answers.push({ status: 409, body: { error } });
  await expect(api.sendAnswer('t', { id: 'q', action: 'decline' })).rejects.toMatchObject(error);
});

test('a slow answer holds the next question back, and a failure does not end the polling', async () => {
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
  waiting[0]!.reject(new Error('away'));
  await vi.advanceTimersByTimeAsync(1000);
  expect(waiting).toHaveLength(2);
  polling.stop();
  waiting[1]!.resolve();
  await vi.advanceTimersByTimeAsync(5000);
  expect(waiting).toHaveLength(2);
});
