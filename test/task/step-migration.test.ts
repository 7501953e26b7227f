import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Agent } from '../../src/event/types.ts';
import { type Claim, createRunner, sqliteLog } from '../../src/task/index.ts';
import { openDatabase } from '../../src/task/sqlite/driver.ts';
import { answer, collect, say, textOf, turn, until } from './replica-world.ts';

/** As the version before wrote it: no due times, and snapshots that do not know of steps. */
function toSchema5(file: string): void {
  const db = openDatabase(file);
  db.exec(`drop table task_values; drop index tasks_due; drop index tasks_state; alter table tasks drop column due_at;
    update snapshots set line = json_remove(line, '$.data.mark.from');
    delete from migrations where version > 5`);
  db.close();
}

test('a file of the version before is gone on with: a waiting run and an interrupted one', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'duolane-'));
  try {
    const file = join(folder, 'tasks.db');
    const request = { id: 'q', kind: 'question', message: '?' } as const;
    const old = await sqliteLog({ file });
    for (const task of ['asked', 'running']) {
      const { claim } = await old.submit(turn('a', task), { worker: 'A' });
      const asks = [
        { type: 'input.required', request },
        { type: 'run.finished', outcome: 'input-required', text: 'old ', pending: [request] },
      ] as const;
      await old.append(claim as Claim, 1, [
        { type: 'run.started' },
        // Enough entries for a stored snapshot.
        ...Array.from({ length: 20 }, (_, index) => say(`${index} `)),
        ...(task === 'asked' ? asks : []),
      ]);
    }
    await old[Symbol.asyncDispose]();
    toSchema5(file);

    const effects: string[] = [];
    const agent: Agent = Object.assign(
      async function* (given, ctx) {
        await ctx.step('one', ({ key }) => void effects.push(key));
        if (given.task === 'asked') await ctx.ask(request);
        await ctx.sleep('short', 50);
        yield say(await ctx.step('two', () => 'new'));
      } satisfies Agent,
      { resumable: true },
    );
    await using log = await sqliteLog({ file });
    await using runner = createRunner({ log, agents: { a: agent }, suspendAfterMs: 0 });
    await runner.submit(answer('a', 'asked', 'q'));
    for (const task of ['asked', 'running']) {
      await until(log, task, ({ suspended }) => suspended === true);
      const entries = await collect(log.read(task, 0));
      expect(textOf(entries)).toBe('new');
      expect(entries.at(-1)).toMatchObject({ outcome: 'completed', text: 'new' });
    }
    expect(effects).toHaveLength(2);
  } finally {
    await rm(folder, { recursive: true });
  }
});
