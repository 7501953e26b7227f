import fc from 'fast-check';
import { expect, test } from 'vitest';
import { anyYield } from '../../../test/support/arbitraries.ts';
import { decodeEntry } from '../../event/entry-codec.ts';
import type { AgentEvent } from '../../event/types.ts';
import { encodeEvent, flatEntry, numberLine } from './line-codec.ts';

const read = (event: AgentEvent): unknown => decodeEntry(numberLine(encodeEvent(event, 5), 7));

/** An event with a time that cannot be stored is refused before an entry is made of it. */
function canEncode(event: AgentEvent): boolean {
  try {
    return encodeEvent(event, 5) !== '';
  } catch {
    return false;
  }
}

test('an entry that is made without reading its line is the one that its line gives', () => {
  let made = 0;
  fc.assert(
    fc.property(anyYield, (value) => {
      const event = value as AgentEvent;
      fc.pre(typeof value === 'object' && value !== null && typeof event.type === 'string');
      const entry = flatEntry(event, 7, 5);
      if (!entry || !canEncode(event)) return;
      made++;
      expect(entry).toStrictEqual(read(event));
    }),
  );
  expect(made).toBeGreaterThan(10);
});

test.each<[string, object]>([
  ['a list', { path: ['a'] }],
  ['an object', { usage: { inputTokens: 1 } }],
  ['a number that JSON has no word for', { at: Number.NaN }],
  ['a time that is not a number', { at: null }],
  ['a zero that JSON writes without its sign', { extra: -0 }],
  ['a function that says what JSON is', { toJSON: () => 'x' }],
  ['another format', { v: 2 }],
])('with %s in it the line is read', (_what, more) => {
  const event = { type: 'text.delta', id: 't', delta: 'x', ...more } as AgentEvent;
  expect(flatEntry(event, 7, 5)).toBeUndefined();
});

test('later changes of an event do not change its entry', () => {
  const event = { type: 'text.delta' as const, id: 't', delta: 'x', path: undefined };
  const entry = flatEntry(event as object as AgentEvent, 7, 5);
  event.delta = 'y';
  expect(entry).toStrictEqual({ type: 'text.delta', id: 't', delta: 'x', at: 5, seq: 7 });
});

test.each([2 ** 53, -1, 0.5, 8.64e15 + 1, Number.NaN, Infinity, '1' as unknown as number])(
  'an event with the time %s, which no reader could read, is not stored',
  (at) => {
    const encode = (): string => encodeEvent({ type: 'status', message: 'x', at });
    expect(encode).toThrow('invalid time');
  },
);

test('the first and the last time that there is are stored', () => {
  for (const at of [0, 8.64e15])
    expect(decodeEntry(numberLine(encodeEvent({ type: 'status', message: 'x', at }), 1)).at).toBe(
      at,
    );
});
