import { expect, test } from 'vitest';
import type { Snapshot } from '../../event/types.ts';
import { getOwnTask, type TaskScope } from './own-task.ts';

const task = {
  task: 't',
  agent: 'a',
  owner: 'ada',
  turns: [{ tenant: 'north' }],
} as unknown as Snapshot;
const log = { get: async (id: string) => (id === 't' ? task : undefined) };

test.each<[string, TaskScope, boolean]>([
  ['its owner', { owner: 'ada' }, true],
  ['another owner', { owner: 'bob' }, false],
  ['a caller without a name', { owner: undefined }, false],
  ['its owner at its agent', { owner: 'ada', agent: 'a' }, true],
  ['its owner at another agent', { owner: 'ada', agent: 'b' }, false],
  ['its owner in its tenant', { owner: 'ada', tenant: 'north' }, true],
  ['its owner in another tenant', { owner: 'ada', tenant: 'south' }, false],
  ['its owner without a tenant', { owner: 'ada', tenant: undefined }, false],
])('%s reads a task: %o is %s', async (_who, scope, allowed) => {
  expect(await getOwnTask(log, 't', scope)).toBe(allowed ? task : undefined);
});

test('a task that does not exist is undefined', async () => {
  expect(await getOwnTask(log, 'missing', { owner: 'ada' })).toBeUndefined();
});
