import { expect, test } from 'vitest';
import { disposeOnce } from './dispose-once.ts';

test('closes once, immediately, for every caller', async () => {
  let closed = 0;
  let finish = (): void => {};
  const dispose = disposeOnce(() => {
    closed += 1;
    return new Promise<void>((resolve) => (finish = resolve));
  });
  const both = Promise.all([dispose(), dispose()]);
  expect(closed).toBe(1);
  finish();
  await both;
  await dispose();
  expect(closed).toBe(1);
});

test('a dispose from inside the close does not start another', async () => {
  let closed = 0;
  let inner: Promise<void> | undefined;
  const dispose = disposeOnce(() => {
    closed += 1;
    inner = dispose();
  });
  await dispose();
  await inner;
  expect(closed).toBe(1);
});

test('every caller gets the failure', async () => {
  const dispose = disposeOnce(() => {
    throw new Error('stuck');
  });
  await expect(dispose()).rejects.toThrow('stuck');
  await expect(dispose()).rejects.toThrow('stuck');
});
