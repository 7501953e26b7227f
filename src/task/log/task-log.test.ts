import { expect, test } from 'vitest';
import { turnOf } from '../../../test/support/arbitraries.ts';
import { memoryLog } from '../index.ts';

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
