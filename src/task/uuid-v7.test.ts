import { expect, test, vi } from 'vitest';
import { uuidV7 } from './uuid-v7.ts';

test('an id is a UUID of version 7 that sorts by its time', () => {
  const ids = [0, 1_700_000_000_000, 1_700_000_000_001, 2 ** 47].map((now) => {
    using _ = mockNow(now);
    return uuidV7();
  });
  for (const id of ids)
    expect(id).toMatch(/^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
  expect(ids.toSorted()).toEqual(ids);
});

test('a thousand ids of one moment are a thousand ids', () => {
  using _ = mockNow(1_700_000_000_000);
  expect(new Set(Array.from({ length: 1000 }, uuidV7)).size).toBe(1000);
});

function mockNow(now: number): Disposable {
  const spy = vi.spyOn(Date, 'now').mockReturnValue(now);
  return { [Symbol.dispose]: () => spy.mockRestore() };
}
