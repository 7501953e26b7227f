import { expect, test, vi } from 'vitest';
import { createStreamRights } from './stream-rights.ts';

test('a stream ends when its caller may no longer ask, and when that cannot be found out', async () => {
  let may = true;
  await using rights = createStreamRights(1);
  const ended: string[] = [];
  const hold = (name: string, mayGoOn: () => Promise<boolean>): (() => void) =>
    rights.hold({ mayGoOn, end: () => void ended.push(name) });
  hold('session', async () => may);
  hold('store down', () => Promise.reject(new Error('down')));
  hold('secret', async () => true);
  const over = hold('ended by itself', async () => may);
  await vi.waitFor(() => expect(ended).toEqual(['store down']));
  over();
  may = false;
  await vi.waitFor(() => expect(ended).toEqual(['store down', 'session']));
  await rights.look();
  expect(ended).toHaveLength(2);
});
