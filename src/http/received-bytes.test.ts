import { expect, test } from 'vitest';
import { ReceivedBytes, SLOW_MS } from './received-bytes.ts';

const KIB = 1024;

test('a body beyond the limit is refused, and its bytes are free again', () => {
  const received = new ReceivedBytes(300 * KIB, () => 0);
  const first = received.begin(() => expect.unreachable());
  const second = received.begin(() => expect.unreachable());
  expect(first.hold(200 * KIB)).toBe(true);
  expect(second.hold(200 * KIB)).toBe(false);
  const third = received.begin(() => expect.unreachable());
  expect(third.hold(100 * KIB)).toBe(true);
  first.end();
  expect(third.hold(300 * KIB)).toBe(true);
});

test('the body that has been arriving longest makes room for others', () => {
  let now = 0;
  const cut: string[] = [];
  const received = new ReceivedBytes(300 * KIB, () => now);
  const slow = received.begin(() => cut.push('slow'));
  const next = received.begin(() => cut.push('next'));
  expect(slow.hold(150 * KIB)).toBe(true);
  expect(next.hold(150 * KIB)).toBe(true);
  now = SLOW_MS;
  // Progress does not help: a client that sends one byte a second would keep its place forever.
  expect(slow.hold(150 * KIB + 1)).toBe(false);
  expect(cut).toEqual([]);
  expect(received.begin(() => {}).hold(300 * KIB)).toBe(true);
  expect(cut).toEqual(['next']);
});

test('one body is allowed, however long, and short ones are not counted', () => {
  const received = new ReceivedBytes(1, () => 0);
  expect(received.begin(() => {}).hold(1000 * KIB)).toBe(true);
  for (let i = 0; i < 100; i++) expect(received.begin(() => {}).hold(64 * KIB)).toBe(true);
});
