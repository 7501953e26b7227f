import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { verifies } from '../../../test/verifies.ts';
import { DuolaneError } from '../../errors.ts';
import { httpStatusError, streamedError, modelError } from '../../event/retry/model-error.ts';
import { parseRetryAfter } from '../../http-status.ts';
import { streamWithRetry } from './retry.ts';
import { DEFAULT_RETRY, retryDelay, type RetryPolicy } from '../../event/retry/retry-policy.ts';
import { type Model, type ModelEvent, NO_USAGE } from './types.ts';

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, 'random').mockReturnValue(0); // no spread of the delays
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const request = { model: 'm', system: '', messages: [], tools: [], maxTokens: 10 };
const stop: ModelEvent = { type: 'stop', reason: 'end_turn', usage: NO_USAGE };
const text = (words: string): ModelEvent => ({ type: 'text', text: words });

/** A model whose attempts are given: events, then perhaps a failure. */
function attempts(...scripts: readonly (ModelEvent | Error)[][]): Model & { calls: number } {
  const model = {
    name: 'm',
    keySource: 'none',
    calls: 0,
    async *stream() {
      for (const step of scripts[model.calls++] ?? []) {
        if (step instanceof Error) throw step;
        yield step;
      }
    },
  };
  return model;
}

/** Everything that came out, with the time at which it came. */
async function collect(
  model: Model,
  options: { signal?: AbortSignal; policy?: RetryPolicy; mayRetry?: () => boolean } = {},
) {
  const seen: [number, string][] = [];
  const start = Date.now();
  const run = (async () => {
    const signal = options.signal ?? new AbortController().signal;
    for await (const event of streamWithRetry(model, request, { ...options, signal })) {
      seen.push([Date.now() - start, event.type === 'text' ? event.text : event.type]);
    }
  })();
  let endedAt = 0;
  const failure = run
    .then(
      () => undefined,
      (reason: unknown) => reason as DuolaneError,
    )
    .finally(() => (endedAt = Date.now() - start));
  await vi.advanceTimersByTimeAsync(120_000);
  return { seen, failure: await failure, endedAt };
}

const status = (code: number, retryAfter?: string): DuolaneError =>
  httpStatusError(code, 'scripted', (name) => (name === 'retry-after' ? retryAfter : null));

verifies(
  ['S199', 'S201', 'S202'],
  'a failed attempt is retried after 2 s and 4 s, then the error is thrown',
  async () => {
    const model = attempts([status(500)], [status(500)], [status(503)]);
    const { seen, failure } = await collect(model);
    expect(seen).toEqual([
      [0, 'attempt'],
      [0, 'retry'],
      [2000, 'attempt'],
      [2000, 'retry'],
      [6000, 'attempt'],
    ]);
    expect(failure).toMatchObject({ status: 503 });
    expect(model.calls).toBe(3);
  },
);

verifies(['S200', 'S203'], 'only 429, 5xx and trouble of the network are tried again', async () => {
  for (const code of [429, 500, 502, 503, 529])
    expect([code, retryDelay(DEFAULT_RETRY, httpStatusError(code, ''), 1)]).toEqual([code, 2000]);
  for (const code of [400, 401, 403, 404, 408, 413, 422]) {
    const model = attempts([status(code)], [text('never'), stop]);
    expect((await collect(model)).failure).toMatchObject({ status: code });
    expect(model.calls).toBe(1);
  }
  expect(retryDelay(DEFAULT_RETRY, new DuolaneError('network', 'cut'), 1)).toBe(2000);
});

verifies('S204', 'a success ends the attempts', async () => {
  const model = attempts([status(429)], [text('ok'), stop], [text('never')]);
  const { seen, failure } = await collect(model);
  expect(failure).toBeUndefined();
  expect(seen.at(-2)).toEqual([2000, 'ok']);
  expect(model.calls).toBe(2);
});

verifies(
  'S206',
  'after a failure in the middle, `retry` separates the void text from the new one',
  async () => {
    const cut = new DuolaneError('network', 'cut');
    const { seen } = await collect(
      attempts([text('a'), text('b'), text('c'), cut], [text('whole'), stop]),
    );
    expect(seen.map(([, what]) => what)).toEqual([
      'attempt',
      'a',
      'b',
      'c',
      'retry',
      'attempt',
      'whole',
      'stop',
    ]);
  },
);

