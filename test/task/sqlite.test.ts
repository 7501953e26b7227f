import { EventEmitter } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { MessageChannel, type Worker } from 'node:worker_threads';
import type { Entry, Snapshot, Turn } from '../../src/event/types.ts';
import { type Claim, createRunner, sqliteLog } from '../../src/task/index.ts';
import { openLog } from '../../src/task/store/index.ts';
import { heapShare } from '../../src/task/text-budget.ts';
import { filterCondition } from '../../src/task/store/filter-condition.ts';
import { encodeSnapshot } from '../../src/task/store/line-codec.ts';
import { sqliteDatabase, sqliteThread } from '../../src/task/sqlite/sqlite-log.ts';
import { threadStore } from '../../src/task/sqlite/thread-store.ts';
import { collect, longTask, manyWords, words } from './replica-world.ts';
import { openDatabase } from '../../src/task/sqlite/driver.ts';

let folder: string;
let file: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'duolane-'));
  file = join(folder, 'new', 'tasks.db');
});
afterEach(() => rm(folder, { recursive: true }));

const turn = (task: string): Turn => ({
  agent: 'a',
  task,
  context: 'c',
  messageId: task,
  parts: [{ text: 'hi' }],
});

/**
 * As the version before wrote it: an entry a row, and turns that go with their task by themselves.
 */
function toSchema3(file: string): void {
  const db = openDatabase(file);
  const rows = db.prepare('select task, seq, note, line from entries').all();
  db.exec('delete from entries');
  const insert = db.prepare('insert into entries values(?, ?, ?, ?)');
  for (const { task, seq, note, line } of rows)
    for (const [index, each] of String(line).split('\n').entries())
      insert.run(Number(task), Number(seq) + index, Number(note), each);
  db.exec(`create table old_turns(
      owner text not null, agent text not null, message_id text not null,
      task integer not null references tasks(key) on delete cascade, seq integer not null,
      primary key(owner, agent, message_id)) without rowid;
    insert into old_turns select * from turns;
    drop table turns;
    alter table old_turns rename to turns;
    create index turns_task on turns(task);
    drop table outlines; drop table task_values;
    drop index tasks_due; drop index tasks_state; alter table tasks drop column due_at;
    delete from migrations where version > 3`);
  db.close();
}

