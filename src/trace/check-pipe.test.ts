import { expect, test } from 'vitest';
import { verifies } from '../../test/verifies.ts';
import type { Frame } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import { isControl } from '../wire/control-peer.ts';
import { checkPipe } from './check-pipe.ts';
import { frameDescriber } from './describe-frame.ts';

type Line = readonly [Frame['direction'], JsonObject, { readonly lost: true }?];

const framesOf = (lines: readonly Line[]): Frame[] =>
  lines.map(([direction, data, rest], at) => ({
    lane: isControl(data) ? 'control' : 'message',
    direction,
    at,
    data,
    ...rest,
  }));

/** Rules with the line that they name: `rule 3`. */
function judge(...lines: readonly Line[]): string[] {
  const checker = checkPipe();
  const found = framesOf(lines).flatMap((frame, at) => checker.see(frame, at + 1));
  return [...found, ...checker.end()].map(
    ({ rule, line, severity }) => `${severity} ${rule} ${line}`,
  );
}

const ask = (id: string, request: JsonObject): JsonObject => ({
  type: 'control_request',
  request_id: id,
  request,
});
const answer = (id: string, response?: unknown): JsonObject => ({
  type: 'control_response',
  response: { subtype: 'success', request_id: id, response },
});
const mcp = (message: JsonObject): JsonObject => ({
  subtype: 'mcp_message',
  server_name: 'calc',
  message: { jsonrpc: '2.0', ...message },
});
const call = (id = 1): JsonObject => mcp({ id, method: 'tools/call', params: { name: 'add' } });
const result = (id: unknown = 1): JsonObject => ({
  mcp_response: { jsonrpc: '2.0', id, result: {} },
});
const host = (subtype: string, more: JsonObject = {}): JsonObject => ({
  type: 'system',
  subtype,
  host: true,
  ...more,
});
const user = { type: 'user', message: { role: 'user', content: 'add' } };
const good = { type: 'result', subtype: 'success', is_error: false, result: 'five' };
const bad = { type: 'result', subtype: 'success', is_error: true, result: 'overloaded' };
const init: Line = ['out', ask('i', { subtype: 'initialize', sdkMcpServers: ['calc'] })];
const ready: Line = ['in', answer('i', {})];

test('a correct session has no findings', () => {
  expect(
    judge(
      init,
      ['in', ask('h', mcp({ method: 'notifications/initialized' }))],
      ['out', answer('h', { mcp_response: {} })],
      ready,
      ['out', user],
      ['in', ask('p', { subtype: 'can_use_tool', tool_name: 'add', input: {} })],
      ['out', answer('p', { behavior: 'allow', updatedInput: {} })],
      ['in', ask('c', call(0))],
      ['out', answer('c', result(0))],
      ['in', good],
      ['out', host('input_ended')],
      ['in', host('output_ended')],
      ['in', host('exited', { code: 0 })],
    ),
  ).toEqual([]);
});

verifies(
  ['S97', 'S267'],
  'a tool answer that never came is found, with the line of its call',
  () => {
    expect(
      judge(
        init,
        ready,
        ['out', user],
        ['out', host('input_ended')],
        ['in', ask('c', call())],
        ['in', good],
        ['in', host('exited', { code: 0 })],
      ),
    ).toEqual(['error input-closed-early 4', 'error tool-answer-lost 5']);
  },
);

test('a response that could not be written is lost', () => {
  expect(judge(['in', ask('c', call())], ['out', answer('c', result()), { lost: true }])).toEqual([
    'error tool-answer-lost 2',
  ]);
});

test('a request that is pending at the end of an unfinished trace is only a warning', () => {
  expect(judge(['out', user], ['in', ask('c', call())])).toEqual([
    'warning turn-without-result 1',
    'warning tool-answer-lost 2',
  ]);
});

const over: Line = ['in', host('exited', { code: 0 })];

