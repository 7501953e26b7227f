import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { numbered } from '../../test/support/arbitraries.ts';
import { verifies } from '../../test/verifies.ts';
import { textUpdates, throttle, type TextUpdate, type TextUpdatesOptions } from './throttle.ts';
import type { AgentEvent, Encoder, Entry } from './types.ts';

const started: AgentEvent = { type: 'run.started', turn: 'm1', attempt: 1 };
const finished: AgentEvent = { type: 'run.finished', outcome: 'completed', text: '' };
const said = (delta: string, more: object = {}): AgentEvent => ({
  type: 'text.delta',
  id: 'x',
  delta,
  ...more,
});
const feed = <Out>(encoder: Encoder<Out>, events: readonly AgentEvent[]): Out[] =>
  events.flatMap((event, i) => [...encoder(numbered(event, i + 1))]);
const plain: Encoder<Entry> = (entry) => [entry];
const updates = (options: TextUpdatesOptions, deltas: readonly string[]): TextUpdate[] =>
  feed(textUpdates(options), [started, ...deltas.map((delta) => said(delta)), finished]);

function checkPoints(deltas: readonly string[]): void {
  const expected: number[] = [];
  let length = 0;
  for (const delta of deltas) {
    length += delta.length;
    if (length % 200 < delta.length) expected.push(length);
  }
  let said = 0;
  const points = feed(
    throttle(plain),
    deltas.map((delta) => ({ type: 'text.delta', id: 'x', delta }) as const),
  ).map((entry) => (said += entry.type === 'text.delta' ? entry.delta.length : 0));
  expect(points).toEqual(expected);
}

const deltas = fc.array(
  fc.nat(450).map((length) => 'abcdefghij'.repeat(45).slice(0, length)),
  {
    maxLength: 60,
  },
);

describe('throttle', () => {
  verifies('S149', 'a piece goes out exactly when the length crosses a multiple of 200', () => {
    fc.assert(fc.property(deltas, checkPoints));
    checkPoints(['a'.repeat(199), 'b', 'c'.repeat(199), 'dd', 'e'.repeat(800)]);
  });

  test('no character of any block is lost, repeated or reordered', () => {
    const inner = { path: ['sub'] };
    const events: AgentEvent[] = [
      started,
      said('a'),
      said('i', inner),
      said('b'),
      said('j', inner),
      { type: 'status', message: 'now' },
      said('c'),
      finished,
    ];
    const out = feed(throttle(plain), events).map((entry) =>
      entry.type === 'text.delta' ? entry.delta : entry.type,
    );
    expect(out).toEqual(['run.started', 'ab', 'ij', 'status', 'c', 'run.finished']);
  });
});

describe('updates with the text so far', () => {
  verifies(
    ['S137', 'S138', 'S139'],
    'each replaces the one before under one id, and is coherent by itself',
    () => {
      const got = updates(
        {},
        Array.from({ length: 300 }, (_, i) => `word ${i} `),
      );
      expectCoherent(got, Array.from({ length: 300 }, (_, i) => `word ${i} `).join(''));
    },
  );

  verifies(
    'S150',
    'a preview is the first 120 characters and three dots, at every 200 characters',
    () => {
      const text = 'x'.repeat(60) + '\u{1f600}'.repeat(100) + 'y'.repeat(3000);
      const got = updates({ preview: 'head120' }, text.match(/.{1,50}/gsu) ?? []);
      expectPreviews(got, text);
    },
  );

  test('stay linear: a long text costs at most twelve times its length', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 400 }),
        fc.integer({ min: 1, max: 3000 }),
        (size, count) => {
          const all = updates(
            {},
            Array.from({ length: count }, () => 'x'.repeat(size)),
          );
          const cost = all.reduce((sum, { text }) => sum + text.length, 0);
          expect(cost).toBeLessThan(12 * size * count + 65 * 200);
        },
      ),
      { numRuns: 40 },
    );
  });

  test('discarded text is missing from the next update', () => {
    const retry: AgentEvent = {
      type: 'retry',
      attempt: 2,
      discard: true,
      error: { code: 'network', message: '', retryable: true },
    };
    const step = (n: number): AgentEvent => ({ type: 'step.started', step: n });
    const got = feed(textUpdates({ chars: 2 }), [
      started,
      step(1),
      said('one'),
      step(2),
      said('bad'),
      retry,
      said('two'),
      finished,
    ]);
    expect(got.map(({ text }) => text)).toEqual(['one', 'onebad', 'onetwo', 'onetwo']);
    const again = feed(textUpdates({ chars: 2 }), [
      started,
      said('old'),
      { ...started, attempt: 2, discard: true },
      said('new'),
      finished,
    ]);
    expect(again.at(-1)).toEqual({ id: 'm1', text: 'new', done: true });
  });
});

function expectCoherent(got: readonly TextUpdate[], whole: string): void {
  expect(got.length).toBeGreaterThan(10);
  expect(new Set(got.map(({ id }) => id))).toEqual(new Set(['m1']));
  expect(got.every(({ text }) => whole.startsWith(text))).toBe(true);
  expect(got.slice(0, 3).map(({ text }) => Math.floor(text.length / 200))).toEqual([1, 2, 3]);
  expect(got.at(-1)).toEqual({ id: 'm1', text: whole, done: true });
}

function expectPreviews(got: readonly TextUpdate[], whole: string): void {
  const previews = got.filter(({ done }) => !done);
  expect(previews).toHaveLength(Math.floor(whole.length / 200));
  const first120 = 'x'.repeat(60) + '\u{1f600}'.repeat(60);
  expect(previews.every(({ text }) => text === `${first120}...`)).toBe(true);
  expect(got.at(-1)?.text).toBe(whole);
}