describe('sqlite log', () => {
  test('a file that cannot be locked is not said to be in use', async () => {
    await mkdir(join(folder, 'new'));
    await writeFile(`${file}-lock`, 'this is not a database. '.repeat(500));
    await expect(sqliteLog({ file })).rejects.toMatchObject({
      code: 'server',
      message: expect.stringContaining('must be writable') as string,
    });
  });

  test('a damaged task that has ended is pruned', async () => {
    const first = await sqliteLog({ file });
    for (const task of ['good', 'bad']) {
      await first.submit(turn(task));
      await first.requestCancel(task);
    }
    await first[Symbol.asyncDispose]();
    const db = openDatabase(file);
    db.exec(
      `update entries set line = '{"type":' where task = (select key from tasks where id = 'bad')`,
    );
    db.close();
    await using log = await sqliteLog({ file });
    expect(await log.prune({ deltasEndedBefore: Date.now() + 1000 })).toBe(2);
    expect(await log.prune({ tasksEndedBefore: Date.now() + 1000 })).toBe(2);
    expect(await log.count({})).toBe(0);
    expect((await log.submit(turn('bad'))).entry.seq).toBe(1);
  });

  test('one damaged task is left out of lists and claims, and reported once', async () => {
    const first = await sqliteLog({ file });
    for (const task of ['good1', 'bad', 'good2']) await first.submit(turn(task));
    await first[Symbol.asyncDispose]();
    const db = openDatabase(file);
    db.exec(
      `update entries set line = '{"type":' where task = (select key from tasks where id = 'bad')`,
    );
    db.close();
    const reports: unknown[] = [];
    const logger = {
      debug() {},
      info() {},
      warn() {},
      error: (...all: unknown[]) => void reports.push(all),
    };
    await using log = await sqliteLog({ file, logger });
    for (let times = 0; times < 2; times++) {
      const listed: string[] = [];
      for await (const { task } of log.list({})) listed.push(task);
      expect(listed).toEqual(['good2', 'good1']);
    }
    const claimed: string[] = [];
    for await (const { task } of log.claims('w', { agents: ['a'] }))
      if (claimed.push(task) === 2) break;
    expect(claimed).toEqual(['good1', 'good2']);
    await expect(log.get('bad')).rejects.toMatchObject({ code: 'malformed' });
    expect(reports).toMatchObject([
      [expect.stringContaining('cannot read a stored task'), { task: 'bad' }],
    ]);
  });

  const bad = "(select key from tasks where id = 'bad')";
  const snapshot = (data: string): string =>
    `insert into snapshots values(${bad}, 1, '{"type":"custom","name":"snapshot","seq":1,"at":1,"data":${data}}')`;
  test.each([
    ['no entries', `delete from entries where task = ${bad}`],
    ['no line', `update entries set line = '' where task = ${bad}`],
    ['null', `update entries set line = 'null' where task = ${bad}`],
    [
      'no turn',
      `update entries set line = '{"type":"turn.submitted","seq":1,"at":1}' where task = ${bad}`,
    ],
    [
      'half a turn',
      `update entries set line = '{"type":"turn.submitted","seq":1,"at":1,"turn":{"task":"bad"}}' where task = ${bad}`,
    ],
    ['half a snapshot', snapshot('{"task":"bad","seq":1}')],
    ['a snapshot that is not an object', snapshot('[]')],
  ])('a task damaged by %s is left out of lists and claims', async (_, damage) => {
    const first = await sqliteLog({ file });
    for (const task of ['good1', 'bad', 'good2']) await first.submit(turn(task));
    await first[Symbol.asyncDispose]();
    const db = openDatabase(file);
    db.exec(damage);
    db.close();
    const logger = { debug() {}, info() {}, warn() {}, error() {} };
    await using log = await sqliteLog({ file, logger });
    const listed: string[] = [];
    for await (const { task } of log.list({})) listed.push(task);
    expect(listed).toEqual(['good2', 'good1']);
    const claimed: string[] = [];
    const signal = AbortSignal.timeout(5000);
    for await (const { task } of log.claims('w', { agents: ['a'], signal }))
      if (claimed.push(task) === 2) break;
    expect(claimed).toEqual(['good1', 'good2']);
    await expect(log.get('bad')).rejects.toMatchObject({ code: 'malformed' });
  });

  test('a second log on the file is refused until the first is closed', async () => {
    const first = await sqliteLog({ file });
    await expect(sqliteLog({ file })).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining(`in use by process ${process.pid} on`) as string,
    });
    await first[Symbol.asyncDispose]();
    await first[Symbol.asyncDispose]();
    await using again = await sqliteLog({ file });
    expect(await again.get('t')).toBeUndefined();
  });

  test('after closing, a call says so', async () => {
    const log = await sqliteLog({ file });
    await log[Symbol.asyncDispose]();
    await expect(log.get('t')).rejects.toMatchObject({ code: 'closed' });
    await expect(log.submit(turn('t'))).rejects.toMatchObject({ code: 'closed' });
  });

  test('closing first does what was asked before', async () => {
    const log = await sqliteLog({ file });
    const submitted = log.submit(turn('t'));
    await log[Symbol.asyncDispose]();
    expect((await submitted).entry.seq).toBe(1);
  });

  test('what cannot travel to the thread is refused, and nothing else', async () => {
    await using log = await sqliteLog({ file });
    const data = { handler: () => {} } as never;
    const [there, refused] = await Promise.allSettled([
      log.submit(turn('t')),
      log.bookmark({ task: 't', name: 'n', after: 1, data }),
    ]);
    expect(there).toMatchObject({ status: 'fulfilled' });
    expect(refused).toMatchObject({ status: 'rejected', reason: { code: 'invalid' } });
    expect(await log.count({})).toBe(1);
  });

  test('a log with invalid options does not keep its file', async () => {
    const invalid = { file, heartbeatMs: 10, leaseMs: 5 };
    await expect(sqliteLog(invalid)).rejects.toMatchObject({ code: 'invalid' });
    await using log = await sqliteLog({ file });
    expect(await log.get('t')).toBeUndefined();
  });

  test('a file of a newer schema is refused', async () => {
    await (await sqliteLog({ file }))[Symbol.asyncDispose]();
    const db = openDatabase(file);
    db.exec('insert into migrations values(99, 0)');
    db.close();
    await expect(sqliteLog({ file })).rejects.toMatchObject({ code: 'unsupported' });
  });

  test('every read is answered, also when all together are too long for one message', async () => {
    await using log = await sqliteLog({ file });
    await longTask(log, 't', 900_000);
    const count = Math.ceil(heapShare() / 4 / 900_000) + 20;
    const all = await Promise.all(
      Array.from({ length: count }, async () => (await log.get('t'))?.text.length),
    );
    expect(all).toEqual(Array.from({ length: count }, () => 900_000));
  });

  test('a list of outlines reads nothing of what tasks have said', async () => {
    const first = await sqliteLog({ file });
    for (const task of ['t0', 't1', 't2']) await longTask(first, task, 10_000);
    await first[Symbol.asyncDispose]();
    const db = openDatabase(file);
    db.exec(`delete from entries; update snapshots set line = 'x'`);
    db.close();
    await using log = await sqliteLog({ file });
    const outlines = await collect(log.list({ outline: true }));
    expect(outlines.map(({ task, state }) => `${task} ${state}`).toSorted()).toEqual([
      't0 completed',
      't1 completed',
      't2 completed',
    ]);
  });

  test('a log has an outline from when it becomes long, and a short one has none', async () => {
    const first = await sqliteLog({ file });
    await longTask(first, 'short', 1000);
    const { claim } = await first.submit(turn('growing'), { worker: 'A' });
    await first.append(claim as Claim, 1, [{ type: 'run.started' }]);
    // Deltas are no change for lists, but a list must not read them from the file.
    await first.append(claim as Claim, 2, [
      { type: 'text.delta', id: 'x', delta: manyWords(2000) },
    ]);
    await first[Symbol.asyncDispose]();
    const db = openDatabase(file);
    const outlined = db.prepare('select id from outlines join tasks on key = task').all();
    db.close();
    expect(outlined.map(({ id }) => id)).toEqual(['growing']);
    await using log = await sqliteLog({ file });
    const states = async (): Promise<string[]> =>
      (await collect(log.list({ outline: true }))).map(({ task, state }) => `${task} ${state}`);
    expect(await states()).toEqual(expect.arrayContaining(['growing working', 'short completed']));
    await log.requestCancel('growing');
    expect(await states()).toEqual(expect.arrayContaining(['growing canceled', 'short completed']));
  });

  test('an outline of the file follows its task, also when the log is short', async () => {
    const first = await sqliteLog({ file });
    const { claim } = await first.submit(turn('t'), { worker: 'A' });
    await first.append(claim as Claim, 1, [{ type: 'run.started' }]);
    const snapshot = (await first.get('t')) as Snapshot;
    await first[Symbol.asyncDispose]();
    const db = openDatabase(file);
    // The version before wrote an outline of every task.
    db.prepare('insert into outlines values(1, ?)').run(encodeSnapshot(snapshot));
    db.close();
    const second = await sqliteLog({ file });
    await second.requestCancel('t');
    await second[Symbol.asyncDispose]();
    await using log = await sqliteLog({ file });
    expect(await collect(log.list({ outline: true }))).toMatchObject([{ state: 'canceled' }]);
  });

  test('a page of long tasks ends early, so that a list holds a few of them at a time', async () => {
    const store = await sqliteDatabase(file);
    await using log = openLog(store);
    for (let i = 0; i < 8; i++) await longTask(log, `t${i}`, 300_000);
    const { snapshots, endsEarly } = await store.page({ limit: 50, maxChars: 1 << 20 });
    expect({ tasks: snapshots.length, endsEarly }).toEqual({ tasks: 4, endsEarly: true });
    expect(await collect(log.list({}))).toHaveLength(8);
  });

  test('a list by state reads the tasks of that state only, in the order of an index', async () => {
    await (await sqliteLog({ file }))[Symbol.asyncDispose]();
    const db = openDatabase(file);
    const open = ['submitted', 'working', 'input-required', 'auth-required'] as const;
    for (const state of [...open, 'failed', 'canceled', 'rejected'] as const)
      for (const filter of [{}, { owner: 'ann' }, { owner: 'ann', agent: 'a', changedAfter: 1 }]) {
        const { where, values } = filterCondition({ ...filter, state }, () => '?');
        const plan = db
          .prepare(`explain query plan select id, changed_at, key from tasks where ${where}
             and (changed_at, key) < (9, 9) order by changed_at desc, key desc limit 50`)
          .all(...values)
          .map((row) => String(row['detail']));
        // One step: no temporary tree to sort.
        expect(plan).toEqual([expect.stringMatching(/^SEARCH tasks USING INDEX tasks_state \(/)]);
      }
    db.close();
  });

  test('a file of schema 1 is brought up to date, with the tenants of its tasks', async () => {
    const first = await sqliteLog({ file });
    const { claim } = await first.submit({ ...turn('t'), tenant: 'x' }, { worker: 'A' });
    await first.append(claim as Claim, 1, [{ type: 'run.started' }]);
    const snapshot = (await first.get('t')) as Snapshot;
    await first[Symbol.asyncDispose]();
    const db = openDatabase(file);
    // It kept a snapshot of every task, however short.
    db.prepare('insert into snapshots values(1, 2, ?)').run(encodeSnapshot(snapshot));
    db.exec(`drop index tasks_state; drop index tasks_changed;
      create index tasks_changed on tasks(changed_at, key);
      drop index tasks_owner; alter table tasks drop column tenant;
      create index tasks_owner on tasks(owner, changed_at, key);
      alter table tasks rename column changed_seq to seq;
      create index turns_task on turns(task);
      drop table outlines; drop table task_values;
      drop index tasks_due; alter table tasks drop column due_at;
      delete from migrations where version > 1`);
    db.close();
    await using log = await sqliteLog({ file });
    expect(await log.count({ tenant: 'x' })).toBe(1);
    expect(await log.count({ tenant: '' })).toBe(0);
    const again = await log.submit({ ...turn('other'), messageId: 't', tenant: 'x' });
    expect(again.entry).toMatchObject({ seq: 1, turn: { task: 't' } });
  });

  test('a file with a row for each entry is read, gone on with, compacted and pruned', async () => {
    const deltas = (from: number): { type: 'text.delta'; id: string; delta: string }[] =>
      Array.from({ length: 40 }, (_, index) => ({
        type: 'text.delta',
        id: 'x',
        delta: `${from + index}\n`,
      }));
    const first = await sqliteLog({ file });
    const { claim } = await first.submit(turn('t'), { worker: 'A' });
    await first.append(claim as Claim, 1, [{ type: 'run.started' }, ...deltas(0)]);
    await first[Symbol.asyncDispose]();
    toSchema3(file);

    const log = await sqliteLog({ file });
    for await (const resumed of log.claims('B', { agents: ['a'] })) {
      expect(resumed.snapshot).toMatchObject({ seq: 42, running: true });
      const at = await log.append(resumed, 42, deltas(40));
      const text = [...deltas(0), ...deltas(40)].map(({ delta }) => delta).join('');
      await log.append(resumed, at, [
        { type: 'text.end', id: 'x', text },
        { type: 'run.finished', outcome: 'completed', text },
      ]);
      break;
    }
    const seqs = async (after: number): Promise<number[]> => {
      const found: number[] = [];
      for await (const { seq } of log.read('t', after)) found.push(seq);
      return found;
    };
    const all = Array.from({ length: 84 }, (_, index) => index + 1);
    for (const after of [0, 1, 41, 42, 43, 60, 83])
      expect(await seqs(after)).toEqual(all.slice(after));
    expect((await log.submit({ ...turn('u'), messageId: 't' })).entry).toMatchObject({ seq: 1 });
    expect(await log.get('u')).toBeUndefined();

    expect(await log.prune({ deltasEndedBefore: Date.now() + 1000 })).toBe(1);
    expect(await seqs(0)).toEqual([1, 2, 83, 84]);
    expect(await log.prune({ tasksEndedBefore: Date.now() + 1000 })).toBe(1);
    await log[Symbol.asyncDispose]();
    const db = openDatabase(file);
    for (const table of ['tasks', 'entries', 'turns', 'snapshots'])
      expect([table, db.prepare(`select * from ${table}`).all()]).toEqual([table, []]);
    db.close();
  });

  test('a task that is pruned takes its message ids along, and only its own', async () => {
    const log = await sqliteLog({ file });
    for (const task of ['t', 'u']) {
      const { claim } = await log.submit(
        { ...turn(task), owner: 'o', tenant: 'x' },
        { worker: 'A' },
      );
      if (task === 't')
        await log.append(claim as Claim, 1, [
          { type: 'run.started' },
          { type: 'run.finished', outcome: 'completed', text: '' },
        ]);
    }
    expect(await log.prune({ tasksEndedBefore: Date.now() + 1000 })).toBe(1);
    await log[Symbol.asyncDispose]();
    const db = openDatabase(file);
    expect(db.prepare('select message_id from turns').all()).toMatchObject([{ message_id: 'u' }]);
    db.close();
  });

  test('a short task that was compacted is whole when the file is opened again', async () => {
    const first = await sqliteLog({ file });
    const { claim } = await first.submit(turn('t'), { worker: 'A' });
    await first.append(claim as Claim, 1, [
      { type: 'run.started' },
      { type: 'text.delta', id: 'b', delta: 'Hello ' },
      { type: 'text.delta', id: 'b', delta: 'world' },
      { type: 'text.end', id: 'b', text: 'Hello world' },
      { type: 'run.finished', outcome: 'completed', text: 'Hello world' },
    ]);
    const before = await first.get('t');
    await first.prune({ deltasEndedBefore: Date.now() + 1000 });
    await first[Symbol.asyncDispose]();
    await using log = await sqliteLog({ file });
    expect(before).toMatchObject({ state: 'completed', text: 'Hello world' });
    expect(await log.get('t')).toEqual(before);
  });

  for (const at of [1, 6])
    test(`a thread that crashes is started again, and the run goes on (at entry ${at})`, async () => {
      const threads: Worker[] = [];
      const store = await threadStore((again) => {
        const thread = sqliteThread(file)(again);
        threads.push(thread.worker);
        return thread;
      });
      await using log = openLog(store);
      await using runner = createRunner({ log, agents: { a: words(20, 2) } });
      await runner.submit(turn('t'));
      const seen: Entry[] = [];
      for await (const entry of log.read('t', 0)) {
        seen.push(entry);
        if (entry.seq === at) void threads.at(-1)?.terminate();
      }
      expect(threads).toHaveLength(2);
      expect(seen.map(({ seq }) => seq)).toEqual(seen.map((_, index) => index + 1));
      expect(await log.get('t')).toMatchObject({ state: 'completed', text: manyWords(20) });
      expect(seen.at(-1)).toMatchObject({ type: 'run.finished', outcome: 'completed' });
    });

  test('a thread that keeps crashing is given up, and every caller gets the error', async () => {
    const threads: Worker[] = [];
    const store = await threadStore((again) => {
      const thread = sqliteThread(file)(again);
      threads.push(thread.worker);
      if (again) void thread.worker.terminate();
      return thread;
    });
    await using log = openLog(store);
    const { claim } = await log.submit(turn('t'), { worker: 'A' });
    const reading = log.read('t', 1).next();
    void threads[0]?.terminate();
    await expect(reading).rejects.toMatchObject({ code: 'closed' });
    expect(claim?.signal.aborted).toBe(true);
    await expect(log.get('t')).rejects.toThrow('crashed 5 times');
  });

  test('a file that cannot be opened is refused with the reason', async () => {
    await expect(sqliteLog({ file: folder })).rejects.toMatchObject({ code: 'server' });
  });

  test('the reason of a thread that cannot open the file is read, even if its exit is seen first', async () => {
    const opening = threadStore(() => {
      const { port1, port2 } = new MessageChannel();
      const worker = Object.assign(new EventEmitter(), { ref() {}, unref() {} });
      queueMicrotask(() => {
        port2.postMessage({ failure: { code: 'unsupported', message: 'newer', retryable: false } });
        worker.emit('exit', 0);
      });
      return { worker: worker as unknown as Worker, port: port1 };
    });
    await expect(opening).rejects.toMatchObject({ code: 'unsupported', message: 'newer' });
  });

  test('a restart finds tasks, folds what came after the last snapshot, and frees every claim', async () => {
    const first = await sqliteLog({ file });
    const { claim } = await first.submit(turn('t'), { worker: 'A' });
    if (!claim) throw new Error('not free');
    await first.append(claim, 1, [{ type: 'run.started' }]);
    await first.append(claim, 2, [{ type: 'text.delta', id: 't', delta: 'hello' }]);
    const before = await first.get('t');
    await first[Symbol.asyncDispose]();
    await using log = await sqliteLog({ file });
    expect(await log.get('t')).toEqual(before);
    for await (const next of log.claims('B', { agents: ['a'] })) {
      expect(next).toMatchObject({ task: 't', epoch: claim.epoch + 1, snapshot: before });
      break;
    }
  });
});
