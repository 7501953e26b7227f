import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { postgresMissing, startPostgres } from '../support/task/postgres.ts';
import { suite } from '../verifies.ts';
import type { Fault, FaultKind, StoreKind } from './play.ts';
import { faultsOf, loadAgent, playPoint, pointsOf, unbroken } from './run-matrix.ts';

// Some points of the matrix. `npm run kill-matrix` tries all of them, for all agents.

const AGENTS = ['steps', 'duolane-agent'];

/** Adapters whose peers are installed for every full test run. They are killed on SQLite only. */
const ADAPTERS = ['anthropic', 'ai-sdk'];

const folder = mkdtempSync(join(tmpdir(), 'duolane-kill-matrix-'));
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));

/** So many points, from the first to the last one. */
const some = (points: readonly Fault[], count: number): readonly Fault[] =>
  Array.from(
    { length: count },
    (_, index) => points[Math.floor(((index + 0.5) * points.length) / count)] as Fault,
  );

async function problemsIn(
  name: string,
  store: StoreKind,
  only?: FaultKind,
): Promise<readonly object[]> {
  const loaded = await loadAgent(name);
  await using database = store === 'postgres' ? await startPostgres() : undefined;
  const temporary = join(folder, name, store);
  const options = { loaded, store, temporary, ...(database && { database }) };
  const whole = await unbroken(options);
  expect(whole.entries.length).toBeGreaterThan(40);
  const kinds = faultsOf(store, loaded.agent).filter((kind) => (only ?? kind) === kind);
  const problems: object[] = [];
  for (const kind of kinds)
    for (const fault of some(pointsOf(whole, kind), kind === 'kill' ? 2 : 1)) {
      const { wrong } = await playPoint(options, whole, fault);
      if (wrong.length > 0) problems.push({ fault, wrong });
    }
  return problems;
}

test.each(AGENTS)(
  '%s on SQLite: an interrupted run ends like an unbroken one',
  async (name) => expect(await problemsIn(name, 'sqlite')).toEqual([]),
  600_000,
);

for (const name of ADAPTERS) {
  const { agent } = await loadAgent(name);
  suite(`the kill matrix of ${name}`, agent.missing, () => {
    test('on SQLite, a killed run ends like an unbroken one', async () => {
      expect(await problemsIn(name, 'sqlite', 'kill')).toEqual([]);
    }, 600_000);
  });
}

suite('the kill matrix on PostgreSQL', postgresMissing, () => {
  test.each(AGENTS)(
    '%s: an interrupted run ends like an unbroken one',
    async (name) => expect(await problemsIn(name, 'postgres')).toEqual([]),
    600_000,
  );
});
