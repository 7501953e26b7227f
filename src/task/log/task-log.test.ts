import { expect, test } from 'vitest';
import { turnOf } from '../../../test/support/arbitraries.ts';
import { DuolaneError } from '../../errors.ts';
import { memoryLog } from '../index.ts';
import { memoryDatabase } from '../memory/memory-log.ts';
import { openLog } from '../store/index.ts';

test('an owner may queue 10,000 tasks where no limit is given, and another owner as many', async () => {
  await using log = memoryLog();
  const submit = (owner: string, index: number): Promise<unknown> =>
    log.submit(turnOf(`m${index}`, { task: `${owner}${index}`, owner }));
  for (let index = 0; index < 10_000; index++) await submit('ann', index);
  await expect(submit('ann', 10_000)).rejects.toMatchObject({
    code: 'overloaded',
    message: expect.stringContaining('maxQueuedPerOwner (10000)') as string,
  });
  await submit('bob', 0);
});

test('a task has at most 100 turns that wait for their runs, and another task as many', async () => {
  await using log = memoryLog();
  const submit = (task: string, index: number): Promise<unknown> =>
    log.submit(turnOf(`${task}/${index}`, { task }));
  for (let index = 0; index < 100; index++) await submit('t', index);
  await expect(submit('t', 100)).rejects.toMatchObject({ code: 'overloaded', retryable: true });
  await submit('t', 99); // sent before
  await submit('u', 0);
});

test.for([
  ['data', { parts: [{ data: 'x'.repeat(1_000_000) }] }],
  ['metadata', { metadata: { long: 'x'.repeat(1_000_000) } }],
] as const)('the %s of waiting turns count against their limit', async ([, long]) => {
  await using log = memoryLog();
  for (let index = 0; index < 4; index++) await log.submit(turnOf(`m${index}`, long));
  await expect(log.submit(turnOf('m4', long))).rejects.toMatchObject({ code: 'overloaded' });
});

test.for([
  ['context', 1024],
  ['tenant', 1024],
  ['messageId', 2048],
] as const)('the %s of a turn has at most %i bytes', async ([name, most]) => {
  await using log = memoryLog();
  const submit = (id: string): Promise<unknown> => log.submit(turnOf('m', { [name]: id }));
  await submit('é'.repeat(most / 2));
  await expect(submit(`${'é'.repeat(most / 2)}x`)).rejects.toMatchObject({
    code: 'invalid',
    message: `invalid ${name} of a turn: expected at most ${most} bytes, got ${most + 1}`,
  });
});

test.for(
  ['context', 'tenant', 'messageId'].flatMap((name) =>
    ['a\0b', 'half \ud800', '\udc00\ud800'].map((id) => [name, id] as const),
  ),
)('the %s of a turn cannot be %j, which a database cannot store', async ([name, id]) => {
  await using log = memoryLog();
  await expect(log.submit(turnOf('m', { [name]: id }))).rejects.toMatchObject({
    code: 'invalid',
    message: `invalid ${name} of a turn: expected valid Unicode without zero characters`,
  });
});

test('a reader gets what the store did not announce, also if it cannot be read at first', async () => {
  const store = memoryDatabase();
  let isDeaf = false;
  let onGap = (): void => {};
  let failures = 3;
  await using log = openLog({
    ...store,
    announcesAll: true,
    onCommit: (listener) => store.onCommit((commit) => void (isDeaf || listener(commit))),
    onGap(listener) {
      onGap = listener;
      return () => {};
    },
    heads(...args) {
      if (failures-- > 0) return Promise.reject(new DuolaneError('network', 'not yet'));
      return store.heads(...args);
    },
  });
  await log.submit(turnOf('m'));
  const reader = log.read('t', 0)[Symbol.asyncIterator]();
  expect(await reader.next()).toMatchObject({ value: { seq: 1 } });
  isDeaf = true;
  await log.requestCancel('t');
  isDeaf = false;
  onGap();
  expect(await reader.next()).toMatchObject({ value: { type: 'cancel.requested' } });
});
