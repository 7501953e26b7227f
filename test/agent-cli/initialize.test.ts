import { expect, test } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { RawHost, requestOf, Workspace } from './workspace.ts';

const MANIFEST = {
  initializeResult: {
    protocolVersion: '2025-11-25',
    capabilities: { tools: { listChanged: true } },
    serverInfo: { name: 'calc', version: '7' },
  },
  toolsListResult: { tools: [{ name: 'add', inputSchema: { type: 'object' } }] },
};
const call = { tools: [{ name: 'mcp__calc__add' }] };
const methods = (host: RawHost): unknown[] =>
  host.seen
    .map(requestOf)
    .filter(({ subtype }) => subtype === 'mcp_message')
    .map(({ message }) => (message as JsonObject)['method']);

test('the response to a second initialize contains the open permission requests', async () => {
  await using ws = await Workspace.open();
  const model = await ws.script([call, { text: 'end: {{last}}' }]);
  await using host = new RawHost(ws, ['--model', model, '--permission-prompt-tool', 'stdio']);
  host.serve([{ name: 'add' }], () => 'done');
  expect(await host.answered('init')).toMatchObject({
    subtype: 'success',
    pending_permission_requests: [],
    pending_user_dialog_requests: [],
  });
  host.prompt('go');
  const question = await host.asked('can_use_tool');
  host.request('again', 'initialize');
  expect(await host.answered('again')).toMatchObject({
    pending_permission_requests: [question],
    response: { session_state: 'requires_action' },
  });
  host.answer(question, { behavior: 'allow', updatedInput: {} });
  expect(await host.result()).toMatchObject({ result: 'end: done' });
  host.request('last', 'initialize');
  expect(await host.answered('last')).toMatchObject({ pending_permission_requests: [] });
});

test('SessionStart hooks are called once, however often initialize is sent', async () => {
  await using ws = await Workspace.open();
  await using host = new RawHost(ws, ['--model', await ws.script([{ text: 'hi' }])]);
  host.respond('hook_callback', () => ({}));
  const hooks = { SessionStart: [{ hookCallbackIds: ['h'] }] };
  host.request('1', 'initialize', { hooks });
  host.request('2', 'initialize', { hooks });
  host.prompt('go');
  await host.result();
  await host.end();
  expect(host.seen.filter((frame) => requestOf(frame)['subtype'] === 'hook_callback')).toHaveLength(
    1,
  );
});

test('tools of a manifest are known immediately, and listed again only after a change', async () => {
  await using ws = await Workspace.open();
  const model = await ws.script([call, { text: 'end: {{last}}' }, { text: 'second' }]);
  await using host = new RawHost(ws, ['--model', model, '--allowed-tools', 'mcp__calc__*']);
  const tools = [{ name: 'add' }, { name: 'sub' }];
  host.serve(tools, () => 'done', { sdkMcpServerManifests: { calc: MANIFEST } });
  host.prompt('go');
  expect((await host.answered('init'))['response']).toMatchObject({
    sdk_mcp_manifests_parked: { calc: 'parked' },
  });
  expect(await host.type('system', 'init')).toMatchObject({ tools: ['mcp__calc__add'] });
  expect(await host.result()).toMatchObject({ result: 'end: done' });
  // Only by the handshake does a server learn that it may ask the person and the model.
  expect(methods(host)).toEqual(['initialize', 'notifications/initialized', 'tools/call']);
  const message = { jsonrpc: '2.0', method: 'notifications/tools/list_changed' };
  host.request('changed', 'mcp_message', { server_name: 'calc', message });
  await host.answered('changed');
  host.prompt('and now?');
  expect(await host.type('system', 'init')).toMatchObject({
    tools: ['mcp__calc__add', 'mcp__calc__sub'],
  });
});

test('a server that is disabled during its handshake stays disabled', async () => {
  await using ws = await Workspace.open();
  await using host = new RawHost(ws, ['--model', await ws.script([{ text: 'hi' }])]);
  const isMethod = (frame: JsonObject, method: string): boolean =>
    (requestOf(frame)['message'] as JsonObject | undefined)?.['method'] === method;
  const sdkMcpServerManifests = { calc: MANIFEST };
  host.request('init', 'initialize', { sdkMcpServers: ['calc'], sdkMcpServerManifests });
  const asked = await host.next((frame) => isMethod(frame, 'initialize'));
  const { id } = requestOf(asked)['message'] as JsonObject;
  const result = MANIFEST.initializeResult;
  host.answer(asked, { mcp_response: { jsonrpc: '2.0', id, result } });
  const initialized = await host.next((frame) => isMethod(frame, 'notifications/initialized'));
  host.request('off', 'mcp_toggle', { serverName: 'calc', enabled: false });
  host.answer(initialized, { mcp_response: { jsonrpc: '2.0', result: {}, id: 0 } });
  await host.answered('off');
  host.request('status', 'mcp_status');
  expect((await host.answered('status'))['response']).toMatchObject({
    mcpServers: [{ name: 'calc', status: 'disabled' }],
  });
});
