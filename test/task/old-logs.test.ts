import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { Client } from 'pg';
import { expect, test } from 'vitest';
import { checkLaws } from '../../src/event/index.ts';
import type { Agent } from '../../src/event/types.ts';
import { createRunner, sqliteLog, type TaskLog } from '../../src/task/index.ts';
import { postgresLog } from '../../src/task/postgres/index.ts';
import { postgresMissing, startPostgres } from '../support/task/postgres.ts';
import { suite } from '../verifies.ts';
import { answer, collect, manyWords, say, SILENT, textOf } from './replica-world.ts';
import { temporaryFolder } from './temporary-sqlite.ts';

// Logs in `test/fixtures/logs`, as earlier versions wrote them: SQLite with schema 4 and 7, and
// PostgreSQL with schema 1 and 6. Each was written by the code of its time, which was then killed
// with kill -9, so that it has a task that has ended, one that waits for a person, and runs that
// were under way. The newer ones also have a run that waits for an event, and one that sleeps.

const FIXTURES = new URL('../fixtures/logs/', import.meta.url);
const read = (name: string): Buffer => readFileSync(new URL(name, FIXTURES));

/** What the agents of the old log do today, and how often a step was run. */
function today(): { readonly agents: Readonly<Record<string, Agent>>; readonly ran: string[] } {
  const ran: string[] = [];
  const agents: Record<string, Agent> = {
    talks: async function* () {},
    async *asks(_turn, ctx) {
      yield say('I ask. ');
      yield { type: 'tool.called', callId: 'c1', name: 'paint', args: { wall: 'north' } };
      const question = { kind: 'question', message: 'Which colour?' } as const;
      const { content } = await ctx.ask({ id: 'c1/colour', callId: 'c1', ...question });
      yield { type: 'tool.completed', callId: 'c1', name: 'paint', output: content };
    },
    works: Object.assign(
      async function* () {
        yield say('new');
      } satisfies Agent,
      { resumable: true },
    ),
    dies: async function* () {
      ran.push('dies');
      yield say('again');
    },
    async *steps(_turn, ctx) {
      const one = await ctx.step('one', () => {
        ran.push('one');
        return { value: 2 };
      });
      yield say(`one is ${one.value}, `);
      await ctx.waitFor('paid', { timeoutMs: 1000 });
      yield say('paid');
    },
    async *sleeps(_turn, ctx) {
      await ctx.step('before', () => void ran.push('before'));
      await ctx.sleep('nap', 3000);
      yield say('slept');
    },
  };
  return { agents, ran };
}

/** Lets every task of the log go on; returns how each has ended, and with which text. */
async function endsOf(log: TaskLog, hasSteps: boolean): Promise<object> {
  const names = ['asks', 'dies', 'talks', 'works', ...(hasSteps ? ['sleeps', 'steps'] : [])];
  const listed = await collect(log.list({ owner: 'ann' }));
  expect(listed.map(({ task }) => task).toSorted()).toEqual(names.toSorted());
  const ended = { state: 'completed', text: manyWords(40, 'word') };
  expect(await log.get('talks')).toMatchObject(ended);
  const before = new Map<string, string>();
  for (const task of names) {
    const { seq = 0 } = (await log.get(task)) ?? {};
    before.set(task, JSON.stringify(await collect(log.read(task, 0), seq)));
  }
  const { agents, ran } = today();
  await using runner = createRunner({ log, agents, suspendAfterMs: 0, logger: SILENT });
  const owner = { owner: 'ann' };
  await runner.submit({ ...answer('asks', 'asks', 'c1/colour', 'red'), ...owner });
  if (hasSteps) await runner.submit({ ...answer('steps', 'steps', 'paid', {}), ...owner });
  const texts: Record<string, string> = {};
  for (const task of names) {
    const entries = await collect(log.read(task, 0));
    expect(checkLaws(entries), task).toEqual([]);
    // Nothing that was written is lost or changed.
    const old = JSON.parse(before.get(task) ?? '[]') as readonly unknown[];
    expect(JSON.parse(JSON.stringify(entries.slice(0, old.length)))).toEqual(old);
    const end = entries.at(-1);
    if (end?.type !== 'run.finished') throw new Error(`task ${task} has no end`);
    texts[task] = `${end.outcome}: ${textOf(entries)}`;
  }
  expect(ran).toEqual([]);
  const answered = await collect(log.read('asks', 0));
  expect(answered.find(({ type }) => type === 'tool.completed')).toMatchObject({ output: 'red' });
  return texts;
}

const ENDS = {
  talks: `completed: ${manyWords(40, 'word')}`,
  asks: 'completed: I ask. ',
  works: 'completed: new',
  dies: 'failed: half a ',
};
const WITH_STEPS = { ...ENDS, steps: 'completed: one is 1, paid', sleeps: 'completed: slept' };

test.each([
  ['sqlite-4', false],
  ['sqlite-7', true],
])('%s: every task of the old file is read, and goes on', async (name, hasSteps) => {
  await using folder = await temporaryFolder();
  const file = join(folder.path, 'tasks.db');
  writeFileSync(file, gunzipSync(read(`${name}.db.gz`)));
  await using log = await sqliteLog({ file });
  expect(await endsOf(log, hasSteps)).toEqual(hasSteps ? WITH_STEPS : ENDS);
});

suite('old logs on PostgreSQL', postgresMissing, () => {
  test.each([
    ['postgres-1', false],
    ['postgres-6', true],
  ])('%s: every task of the old tables is read, and goes on', async (name, hasSteps) => {
    await using database = await startPostgres();
    const { url: connectionString } = database;
    const schema = database.schema();
    const client = new Client({ connectionString });
    await client.connect();
    await client.query(
      `create schema ${schema}; set search_path to ${schema}; ${read(`${name}.sql`).toString()}`,
    );
    await client.end();
    await using log = await postgresLog({ connectionString, schema, pollMs: 100 });
    expect(await endsOf(log, hasSteps)).toEqual(hasSteps ? WITH_STEPS : ENDS);
  });
});
