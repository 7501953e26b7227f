import { expect, test } from 'vitest';
import { RunningBytes } from './running-bytes.ts';

const KIB = 1024;

test('one owner has at most half of the memory of running requests', () => {
  const running = new RunningBytes(100 * KIB);
  const first = running.take('mallory', 40 * KIB);
  expect(first).toBeDefined();
  expect(running.take('mallory', 20 * KIB)).toBeUndefined();
  expect(running.take('alice', 40 * KIB)).toBeDefined();
  expect(running.take('bob', 40 * KIB)).toBeUndefined();
  first?.();
  first?.();
  expect(running.take('bob', 40 * KIB)).toBeDefined();
  expect(running.take('carol', 40 * KIB)).toBeUndefined();
});

test('one request is always allowed, however long it is', () => {
  const running = new RunningBytes(10);
  const end = running.take(undefined, 40 * KIB);
  expect(end).toBeDefined();
  expect(running.take(undefined, 1)).toBeUndefined();
  end?.();
  expect(running.take(undefined, 1)).toBeDefined();
});
