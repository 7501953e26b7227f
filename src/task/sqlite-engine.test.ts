import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Turn } from '../event/types.ts';
import { encodeEvent } from './codec.ts';
import { openDatabase } from './sqlite-driver.ts';
import { type Call, SqliteEngine } from './sqlite-engine.ts';

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

const submit = (id: number, task: string): Call => ({
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

describe('sqlite engine', () => {
  test('writes are done before the reads that travel with them', () => {
    using engine = open();
    const { replies, commits } = engine.run([
      { id: 1, method: 'get', args: ['t'] },
      submit(2, 't'),
    ]);
    expect(commits).toMatchObject([{ task: 't', head: 1, held: true }]);
    expect(replies.find(({ id }) => id === 1)).toMatchObject({ value: { task: 't' } });
  });

  test('a call that breaks its commit does not break the others in it', () => {
    using engine = open();
    engine.run([submit(1, 't')]);
    const broken: Call = {
      id: 2,
      method: 'bookmark',
      args: [{ task: 't', name: {}, after: 0, data: {} }],
    };
    const { replies, commits } = engine.run([submit(3, 'u'), broken, submit(4, 'v')]);
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
    const append: Call = {
      id: 2,
      method: 'append',
      args: [{ task: 't', epoch: 1, after: 1, events }],
    };
    expect(engine.run([append]).replies).toMatchObject([{ failure: { code: 'server' } }]);
    expect(engine.run([append]).replies).toMatchObject([{ failure: { code: 'fenced' } }]);
  });

  test('a file of a newer schema is refused and let go', () => {
    open()[Symbol.dispose]();
    const db = openDatabase(file);
    db.exec('insert into migrations values(99, 0)');
    expect(() => new SqliteEngine(file)).toThrow('newer Duolane');
    db.exec('delete from migrations where version = 99');
    db.close();
    using engine = open();
    expect(engine.run([submit(1, 't')]).commits).toHaveLength(1);
  });

  function open(): SqliteEngine & Disposable {
    const engine = new SqliteEngine(file);
    return Object.assign(engine, { [Symbol.dispose]: () => engine.close() });
  }
});
