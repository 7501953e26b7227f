import { expect, test } from 'vitest';
import type { AgentEvent, Entry, Frame } from '../event/types.ts';
import type { TraceItem } from './read-trace.ts';
import { recordedTasks } from './recorded-tasks.ts';

const frame = (direction: Frame['direction'], data: Frame['data']): TraceItem => ({
  kind: 'frame',
  line: 1,
  frame: {
    lane: String(data['type']).startsWith('control') ? 'control' : 'message',
    direction,
    at: 1,
    data,
  },
});
const says = (text: string): TraceItem =>
  frame('out', { type: 'user', message: { role: 'user', content: text } });
const control = frame('out', { type: 'control_request', request_id: 'r' });

/** A reader that knows three words. */
const read = ({ data, lane, ...rest }: Frame): readonly AgentEvent[] => {
  if (lane === 'control') return [{ type: 'frame', frame: { data, lane, ...rest } }];
  if (data['type'] === 'system') return [{ type: 'run.started' }];
  return data['type'] === 'result'
    ? [{ type: 'run.finished', outcome: 'completed', text: '' }]
    : [];
};
async function* all(...items: readonly TraceItem[]): AsyncGenerator<TraceItem, void, undefined> {
  yield* items;
}
const result = frame('in', { type: 'result' });

test('each message of the host is a task; frames between turns belong to the next', async () => {
  const items = [control, says('one'), frame('in', { type: 'system' }), result, control];
  const tasks = await recordedTasks(all(...items, says('two'), result, control), read);
  const types = ['turn.submitted', 'run.started', 'frame', 'run.finished'];
  expect(tasks.map(({ id, entries }) => [id, entries.map(({ type }) => type)])).toEqual([
    ['turn-1', types],
    ['turn-2', types],
  ]);
  expect(tasks[1]?.entries.map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
  expect(tasks[0]?.entries[0]).toMatchObject({ turn: { parts: [{ text: 'one' }] } });
});

test('entries of a log are one task, unchanged', async () => {
  const entry: Entry = {
    type: 'turn.submitted',
    turn: { messageId: 'm', agent: 'a', task: 'task-7', context: 'c', parts: [] },
    seq: 1,
    at: 5,
  };
  const [task] = await recordedTasks(all({ kind: 'entry', line: 1, entry }), read);
  expect(task).toMatchObject({ id: 'task-7', entries: [entry] });
});

test('a recording that cannot be shown says why', async () => {
  await expect(recordedTasks(all(control), read)).rejects.toThrow('it has no message of the host');
  await expect(
    recordedTasks(all({ kind: 'event', line: 1, event: { data: '{}' } }), read),
  ).rejects.toThrow('no lanes');
  await expect(
    recordedTasks(all({ kind: 'unreadable', line: 7, why: 'not JSON' }), read),
  ).rejects.toThrow('line 7: not JSON');
});