test.each<[string, readonly Line[], readonly string[]]>([
  [
    'stdin closed under a waiting call',
    [
      ['in', ask('c', call())],
      ['out', host('input_ended')],
      ['out', answer('c', result())],
    ],
    ['error input-closed-early 2'],
  ],
  [
    'a request without a response',
    [['in', ask('x', { subtype: 'hook_callback' })], over],
    ['error request-unanswered 1'],
  ],
  [
    'a request of the host',
    [['out', ask('x', { subtype: 'set_model' })], over],
    ['error request-unanswered 1'],
  ],
  [
    'a notification without its acknowledgement',
    [['in', ask('n', mcp({ method: 'notifications/initialized' }))], over],
    ['error notification-unacknowledged 1'],
  ],
  ['an answer to nothing', [['out', answer('zzz', {})]], ['warning answer-to-nothing 1']],
  [
    'a second answer',
    [
      ['in', ask('c', call())],
      ['out', answer('c', result())],
      ['out', answer('c', result())],
    ],
    ['warning answer-to-nothing 3'],
  ],
  [
    'one id twice',
    [
      ['in', ask('c', call())],
      ['in', ask('c', call(2))],
      ['out', answer('c', result())],
    ],
    ['error request-id-reused 2'],
  ],
  [
    'the flat envelope',
    [
      ['in', ask('c', call())],
      ['out', { type: 'control_response', request_id: 'c', response: { jsonrpc: '2.0' } }],
    ],
    ['error flat-answer 2'],
  ],
  [
    'a bare JSON-RPC answer',
    [
      ['in', ask('c', call())],
      ['out', answer('c', { jsonrpc: '2.0', id: 1, result: {} })],
    ],
    ['error answer-not-wrapped 2'],
  ],
  [
    'an id of another type',
    [
      ['in', ask('c', call(1))],
      ['out', answer('c', result('1'))],
    ],
    ['error rpc-id-mismatch 2'],
  ],
  [
    'a permission in no shape',
    [
      ['in', ask('p', { subtype: 'can_use_tool' })],
      ['out', answer('p', { allow: true })],
    ],
    ['error permission-shape 2'],
  ],
  [
    'a denial without words',
    [
      ['in', ask('p', { subtype: 'can_use_tool' })],
      ['out', answer('p', { behavior: 'deny' })],
    ],
    ['error permission-shape 2'],
  ],
  [
    'a server that failed',
    [
      [
        'in',
        { type: 'system', subtype: 'init', mcp_servers: [{ name: 'calc', status: 'failed' }] },
      ],
    ],
    ['error server-not-listed 1'],
  ],
  [
    'a turn without a result',
    [
      ['out', user],
      ['in', host('exited', { code: null, signal: 'SIGKILL' })],
    ],
    ['error turn-without-result 1'],
  ],
  [
    'an error result and its exit code',
    [
      ['out', user],
      ['in', bad],
      ['in', host('exited', { code: 1 })],
    ],
    ['info result-is-error 2'],
  ],
  [
    'an error result and code 0',
    [['out', user], ['in', bad], over],
    ['info result-is-error 2', 'warning exit-code 3'],
  ],
  [
    'a good result and code 1',
    [
      ['out', user],
      ['in', good],
      ['in', host('exited', { code: 1 })],
    ],
    ['error exit-code 3'],
  ],
  ['a line null', [['in', host('noise', { text: 'null' })]], ['error line-not-protocol 1']],
  ['a banner', [['in', host('noise', { text: 'Welcome!' })]], ['warning line-not-protocol 1']],
  [
    'a broken line to the CLI',
    [['out', host('noise', { text: '{' })]],
    ['error line-not-protocol 1'],
  ],
  [
    'a wrong role',
    [
      ['out', { type: 'user', message: { role: 'assistant', content: '' } }],
      ['in', good],
    ],
    ['error message-shape 1'],
  ],
  [
    'a stall',
    [['in', host('stalled', { silent_ms: 9, holding: ['tools/call add'] })]],
    ['warning stalled 1'],
  ],
])('finds %s', (_name, lines, expected) => {
  expect(judge(...lines)).toEqual(expected);
});

test('a cancelled request needs no response, and may get one', () => {
  expect(
    judge(
      ['in', ask('p', { subtype: 'can_use_tool' })],
      ['in', { type: 'control_cancel_request', request_id: 'p' }],
      ['out', answer('p', {})],
      ['in', ask('c', call(5))],
      ['in', ask('n', mcp({ method: 'notifications/cancelled', params: { requestId: 5 } }))],
      ['out', answer('n', { mcp_response: {} })],
      over,
    ),
  ).toEqual([]);
});

test('frames are described, and a response names its request', () => {
  const describe = frameDescriber();
  const words = framesOf([
    [
      'in',
      ask('c', mcp({ id: 1, method: 'tools/call', params: { name: 'add', arguments: { a: 1 } } })),
    ],
    ['out', answer('c', result())],
    ['out', answer('c', result()), { lost: true }],
    ['in', { type: 'assistant', message: { content: [{ type: 'text', text: 'five\nor so' }] } }],
  ]).map(describe);
  expect(
    words.map(
      ({ lane, arrow, text, bad: isBad }) => `${lane} ${arrow} ${text}${isBad ? ' !' : ''}`,
    ),
  ).toEqual([
    'CTRL ← tools/call add on calc {"a":1}',
    'CTRL → response to tools/call add on calc',
    'CTRL → LOST response to an unknown request (c) !',
    'MSG ← assistant five or so',
  ]);
});

test('a SessionEnd hook at the end needs no response; any other does', () => {
  const hook = (event: string): Line => [
    'in',
    ask('h', { subtype: 'hook_callback', callback_id: 'b', input: { hook_event_name: event } }),
  ];
  const before: Line[] = [
    ['out', user],
    ['in', good],
    ['out', host('input_ended')],
  ];
  expect(judge(...before, hook('SessionEnd'), ['in', host('exited', { code: 0 })])).toEqual([]);
  expect(judge(...before, hook('Stop'), ['in', host('exited', { code: 0 })])).toEqual([
    expect.stringContaining('request-unanswered 4'),
  ]);
});

test('the finding about an invalid line says what was expected, and shows the line', () => {
  const [frame] = framesOf([['in', host('noise', { text: 'Welcome!' })]]);
  expect(checkPipe().see(frame as Frame, 1)).toMatchObject([
    { what: 'stdout of the CLI has a line that is not a JSON object: Welcome!' },
  ]);
});
