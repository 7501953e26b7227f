import { expect, test } from 'vitest';
import { createRegistry } from '../mcp/registry/registry.ts';
import { memoryLog } from '../task/memory/memory-log.ts';
import { serve } from './serve.ts';

const WRONG: readonly unknown[] = [
  null,
  0,
  -1,
  2 ** 53,
  '',
  'text',
  '\ud800',
  true,
  [],
  [null],
  {},
  { toString: 1 },
  { __proto__: null, constructor: null },
];

/** Bodies with each wrong value in each place where a value is expected. */
const bodies = (template: (wrong: unknown) => readonly unknown[]): readonly string[] =>
  [...WRONG, ...WRONG.flatMap(template)].map((body) => JSON.stringify(body));

const ROUTES: readonly (readonly [string, (wrong: unknown) => readonly unknown[]])[] = [
  [
    '/api/agents/agent/turns',
    (wrong) => [
      { text: wrong },
      { data: wrong },
      { answers: wrong },
      { answers: [wrong] },
      { answers: [{ id: wrong, action: 'accept' }] },
      { answers: [{ id: 'q', action: wrong }] },
      { text: 'a', context: wrong },
      { text: 'a', messageId: wrong },
    ],
  ],
  [
    '/ui/agent',
    (wrong) => [
      { id: wrong, messages: [] },
      { id: 'c', messages: wrong },
      { id: 'c', messages: [wrong] },
      { id: 'c', messages: [{ role: wrong, parts: wrong }] },
      { id: 'c', messages: [{ id: wrong, role: 'user', parts: [wrong] }] },
      { id: 'c', messages: [{ id: 'm', role: 'user', parts: [{ type: wrong, text: wrong }] }] },
      { id: 'c', messages: [{ id: 'm', role: 'user', parts: [{ type: 'file', url: wrong }] }] },
      {
        id: 'c',
        messages: [{ id: 'm', role: 'assistant', parts: [{ type: 'tool-x', approval: wrong }] }],
      },
    ],
  ],
  [
    '/ag-ui/agent',
    (wrong) => [
      { threadId: wrong, runId: wrong, messages: [] },
      { threadId: 'c', messages: wrong },
      { threadId: 'c', messages: [wrong] },
      { threadId: 'c', messages: [{ id: wrong, role: 'user', content: wrong }] },
      { threadId: 'c', messages: [{ id: 'm', role: 'tool', toolCallId: wrong, content: wrong }] },
      { threadId: 'c', messages: [], resume: wrong },
      { threadId: 'c', messages: [], forwardedProps: wrong },
    ],
  ],
  [
    '/stream-json/agent',
    (wrong) => [
      { type: wrong, message: wrong },
      { type: 'user', message: wrong },
      { type: 'user', session_id: wrong, message: { role: 'user', content: wrong } },
      { type: 'user', message: { role: 'user', content: [wrong] } },
      {
        type: 'user',
        message: { role: 'user', content: [{ type: 'tool_result', content: wrong }] },
      },
    ],
  ],
  [
    '/a2a',
    (wrong) => [
      { jsonrpc: '2.0', id: wrong, method: 'tasks/get', params: { id: 'x' } },
      { jsonrpc: '2.0', id: 1, method: wrong, params: wrong },
      { jsonrpc: '2.0', id: 1, method: 'message/send', params: wrong },
      { jsonrpc: '2.0', id: 1, method: 'message/send', params: { message: wrong } },
      { jsonrpc: '2.0', id: 1, method: 'tasks/get', params: { id: wrong, historyLength: wrong } },
      {
        jsonrpc: '2.0',
        id: 1,
        method: 'tasks/pushNotificationConfig/set',
        params: { taskId: wrong, pushNotificationConfig: wrong },
      },
    ],
  ],
  [
    '/mcp',
    (wrong) => [
      { jsonrpc: '2.0', id: 1, method: 'initialize', params: wrong },
      { jsonrpc: '2.0', id: 1, method: 'tools/call', params: wrong },
      { jsonrpc: '2.0', method: 'notifications/cancelled', params: wrong },
      { jsonrpc: wrong, id: wrong, method: wrong, params: wrong },
    ],
  ],
];

test.each(ROUTES)(
  '%s refuses malformed bodies, and never fails with 500',
  async (path, template) => {
    const errors: unknown[] = [];
    const error = (...args: unknown[]): number => errors.push(args);
    await using served = await serve(async function* () {}, {
      log: memoryLog(),
      page: false,
      tools: createRegistry({ name: 'tools', version: '1' }),
      logger: { debug() {}, info() {}, warn: error, error },
    });
    const failed: unknown[] = [];
    for (const body of bodies(template)) {
      const response = await fetch(`${served.url}${path}`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
        },
        body,
      });
      const text = await response.text();
      if (response.status >= 500 || text.includes('-32603'))
        failed.push([body, response.status, text]);
    }
    expect({ failed, errors }).toEqual({ failed: [], errors: [] });
  },
);
