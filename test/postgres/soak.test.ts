import { expect, test } from 'vitest';
import { postgresMissing } from '../support/task/postgres.ts';
import { soak, soakLine } from '../support/task/soak.ts';
import { suite } from '../verifies.ts';

suite('soak on postgres', postgresMissing, () => {
  // `scripts/soak.ts` for a minute. The streams are many and slow, so that two cores have something
  // left for the tests beside it; nothing of what is checked is less.
  test('a minute of kills, stops and cuts loses nothing, doubles nothing, and ends everything once', async () => {
    const report = await soak({
      ms: 60_000,
      replicas: 4,
      streams: 200,
      wordMs: 500,
      faultMs: 1000,
    });
    process.stdout.write(`soak: ${soakLine(report)}\n`);
    expect(report.losses).toEqual([]);
    expect(report.tasks).toBeGreaterThanOrEqual(200);
    expect(report.events).toBeGreaterThan(1000);
    const { kills, stops, cuts, stalls, restarts, crashes } = report;
    expect(Math.min(kills, stops, cuts, stalls, restarts, crashes)).toBeGreaterThan(0);
  }, 600_000);
});
