import { expect, test, vi } from 'vitest';
import { createStreamRights } from './stream-rights.ts';

test('a stream ends when its caller may no longer ask, and when that cannot be found out', async () => {
  let may = true;
  await using rights = createStreamRights(1);
  const ended: string[] = [];
  const hold = (name: string, mayGoOn: () => Promise<boolean>): (() => void) =>
    rights.hold({ owner: 'ada', mayGoOn, end: () => void ended.push(name) });
  hold('session', async () => may);
  hold('store down', () => Promise.reject(new Error('down')));
  hold('secret', async () => true);
  const over = hold('ended by itself', async () => may);
  await vi.waitFor(() => expect(ended).toEqual(['store down']));
  over();
  may = false;
  await vi.waitFor(() => expect(ended).toEqual(['store down', 'session']));
  await rights.look('ada');
  expect(ended).toHaveLength(2);
});

test('a look at the streams of one owner asks for no others', async () => {
  await using rights = createStreamRights();
  const ended: string[] = [];
  for (const owner of ['ada', 'bob'])
    rights.hold({ owner, mayGoOn: async () => false, end: () => void ended.push(owner) });
  await rights.look('bob');
  expect(ended).toEqual(['bob']);
});
