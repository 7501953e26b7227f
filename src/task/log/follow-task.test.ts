import { expect, test } from 'vitest';
import type { Entry } from '../../event/types.ts';
import type { TaskLog } from '../types.ts';
import { followTask, type TaskFollower } from './follow-task.ts';

const said = (seq: number, delta: string): Entry => ({
  type: 'text.delta',
  id: 'x',
  delta,
  seq,
  at: seq,
});

/** A log whose entries come in commits: one wait for each, the rest without waiting. */
function logOf(...commits: readonly (readonly Entry[])[]): { log: TaskLog; closed: () => number } {
  let closes = 0;
  const read = (): unknown => {
    const waiting = commits.map((commit) => [...commit]);
    let current: Entry[] = [];
    return {
      take: () => current.shift(),
      [Symbol.asyncIterator]: () => ({
        next: async () => {
          if (current.length === 0) current = waiting.shift() ?? [];
          const value = current.shift();
          return value ? { done: false, value } : { done: true, value: undefined };
        },
        return: async () => {
          closes++;
          return { done: true, value: undefined };
        },
      }),
    };
  };
  return { log: { read } as unknown as TaskLog, closed: () => closes };
}

class Recorder implements TaskFollower<string> {
  readonly task = 't';
  seq = 0;

  follow(entry: Entry, outs: string[]): boolean | Promise<boolean> {
    if (!('delta' in entry)) throw new Error('unexpected entry');
    if (entry.delta === 'broken') throw new Error('cannot encode');
    this.seq = entry.seq;
    outs.push(entry.delta);
    if (entry.delta === 'later') return Promise.resolve(false);
    return entry.delta === 'end';
  }

  compacted(outs: string[]): void {
    outs.push('compacted');
  }
}

async function batchesOf(
  log: TaskLog,
  follower: TaskFollower<string> = new Recorder(),
): Promise<readonly (readonly string[])[]> {
  const batches: (readonly string[])[] = [];
  for await (const batch of followTask(log, follower, {})) batches.push(batch);
  return batches;
}

test('a batch has the outputs of the entries that are available together', async () => {
  const { log, closed } = logOf([said(1, 'a'), said(2, 'later'), said(3, 'b')], [said(4, 'c')]);
  expect(await batchesOf(log)).toEqual([['a', 'later', 'b'], ['c']]);
  expect(closed()).toBe(1);
});

test('a batch stays small, however many entries are available', async () => {
  const long = 'x'.repeat(40_000);
  const { log } = logOf([said(1, long), said(2, long), said(3, 'c')]);
  expect(await batchesOf(log)).toEqual([[long], [long], ['c']]);
});

test('the stream ends where its follower ends it', async () => {
  const { log, closed } = logOf([said(1, 'a'), said(2, 'end'), said(3, 'c')]);
  expect(await batchesOf(log)).toEqual([['a', 'end']]);
  expect(closed()).toBe(1);
});

test('outputs before an entry that fails are yielded before the error is thrown', async () => {
  const { log, closed } = logOf([said(1, 'a'), said(2, 'broken'), said(3, 'c')]);
  const stream = followTask(log, new Recorder(), {});
  expect(await stream.next()).toEqual({ done: false, value: ['a'] });
  await expect(stream.next()).rejects.toThrow('cannot encode');
  expect(closed()).toBe(1);
});

test('a gap in the numbers ends the stream with what replaces the compacted entries', async () => {
  const { log } = logOf([said(1, 'a')], [said(7, 'g'), said(8, 'h')]);
  expect(await batchesOf(log)).toEqual([['a'], ['compacted']]);
});

test('outputs of `begin` come first', async () => {
  const { log } = logOf([said(1, 'a')]);
  const follower = Object.assign(new Recorder(), {
    begin: async (outs: string[]) => outs.push('opening') === 0,
  });
  expect(await batchesOf(log, follower)).toEqual([['opening'], ['a']]);
});

test('a stream that is over after `begin` reads nothing', async () => {
  const { log } = logOf([said(1, 'a')]);
  const follower = Object.assign(new Recorder(), {
    begin: async (outs: string[]) => outs.push('opening') === 1,
  });
  expect(await batchesOf(log, follower)).toEqual([['opening']]);
});

test('breaking out of the loop closes the reader', async () => {
  const { log, closed } = logOf([said(1, 'a')], [said(2, 'b')]);
  for await (const batch of followTask(log, new Recorder(), {})) {
    expect(batch).toEqual(['a']);
    break;
  }
  expect(closed()).toBe(1);
});
