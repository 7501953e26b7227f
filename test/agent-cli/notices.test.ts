import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { RawHost, requestOf, Workspace } from './workspace.ts';

const call = { tools: [{ name: 'mcp__calc__add' }] };

test('Notification hooks are called for a permission request, without waiting for them', async () => {
  await using ws = await Workspace.open();
  const model = await ws.script([call, { text: 'end: {{last}}' }]);
  await using host = new RawHost(ws, ['--model', model, '--permission-prompt-tool', 'stdio']);
  // The hook is never answered.
  host.respond('can_use_tool', () => ({ behavior: 'allow', updatedInput: {} }));
  const hooks = { Notification: [{ hookCallbackIds: ['n'] }] };
  host.serve([{ name: 'add' }], () => 'done', { hooks });
  host.prompt('go');
  expect(requestOf(await host.asked('hook_callback'))).toMatchObject({
    callback_id: 'n',
    input: { hook_event_name: 'Notification', notification_type: 'permission_prompt' },
  });
  expect(await host.result()).toMatchObject({ result: 'end: done' });
});

test('log messages of a server reach the host and not the model', async () => {
  await using ws = await Workspace.open();
  const model = await ws.script([call, { text: 'end: {{last}}' }]);
  await using host = new RawHost(ws, ['--model', model, '--allowed-tools', 'mcp__calc__*']);
  host.serve([{ name: 'add' }], () => {
    const params = { level: 'warning', data: 'disk is slow' };
    const message = { jsonrpc: '2.0', method: 'notifications/message', params };
    host.request('log', 'mcp_message', { server_name: 'calc', message });
    return 'done';
  });
  host.prompt('go');
  expect(await host.type('system', 'informational')).toMatchObject({
    content: 'disk is slow',
    tag: 'mcp_log',
    server: 'calc',
    level: 'warning',
  });
  expect(await host.result()).toMatchObject({ result: 'end: done' });
});

test('read_file reads only files inside the working directories', async () => {
  await using ws = await Workspace.open();
  await using host = new RawHost(ws, ['--model', await ws.script([])]);
  await writeFile(join(ws.cwd, 'note.txt'), 'a long note');
  await writeFile(join(ws.root, 'secret.txt'), 'secret');
  await symlink(join(ws.root, 'secret.txt'), join(ws.cwd, 'link.txt'));
  await mkdir(join(ws.cwd, 'folder'));
  const read = async (path: string, more: object = {}) => {
    host.request(path, 'read_file', { path, ...more });
    return await host.answered(path);
  };
  expect(await read('note.txt')).toMatchObject({
    response: { contents: 'a long note', absPath: expect.stringMatching(/note\.txt$/) },
  });
  expect(await read('./note.txt', { max_bytes: 6, encoding: 'base64' })).toMatchObject({
    response: { contents: Buffer.from('a long').toString('base64'), truncated: true },
  });
  for (const [path, error] of [
    ['../secret.txt', 'outside of the working directories'],
    ['link.txt', 'outside of the working directories'],
    ['folder', 'expected a regular file, not a folder'],
    ['nothing.txt', 'cannot read'],
  ] as const) {
    const answer = await read(path);
    expect(answer).toMatchObject({ subtype: 'error', error: expect.stringContaining(error) });
  }
});
