import { expect, test } from 'vitest';
import { createStreamRights } from './stream-rights.ts';
import { eventually } from '../../../test/support/busy.ts';

test('a stream ends when its credentials have ended, or cannot be checked', async () => {
  let may = true;
  await using rights = createStreamRights(1);
  const ended: string[] = [];
  const track = (name: string, mayGoOn: () => Promise<boolean>): (() => void) =>
    rights.track({ owner: 'ada', mayGoOn, end: () => void ended.push(name) });
  track('session', async () => may);
  track('store down', () => Promise.reject(new Error('down')));
  track('secret', async () => true);
  const over = track('ended by itself', async () => may);
  await eventually(() => expect(ended).toEqual(['store down']));
  over();
  may = false;
  await eventually(() => expect(ended).toEqual(['store down', 'session']));
  await rights.check('ada');
  expect(ended).toHaveLength(2);
});

test('a check of one owner checks no streams of others', async () => {
  await using rights = createStreamRights();
  const ended: string[] = [];
  for (const owner of ['ada', 'bob'])
    rights.track({ owner, mayGoOn: async () => false, end: () => void ended.push(owner) });
  await rights.check('bob');
  expect(ended).toEqual(['bob']);
});
