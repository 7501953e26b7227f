import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AgentEvent, Frame } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { frameReader, readResult } from './frame-reader.ts';

const message = (data: JsonObject): Frame => ({ lane: 'message', direction: 'in', at: 5, data });
const read = (...frames: readonly JsonObject[]): AgentEvent[] => {
  const reader = frameReader();
  return frames.flatMap((data) => reader(message(data)));
};
const stream = (event: JsonObject): JsonObject => ({ type: 'stream_event', event });
const types = (events: readonly AgentEvent[]): string[] => events.map(({ type }) => type);

const START = stream({ type: 'message_start', message: { id: 'msg', usage: { input_tokens: 3 } } });
const text = (words: string): JsonObject =>
  stream({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: words } });
const OPEN_TEXT = stream({
  type: 'content_block_start',
  index: 0,
  content_block: { type: 'text' },
});

test('streamed text is not repeated by the complete block that follows', () => {
  const events = read(START, OPEN_TEXT, text('Hello '), text('you'), {
    type: 'assistant',
    message: { id: 'msg', content: [{ type: 'text', text: 'Hello you' }] },
  });
  expect(types(events)).toEqual(['step.started', 'text.delta', 'text.delta']);
});

test('without deltas the complete block is the text', () => {
  const [event] = read({
    type: 'assistant',
    uuid: 'u',
    message: { id: 'msg', content: [{ type: 'text', text: 'Hello' }] },
  });
  expect(event).toMatchObject({ type: 'text.end', text: 'Hello' });
});

test('a tool call is read as its start, its arguments and its result', () => {
  const tool = { type: 'tool_use', id: 't1', name: 'mcp__s__add' };
  const events = read(
    START,
    stream({ type: 'content_block_start', index: 1, content_block: tool }),
    stream({
      type: 'content_block_delta',
      index: 1,
      delta: { type: 'input_json_delta', partial_json: '{"a":1}' },
    }),
    { type: 'assistant', message: { id: 'msg', content: [{ ...tool, input: { a: 1 } }] } },
    {
      type: 'user',
      message: {
        content: [{ type: 'tool_result', tool_use_id: 't1', content: 'no', is_error: true }],
      },
    },
  );
  expect(events).toMatchObject([
    { type: 'step.started' },
    { type: 'tool.started', callId: 't1', name: 'mcp__s__add' },
    { type: 'tool.args', callId: 't1', delta: '{"a":1}' },
    { type: 'tool.called', callId: 't1', args: { a: 1 } },
    {
      type: 'tool.failed',
      callId: 't1',
      name: 'mcp__s__add',
      error: { code: 'tool', message: 'no' },
    },
  ]);
});

test('a retry voids the text of the failed attempt only', () => {
  const retry = {
    type: 'system',
    subtype: 'api_retry',
    attempt: 1,
    error_status: 529,
    error: 'overloaded',
  };
  expect(read(START, OPEN_TEXT, text('half'), retry).at(-1)).toMatchObject({
    type: 'retry',
    discard: true,
    error: { code: 'overloaded', status: 529, retryable: true },
  });
  expect(read(START, retry).at(-1)).toMatchObject({ type: 'retry', discard: false });
});

test('usage and the reason of a step come with its end', () => {
  const events = read(
    START,
    stream({
      type: 'message_delta',
      delta: { stop_reason: 'tool_use' },
      usage: { output_tokens: 7 },
    }),
    stream({ type: 'message_stop' }),
  );
  expect(events.at(-1)).toMatchObject({
    type: 'step.finished',
    step: 1,
    reason: 'tool-calls',
    usage: { inputTokens: 3, outputTokens: 7 },
  });
});

test('the events of a sub-agent have its path', () => {
  const [event] = read({
    type: 'assistant',
    parent_tool_use_id: 'task_1',
    message: { id: 'm', content: [{ type: 'text', text: 'inner' }] },
  });
  expect(event?.path).toEqual(['task_1']);
});

/** The raw events of one message of three pieces, by the agent or by the sub-agent of a call. */
const messageOf = (id: string, call: string | null, pieces: readonly string[]): JsonObject[] => {
  const by = (event: JsonObject): JsonObject => ({ ...stream(event), parent_tool_use_id: call });
  return [
    by({ type: 'message_start', message: { id, usage: { input_tokens: 1 } } }),
    by({ type: 'content_block_start', index: 0, content_block: { type: 'text' } }),
    ...pieces.map((words) =>
      by({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: words } }),
    ),
    by({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } }),
    by({ type: 'message_stop' }),
  ];
};