verifies('S207', 'an abort ends the wait between two attempts immediately', async () => {
  const controller = new AbortController();
  setTimeout(() => controller.abort(new DuolaneError('canceled', 'enough')), 500);
  const model = attempts([status(500)], [text('never')]);
  const { failure, endedAt } = await collect(model, { signal: controller.signal });
  expect(failure).toMatchObject({ code: 'canceled' });
  expect(endedAt).toBe(500);
  expect(model.calls).toBe(1);
  expect(vi.getTimerCount()).toBe(0);
});

test('retries of clients that failed at the same time are spread', () => {
  const delayAt = (random: number): number | undefined => {
    vi.mocked(Math.random).mockReturnValueOnce(random);
    return retryDelay(DEFAULT_RETRY, status(429), 1);
  };
  expect([delayAt(0), delayAt(0.5), delayAt(1)]).toEqual([2000, 2100, 2200]);
});

test('retry-after-ms is exact, and wins over Retry-After', () => {
  const delayOf = (headers: Record<string, string>): number | undefined =>
    httpStatusError(429, '', (name) => headers[name]).retryAfterMs;
  expect(delayOf({ 'retry-after-ms': '2750', 'retry-after': '9' })).toBe(2750);
  expect(delayOf({ 'retry-after-ms': 'soon', 'retry-after': '9' })).toBe(9000);
  expect(delayOf({})).toBeUndefined();
});

test('a longer Retry-After is respected up to the limit; a shorter one is ignored', () => {
  const after = (seconds: string): number | undefined =>
    retryDelay(
      DEFAULT_RETRY,
      httpStatusError(429, '', (name) => (name === 'retry-after' ? seconds : null)),
      1,
    );
  expect(after('7')).toBe(7000);
  expect(after('0.5')).toBe(2000);
  expect(after('3600')).toBe(60_000);
  expect(parseRetryAfter(new Date(Date.now() + 9000).toUTCString(), Date.now())).toBeGreaterThan(
    7999,
  );
  expect(parseRetryAfter('soon', 0)).toBeUndefined();
});

test('a message that had effects is not requested twice', async () => {
  const model = attempts([text('x'), status(500)], [text('never')]);
  expect((await collect(model, { mayRetry: () => false })).failure).toMatchObject({ status: 500 });
  expect(model.calls).toBe(1);
});

test('a driver that ignores the signal is abandoned', async () => {
  const controller = new AbortController();
  const deaf: Model = {
    name: 'deaf',
    keySource: 'none',
    async *stream() {
      await new Promise(() => {});
      yield stop;
    },
  };
  setTimeout(() => controller.abort(new DuolaneError('canceled', 'enough')), 10);
  expect((await collect(deaf, { signal: controller.signal })).failure).toMatchObject({
    code: 'canceled',
  });
});

test.each([
  [{ type: 'overloaded_error', message: 'busy' }, 529, true],
  [{ code: 429, message: 'slow down' }, 429, true],
  [{ code: 'invalid_request_error', message: 'no' }, 400, false],
  [{ message: 'something' }, 500, true],
])('an error inside a stream is mapped to a code: %j', (error, expected, retryable) => {
  expect(streamedError(error)).toMatchObject({ status: expected, retryable });
});

test.each([
  [Object.assign(new Error('x'), { statusCode: 429 }), { code: 'rate_limited', retryable: true }],
  [
    Object.assign(new Error('x'), { lastError: { status: 400 } }),
    { code: 'invalid', retryable: false },
  ],
  [
    new TypeError('fetch failed', {
      cause: Object.assign(new Error('x'), { code: 'ECONNREFUSED' }),
    }),
    { code: 'network', retryable: true },
  ],
  [new TypeError('terminated'), { code: 'network', retryable: true }],
  [new Error('who knows'), { code: 'server', retryable: false }],
])('an error of a provider client is mapped to a code: %s', (error, expected) => {
  expect(modelError(error)).toMatchObject(expected);
});
