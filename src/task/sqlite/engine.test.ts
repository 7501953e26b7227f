import { copyFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Turn } from '../../event/types.ts';
import { encodeEvent, numberLine } from '../store/line-codec.ts';
import { heapShare } from '../text-budget.ts';
import { openDatabase } from './driver.ts';
import { SqliteEngine } from './engine.ts';
import type { ThreadCall, Done, ThreadReply } from './thread-protocol.ts';
import type { Commit } from '../store/store.ts';

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

const submit = (id: number, task: string): ThreadCall => ({
  id,
  method: 'submit',
  args: [
    {
      note: encodeEvent({ type: 'turn.submitted', turn: turn(task) }),
      worker: 'w',
      leaseMs: 60_000,
      dedupe: true,
    },
  ],
});

const outcome = (done: readonly Done[]): { replies: ThreadReply[]; commits: Commit[] } => ({
  replies: done.map(({ reply }) => reply),
  commits: done.flatMap(({ commits }) => commits),
});

describe('sqlite engine', () => {
  test('writes are done before the reads that travel with them', () => {
    using engine = open();
    const { replies, commits } = outcome(
      engine.run([{ id: 1, method: 'get', args: ['t'] }, submit(2, 't')]),
    );
    expect(commits).toMatchObject([{ task: 't', head: 1, claimed: true }]);
    expect(replies.find(({ id }) => id === 1)).toMatchObject({ value: { task: 't' } });
  });

  test('long answers go in several messages: what is too much for one is asked again', () => {
    using engine = open();
    const long = { ...turn('t'), parts: [{ text: 'x'.repeat(1_000_000) }] };
    const note = encodeEvent({ type: 'turn.submitted', turn: long });
    engine.run([{ id: 1, method: 'submit', args: [{ note, leaseMs: 1, dedupe: true }] }]);
    const count = Math.ceil(heapShare() / 4 / 1_000_000) + 10;
    const gets = Array.from({ length: count }, (_, id): ThreadCall => ({
      id,
      method: 'get',
      args: ['t'],
    }));
    const { replies } = outcome(engine.run(gets));
    const left = replies.filter((reply) => 'again' in reply);
    expect(replies).toHaveLength(count);
    expect(left.length).toBeGreaterThan(5);
    expect(left.length).toBeLessThan(count / 2 + 10);
    // One is always answered.
    expect(outcome(engine.run(gets.slice(-1))).replies[0]).toMatchObject({ value: { task: 't' } });
  });

  test('a call that breaks its commit does not break the others in it', () => {
    using engine = open();
    engine.run([submit(1, 't')]);
    const broken: ThreadCall = {
      id: 2,
      method: 'bookmark',
      args: [{ task: 't', name: {}, after: 0, data: {} }],
    };
    const { replies, commits } = outcome(engine.run([submit(3, 'u'), broken, submit(4, 'v')]));
    expect(commits.map(({ task }) => task)).toEqual(['u', 'v']);
    expect(replies).toMatchObject([
      { id: 3, value: { task: 'u' } },
      { id: 2, failure: { code: 'server' } },
      { id: 4, value: { task: 'v' } },
    ]);
  });

  test('a place or epoch that changed in the file is noticed by the statement itself', () => {
    using engine = open();
    engine.run([submit(1, 't')]);
    const db = openDatabase(file);
    db.exec('update tasks set epoch = 7');
    db.close();
    const events = [encodeEvent({ type: 'run.started' })];
    const append: ThreadCall = {
      id: 2,
      method: 'append',
      args: [{ task: 't', epoch: 1, after: 1, events }],
    };
    expect(outcome(engine.run([append])).replies).toMatchObject([{ failure: { code: 'server' } }]);
    expect(outcome(engine.run([append])).replies).toMatchObject([{ failure: { code: 'fenced' } }]);
  });

  test('an entry that another process wrote to the file is noticed by its number', () => {
    using engine = open();
    const events = [encodeEvent({ type: 'text.delta', id: 't', delta: 'x' })];
    const append = (id: number, after: number, lines: readonly string[]): ThreadCall => ({
      id,
      method: 'append',
      args: [{ task: 't', epoch: 1, after, events: lines }],
    });
    engine.run([submit(1, 't'), append(2, 1, [encodeEvent({ type: 'run.started' })])]);
    const db = openDatabase(file);
    const theirs = numberLine(encodeEvent({ type: 'text.delta', id: 't', delta: 'y' }), 3);
    db.prepare('insert into entries select key, 3, 0, ? from tasks').run(theirs);
    db.close();
    const late = append(3, 2, events);
    expect(outcome(engine.run([late])).replies).toMatchObject([{ failure: { code: 'server' } }]);
    const { replies, commits } = outcome(engine.run([late, submit(4, 'u')]));
    expect(replies).toMatchObject([{ failure: { code: 'conflict' } }, { value: { task: 'u' } }]);
    expect(commits.map(({ task }) => task)).toEqual(['u']);
  });

  test('a file of a newer schema is refused and closed', () => {
    open()[Symbol.dispose]();
    const db = openDatabase(file);
    db.exec('insert into migrations values(99, 0)');
    expect(() => new SqliteEngine(file)).toThrow('newer Duolane');
    db.exec('delete from migrations where version = 99');
    db.close();
    using engine = open();
    expect(outcome(engine.run([submit(1, 't')])).commits).toHaveLength(1);
  });

  function open(): SqliteEngine & Disposable {
    const engine = new SqliteEngine(file);
    return Object.assign(engine, { [Symbol.dispose]: () => engine.close() });
  }
});

test('a thorough probe writes as much as a busy run', () => {
  const engine = new SqliteEngine(file);
  const before = statSync(`${file}-wal`).size;
  for (const id of [1, 2]) {
    const [done] = engine.run([{ id, method: 'probe', args: [true] }]);
    expect(done?.reply).toEqual({ id, value: undefined });
    expect(statSync(`${file}-wal`).size).toBeGreaterThan(before + id * 256 * 1024);
  }
  engine.close();
});

test.each([
  ['deleted', (path: string) => rmSync(path)],
  [
    'replaced',
    (path: string) => {
      copyFileSync(path, `${path}-copy`);
      renameSync(`${path}-copy`, path);
    },
  ],
])('writes are refused after the file was %s, because they would be lost', (_, change) => {
  const engine = new SqliteEngine(file);
  engine.run([submit(1, 't')]);
  change(file);
  for (const call of [submit(2, 'u'), { id: 3, method: 'probe', args: [false] } as const]) {
    const [done] = engine.run([call]);
    expect(done?.reply).toMatchObject({ failure: { code: 'server' } });
    expect(done?.commits).toEqual([]);
  }
  const [done] = engine.run([{ id: 4, method: 'get', args: ['t'] }]);
  expect(done?.reply).toMatchObject({ value: { task: 't' } });
  engine.close();
});