test('interleaved speakers keep separate blocks and steps, in any order', () => {
  const voices = [
    messageOf('a', null, ['a1 ', 'a2 ', 'a3']),
    messageOf('b', 'call_1', ['b1 ', 'b2 ', 'b3']),
    messageOf('c', 'call_2', ['c1 ', 'c2 ', 'c3']),
  ];
  fc.assert(
    fc.property(fc.array(fc.nat(2)), (order) => {
      const left = voices.map((frames) => [...frames]);
      const mixed = [...order, ...left.flatMap((frames, i) => frames.map(() => i))].flatMap(
        (i) => left[i]?.splice(0, 1) ?? [],
      );
      const events = read(...mixed);
      for (const [id, path] of [['a'], ['b', 'call_1'], ['c', 'call_2']] as const) {
        const own = events.filter((event) => event.path?.[0] === path);
        const words = own.flatMap((event) => (event.type === 'text.delta' ? [event] : []));
        expect(words.map(({ delta }) => delta).join('')).toBe(`${id}1 ${id}2 ${id}3`);
        expect(new Set(words.map((event) => event.id))).toEqual(new Set([`${id}:0`]));
        const [started, finished] = [own[0], own.at(-1)];
        expect(started).toMatchObject({ type: 'step.started' });
        expect(finished).toMatchObject({
          type: 'step.finished',
          step: (started as { step: number }).step,
          usage: { inputTokens: 1, outputTokens: 2 },
        });
      }
    }),
  );
});

test('a retry of a sub-agent does not void the text of the agent', () => {
  const retry = { type: 'system', subtype: 'api_retry', attempt: 1, error: 'overloaded' };
  const finished = messageOf('a', null, ['I ask for help.']);
  expect(read(...finished, retry).at(-1)).toMatchObject({ type: 'retry', discard: false });
});

test.each([
  [429, '', 'rate_limited'],
  [503, '', 'overloaded'],
  [404, '', 'not_found'],
  [undefined, 'rate_limit', 'rate_limited'],
  [undefined, 'authentication_failed', 'unauthorized'],
  [undefined, 'unknown', 'network'],
])('a retry after status %s and the word %j is %s', (error_status, error, code) => {
  const frame = { type: 'system', subtype: 'api_retry', error_status, error };
  expect(read(frame)).toMatchObject([{ type: 'retry', error: { code } }]);
});

test.each([
  [
    { subtype: 'success', is_error: false, result: 'fine', structured_output: { a: 1 } },
    { outcome: 'completed', text: 'fine', output: { a: 1 } },
  ],
  [
    { subtype: 'success', is_error: true, result: 'API Error', api_error_status: 429 },
    { outcome: 'failed', error: { code: 'rate_limited', status: 429 } },
  ],
  [
    { subtype: 'error_max_turns', is_error: true, errors: ['too many'] },
    { outcome: 'failed', error: { code: 'max_steps', message: 'too many' } },
  ],
  [
    { subtype: 'error_during_execution', is_error: true, errors: [] },
    { outcome: 'failed', error: { code: 'interrupted' } },
  ],
])('the result %j is the end of a run', (frame, end) => {
  expect(readResult({ type: 'result', ...frame })).toMatchObject({ type: 'run.finished', ...end });
});

test('a control frame becomes an event with the id of its call', () => {
  const data = {
    type: 'control_request',
    request: {
      subtype: 'mcp_message',
      message: { params: { _meta: { 'claudecode/toolUseId': 't9' } } },
    },
  };
  const frame: Frame = { lane: 'control', direction: 'in', at: 1, data };
  expect(frameReader()(frame)).toEqual([{ type: 'frame', frame, callId: 't9', at: 1 }]);
});

test('unknown frames and messages of the host give no events', () => {
  expect(read({ type: 'something_new' }, { type: 'system', subtype: 'new' })).toEqual([]);
  const out: Frame = { lane: 'message', direction: 'out', at: 1, data: { type: 'user' } };
  expect(frameReader()(out)).toEqual([]);
});

test.each(['policy_decision', 'permission_decision'])(
  'a %s is kept in the log as it came, with its call',
  (subtype) => {
    const data = { type: 'system', subtype, tool_use_id: 't9', decision: 'allow', by: 'rule' };
    const frame = { lane: 'message', direction: 'in', at: 1, data } as const;
    expect(frameReader()(frame)).toEqual([{ type: 'frame', frame, callId: 't9', at: 1 }]);
  },
);
