import { expect, test } from 'vitest';
import type { JsonObject } from '../json.ts';
import { controlLabel, describeControl } from './describe-control.ts';

const call = { method: 'tools/call', params: { name: 'add' } };

test.each<[string, JsonObject]>([
  ['tools/call add on calc', { subtype: 'mcp_message', server_name: 'calc', message: call }],
  ['a response on calc', { subtype: 'mcp_message', server_name: 'calc', message: { id: 1 } }],
  ['permission for Bash', { subtype: 'can_use_tool', tool_name: 'Bash' }],
  ['hook h1', { subtype: 'hook_callback', callback_id: 'h1' }],
  ['elicitation of calc', { subtype: 'elicitation', mcp_server_name: 'calc' }],
  ['interrupt', { subtype: 'interrupt' }],
])('is labelled "%s"', (label, request) => {
  expect(controlLabel(describeControl(request))).toBe(label);
});

test('fields of the wrong type are missing', () => {
  const request = { subtype: 'mcp_message', server_name: 7, message: { method: null, params: [] } };
  expect(describeControl(request)).toEqual({ subtype: 'mcp_message' });
  expect(describeControl({})).toEqual({ subtype: '' });
});
