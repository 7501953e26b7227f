import { expect, test } from 'vitest';
import { postgresMissing } from '../support/postgres.ts';
import { soak } from '../support/soak.ts';
import { suite } from '../verifies.ts';

suite('soak on postgres', postgresMissing, () => {
  // The short form of `scripts/soak.ts`, with fewer replicas and streams, so that two cores have
  // something left for the tests beside it.
  test('a minute of kills, stops and cuts loses nothing, doubles nothing, and ends everything once', async () => {
    const report = await soak({ ms: 50_000, replicas: 3, streams: 20, faultMs: 2000 });
    expect(report.losses).toEqual([]);
    expect(report.tasks).toBeGreaterThan(20);
    expect(report.events).toBeGreaterThan(500);
    const { kills, stops, cuts, stalls, restarts, crashes } = report;
    expect(kills + stops + cuts + stalls + restarts + crashes).toBeGreaterThan(3);
  }, 240_000);
});
