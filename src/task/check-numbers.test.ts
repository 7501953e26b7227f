import { expect, test } from 'vitest';
import type { Agent } from '../event/types.ts';
import { memoryLog } from './memory/memory-log.ts';
import { createRunner } from './run/runner.ts';

const echo: Agent = async function* () {};

test.each([
  ['timeoutMs', 30 * 24 * 60 * 60 * 1000],
  ['timeoutMs', Infinity],
  ['suspendAfterMs', Infinity],
  ['graceMs', Number.NaN],
  ['maxRuns', Number.NaN],
  ['maxRunsPerOwner', -1],
  ['maxAttempts', Number.NaN],
  ['maxRunChars', Number.NaN],
  ['maxTotalChars', Number.NaN],
])('a runner refuses %s %s instead of doing something else in silence', async (name, value) => {
  await using log = memoryLog();
  expect(() => createRunner({ log, agents: { echo }, [name]: value })).toThrow(
    expect.objectContaining({ code: 'invalid', message: expect.stringContaining(name) }),
  );
});

test.each([
  ['heartbeatMs', 2 ** 31],
  ['leaseMs', Number.NaN],
  ['cancelTimeoutMs', Infinity],
  ['pollMs', Number.NaN],
  ['maxQueuedPerOwner', Number.NaN],
])('a log refuses %s %s', (name, value) => {
  expect(() => memoryLog({ [name]: value })).toThrow(
    expect.objectContaining({ code: 'invalid', message: expect.stringContaining(name) }),
  );
});

test('a count may be Infinity', async () => {
  await using log = memoryLog({ maxQueuedPerOwner: Infinity });
  await using runner = createRunner({ log, agents: { echo }, maxTotalChars: Infinity });
  const turn = { agent: 'echo', task: 't', context: 'c', messageId: 'm', parts: [] };
  expect(await runner.submit(turn)).toMatchObject({ seq: 1 });
});
