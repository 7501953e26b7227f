import { describe, expect, test } from 'vitest';
import { DuolaneError } from '../../errors.ts';
import type { AgentEvent, Entry } from '../../event/types.ts';
import { memoryLog } from '../memory/memory-log.ts';
import type { TaskLog } from '../types.ts';
import { TaskWriter } from './task-writer.ts';

const started: AgentEvent = { type: 'run.started' };
const completed: AgentEvent = { type: 'run.finished', outcome: 'completed', text: '' };
const say = (delta: string): AgentEvent => ({ type: 'text.delta', id: 't', delta });

async function open(log: TaskLog): Promise<{ writer: TaskWriter; heard: Entry[] }> {
  const parts = [{ text: 'hi' }];
  const turn = { agent: 'a', task: 't', context: 'c', messageId: 'm', parts };
  const { claim } = await log.submit(turn, { worker: 'w' });
  if (!claim) throw new Error('not free');
  const heard: Entry[] = [];
  return { writer: new TaskWriter(log, claim, (note) => heard.push(note)), heard };
}

async function stored(log: TaskLog): Promise<string[]> {
  const head = (await log.get('t'))?.seq ?? 0;
  const types: string[] = [];
  for await (const entry of log.read('t', 0)) {
    types.push(entry.type === 'run.finished' ? `end ${entry.outcome}` : entry.type);
    if (entry.seq === head) break;
  }
  return types;
}

/** The same log, whose appends do what `append` says with the real one. */
const withAppend = (
  log: TaskLog,
  append: (real: TaskLog['append']) => TaskLog['append'],
): TaskLog =>
  new Proxy(log, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      const bound: unknown = typeof value === 'function' ? value.bind(target) : value;
      return name === 'append' ? append(bound as TaskLog['append']) : bound;
    },
  });

describe('task writer', () => {
  test('a batch after a cancel ends as canceled, and the note is passed on', async () => {
    await using log = memoryLog();
    const { writer, heard } = await open(log);
    await writer.put([started, say('a')]);
    await log.requestCancel('t');
    await writer.put([say('b'), completed]);
    expect(await stored(log)).toEqual([
      'turn.submitted',
      'run.started',
      'text.delta',
      'cancel.requested',
      'end canceled',
    ]);
    expect(heard).toMatchObject([{ type: 'cancel.requested', seq: 4 }]);
    expect(writer.snapshot).toEqual(await log.get('t'));
    await writer.put([say('late')]);
    expect(await stored(log)).toHaveLength(5);
  });

  test('a batch whose acknowledgement is lost is written once, also if it is the end', async () => {
    await using log = memoryLog();
    let lose = true;
    const flaky = withAppend(log, (append) => async (...args) => {
      const seq = await append(...args);
      if ((lose = !lose)) return seq;
      throw new DuolaneError('network', 'the answer was lost');
    });
    const { writer } = await open(flaky);
    for (const batch of [[started, say('a')], [say('b')], [say('c'), completed]])
      await writer.put(batch);
    expect(await stored(log)).toEqual([
      'turn.submitted',
      'run.started',
      'text.delta',
      'text.delta',
      'text.delta',
      'end completed',
    ]);
    expect(writer.snapshot).toMatchObject({ text: 'abc', seq: 6 });
  });

  test('a turn that is appended before the end keeps the task open', async () => {
    await using log = memoryLog();
    const { writer } = await open(log);
    await writer.put([started]);
    const parts = [{ text: 'more' }];
    await log.submit({ agent: 'a', task: 't', context: 'c', messageId: 'm2', parts });
    await writer.put([completed]);
    expect(writer.snapshot).toMatchObject({ state: 'submitted', unserved: [{ messageId: 'm2' }] });
  });

  test('an error of the log is thrown, and a lost claim ends the wait for a failing store', async () => {
    await using log = memoryLog();
    const { writer } = await open(log);
    await expect(writer.put([say('no run')])).rejects.toMatchObject({ code: 'invalid' });
    const down = withAppend(log, () => () => Promise.reject(new DuolaneError('server', 'down')));
    const { claim } = await log.submit(
      { agent: 'a', task: 'u', context: 'c', messageId: 'u', parts: [{ text: 'x' }] },
      { worker: 'w' },
    );
    if (!claim) throw new Error('not free');
    const waiting = new TaskWriter(down, claim, () => {}).put([started]);
    await log[Symbol.asyncDispose]();
    await expect(waiting).rejects.toMatchObject({ code: 'fenced' });
  });
});
