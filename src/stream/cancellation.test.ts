import { expect, test } from 'vitest';
import { Cancellation } from './cancellation.ts';

test('the first abort counts, for the signal and for every listener, once', () => {
  const cancellation = new Cancellation();
  const heard: unknown[] = [];
  cancellation.onAbort((reason) => heard.push(['a', reason]));
  const { signal } = cancellation;
  cancellation.onAbort((reason) => heard.push(['b', reason]));
  cancellation.abort('first');
  cancellation.abort('second');
  expect(heard).toEqual([
    ['a', 'first'],
    ['b', 'first'],
  ]);
  expect(signal.aborted).toBe(true);
  expect(signal.reason).toBe('first');
  expect(cancellation.signal).toBe(signal);
});

test('a listener that is added after the abort runs immediately', () => {
  const cancellation = new Cancellation();
  cancellation.abort('late');
  const heard: unknown[] = [];
  cancellation.onAbort((reason) => heard.push(reason));
  expect(heard).toEqual(['late']);
  expect(cancellation.aborted).toBe(true);
  expect(cancellation.signal.reason).toBe('late');
});

test('a listener that stopped listening is not called', () => {
  const cancellation = new Cancellation();
  const unlisten = cancellation.onAbort(() => expect.unreachable());
  unlisten();
  cancellation.abort('now');
  unlisten();
});

test.each([
  ['a cancellation', (parent: Cancellation) => parent],
  ['a signal', (parent: Cancellation) => ({ signal: parent.signal })],
])('follows %s until it stops', (_, given) => {
  const parent = new Cancellation();
  const child = new Cancellation();
  const left = new Cancellation();
  child.follow(given(parent));
  left.follow(given(parent))();
  parent.abort('gone');
  expect([child.aborted, child.reason, left.aborted]).toEqual([true, 'gone', false]);
  const late = new Cancellation();
  late.follow(given(parent));
  expect(late.reason).toBe('gone');
});

test('follow accepts undefined', () => {
  const cancellation = new Cancellation();
  cancellation.follow(undefined)();
  cancellation.follow({})();
  expect(cancellation.aborted).toBe(false);
});
