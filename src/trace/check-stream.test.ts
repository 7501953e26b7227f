import { expect, test } from 'vitest';
import { verifies } from '../../test/verifies.ts';
import type { JsonObject } from '../json.ts';
import { checkStream, type CheckStreamOptions } from './check-stream.ts';
import { checkHeaders, checkTiming } from './check-timing.ts';

const place = { taskId: 'T', contextId: 'C' };
const task = (state: string): JsonObject => ({
  kind: 'task',
  id: 'T',
  contextId: 'C',
  status: { state },
});
const status = (state: string, final = false): JsonObject => ({
  kind: 'status-update',
  ...place,
  status: { state },
  final,
});
const chunk = (more: JsonObject = {}): JsonObject => ({
  kind: 'artifact-update',
  ...place,
  artifact: { artifactId: 'a' },
  ...more,
});
const task1 = (state: string): JsonObject => ({
  task: { id: 'T', contextId: 'C', status: { state: `TASK_STATE_${state}` } },
});
const status1 = (state: string): JsonObject => ({
  statusUpdate: { ...place, status: { state: `TASK_STATE_${state}` } },
});
const rpc = (result: JsonObject, id: unknown = 7): string =>
  JSON.stringify({ jsonrpc: '2.0', id, result });

function judge(data: readonly string[], options?: CheckStreamOptions): string[] {
  const checker = checkStream(options);
  const found = data.flatMap((text, at) => checker.see({ data: text }, at + 1));
  return [...found, ...checker.end()].map(
    ({ rule, line, severity }) => `${severity} ${rule} ${line}`,
  );
}
const events = (results: readonly JsonObject[], options?: CheckStreamOptions): string[] =>
  judge(
    results.map((result) => rpc(result)),
    options,
  );

const done = status('completed', true);

test.each([
  [
    '0.3',
    [task('submitted'), status('working'), chunk(), chunk({ append: true, lastChunk: true }), done],
  ],
  ['1.0', [task1('SUBMITTED'), status1('WORKING'), status1('COMPLETED')]],
  ['one message', [{ message: { role: 'ROLE_AGENT' } }]],
  ['a wait', [task('submitted'), status('working'), status('input-required', true)]],
])('a sound stream has no findings: %s', (_name, results) => {
  expect(events(results)).toEqual([]);
});

verifies(['S267'], 'a stream that closes without a final event is found at its last event', () => {
  expect(events([task('submitted'), status('working')])).toEqual(['error stream-no-final 2']);
  expect(events([])).toEqual(['error stream-no-final 0']);
});

test.each<[string, readonly JsonObject[], readonly string[]]>([
  ['an update before the Task', [status('working'), done], ['error stream-first-task 1']],
  [
    'a first Task that works already',
    [task('working'), done],
    ['warning stream-first-submitted 1'],
  ],
  ['a second Task', [task('submitted'), task('working'), done], ['error stream-order 2']],
  ['a Message among updates', [task('submitted'), { kind: 'message' }], ['error stream-order 2']],
  [
    'an event behind the end',
    [task('submitted'), done, status('working')],
    ['error stream-after-final 3'],
  ],
  ['two ends', [task('submitted'), done, status('failed', true)], ['error stream-after-final 3']],
  [
    'final on a working status',
    [task('submitted'), status('working', true)],
    ['error stream-final-flag 2'],
  ],
  ['an end without final', [task('submitted'), status('completed')], ['error stream-final-flag 2']],
  [
    'a state of another version',
    [task('TASK_STATE_SUBMITTED'), done],
    ['warning stream-first-submitted 1', 'error stream-state 1'],
  ],
  [
    'another task',
    [task('submitted'), { ...status('working'), taskId: 'X' }, done],
    ['error stream-ids 2'],
  ],
  [
    'append to nothing',
    [task('submitted'), chunk({ append: true }), done],
    ['error stream-artifact 2'],
  ],
  [
    'append behind the last chunk',
    [task('submitted'), chunk({ lastChunk: true }), chunk({ append: true }), done],
    ['error stream-artifact 3'],
  ],
  [
    'a result that is not an event',
    [task('submitted'), { kind: 'surprise' }, done],
    ['error stream-rpc 2'],
  ],
])('finds %s', (_name, results, expected) => {
  expect(events(results)).toEqual(expected);
});

test('finds data that is not JSON-RPC, and ids that differ', () => {
  expect(judge(['{', rpc(task('submitted')), rpc(done, '7')])).toEqual([
    'error stream-rpc 1',
    'error stream-rpc-id 3',
  ]);
  expect(judge([rpc(task('submitted'), 1), rpc(done, 1)], { requestId: 2 })).toEqual([
    'error stream-rpc-id 1',
    'error stream-rpc-id 2',
  ]);
});

test('a JSON-RPC error ends a stream with its reason', () => {
  const error = JSON.stringify({
    jsonrpc: '2.0',
    id: 7,
    error: { code: -32001, message: 'no task' },
  });
  expect(judge([error])).toEqual(['info stream-rpc-error 1']);
});

test('the stream of a client that reconnected may begin in the middle', () => {
  expect(events([status('working'), chunk({ append: true }), done], { resumed: true })).toEqual([]);
});

test('a repeated SSE id is found', () => {
  const checker = checkStream();
  checker.see({ data: rpc(task('submitted')), id: '1' }, 1);
  expect(checker.see({ data: rpc(done), id: '1' }, 2)).toMatchObject([{ rule: 'stream-ids' }]);
});

verifies(['S267'], 'events that happened over a second and arrive together were buffered', () => {
  const spread = [0, 400, 800].map((stamp) => ({ stamp, at: 1000 }));
  const timing = { sentAt: 0, silentMs: 0 };
  expect(checkTiming({ ...timing, events: spread })).toMatchObject([{ rule: 'stream-buffered' }]);
  const live = [0, 400, 800].map((stamp) => ({ stamp, at: stamp + 30 }));
  expect(checkTiming({ ...timing, events: live })).toEqual([]);
  expect(checkTiming({ ...timing, events: [{ at: 2500 }], silentMs: 31_000 })).toMatchObject([
    { rule: 'stream-slow-start' },
    { rule: 'stream-silent' },
  ]);
});

test('headers that let a proxy buffer are found', () => {
  const rules = (headers: Record<string, string>): string[] =>
    checkHeaders(new Headers(headers)).map(({ rule }) => rule);
  expect(rules({ 'content-type': 'application/json' })).toEqual(['stream-media-type']);
  expect(rules({ 'content-type': 'text/event-stream' })).toEqual([
    'stream-headers',
    'stream-headers',
  ]);
  expect(
    rules({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      'x-accel-buffering': 'no',
    }),
  ).toEqual([]);
});
