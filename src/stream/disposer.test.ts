import { expect, test } from 'vitest';
import { Disposer } from './disposer.ts';

test('closes in the reverse order, one after the other, and once', async () => {
  const order: string[] = [];
  const scope = new Disposer();
  scope.defer(() => order.push('first'));
  scope.use({ [Symbol.dispose]: () => void order.push('sync') });
  const resource = { [Symbol.asyncDispose]: async () => void order.push('async') };
  expect(scope.use(resource)).toBe(resource);
  scope.defer(async () => {
    await new Promise((resolve) => void setImmediate(resolve));
    order.push('last');
  });
  await scope[Symbol.asyncDispose]();
  await scope[Symbol.asyncDispose]();
  expect(order).toEqual(['last', 'async', 'sync', 'first']);
});

test('one failure is thrown unchanged, after everything is closed', async () => {
  const closed: number[] = [];
  const close = async (): Promise<void> => {
    await using scope = new Disposer();
    scope.defer(() => closed.push(1));
    scope.defer(() => {
      throw new TypeError('stuck');
    });
    scope.defer(() => closed.push(2));
  };
  await expect(close()).rejects.toThrow(new TypeError('stuck'));
  expect(closed).toEqual([2, 1]);
});

test('several failures become one error that contains all of them', async () => {
  const scope = new Disposer();
  for (const message of ['a', 'b']) scope.defer(() => Promise.reject(new Error(message)));
  await expect(scope[Symbol.asyncDispose]()).rejects.toMatchObject({
    code: 'internal',
    cause: { errors: [{ message: 'b' }, { message: 'a' }] },
  });
});

test('a resource that is registered after the end is rejected', async () => {
  const scope = new Disposer();
  await scope[Symbol.asyncDispose]();
  expect(() => scope.defer(() => {})).toThrow(expect.objectContaining({ code: 'closed' }) as Error);
});
