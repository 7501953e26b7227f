import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { sessionDir } from '../../src/agent-cli/session/transcript.ts';
import type { JsonObject } from '../../src/json.ts';
import { RawHost, Workspace } from './workspace.ts';

// A process that ended anywhere in a turn with a structured output: the next one continues there.

const ID = '00000001-1111-4111-8111-111111111111';
const jsonSchema = { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] };
const prompt = { role: 'user', content: [{ type: 'text', text: 'go' }] };
const text = { type: 'text', text: 'Here it is.' };
const call = (id: string): JsonObject => ({
  type: 'tool_use',
  id,
  name: 'StructuredOutput',
  input: { a: 1 },
});
const result = (id: string, more: JsonObject = {}): JsonObject => ({
  role: 'user',
  content: [{ type: 'tool_result', tool_use_id: id, content: 'read', ...more }],
});
const said = (id: string, ...content: readonly JsonObject[]): JsonObject => ({
  role: 'assistant',
  id,
  content,
});

/** Continues a session that ends with these messages; the model has the given answers left. */
async function continued(
  workspace: Workspace,
  messages: readonly JsonObject[],
  answers: readonly JsonObject[],
): Promise<RawHost> {
  const folder = sessionDir({ configDir: workspace.config, cwd: workspace.cwd });
  await mkdir(folder, { recursive: true });
  const lines = messages.map((message, at) => ({
    type: message['role'],
    uuid: `u${at}`,
    parentUuid: at === 0 ? null : `u${at - 1}`,
    sessionId: ID,
    message,
  }));
  await writeFile(
    join(folder, `${ID}.jsonl`),
    lines.map((line) => JSON.stringify(line)).join('\n'),
  );
  const model = await workspace.script(answers);
  const host = new RawHost(workspace, ['--model', model, '--resume', ID], {
    CLAUDE_CODE_RESUME_INTERRUPTED_TURN: '1',
  });
  host.request('init', 'initialize', { jsonSchema });
  return host;
}

test('an output that was not checked yet ends the turn without a model call', async () => {
  await using workspace = await Workspace.open();
  await using host = await continued(workspace, [prompt, said('m1', text, call('c1'))], []);
  expect(await host.result()).toMatchObject({ structured_output: { a: 1 }, is_error: false });
  expect(host.types()).not.toContain('stream_event');
});

test('a turn whose output was accepted has ended', async () => {
  await using workspace = await Workspace.open();
  const ended = [prompt, said('m1', text, call('c1')), result('c1')];
  const tools = [{ name: 'StructuredOutput', input: { a: 2 } }];
  await using host = await continued(workspace, ended, [{ when: 'next', tools }]);
  await host.answered('init');
  host.prompt('next');
  expect(await host.result()).toMatchObject({ structured_output: { a: 2 }, num_turns: 2 });
});

test('a message without the output is followed by the reminder', async () => {
  await using workspace = await Workspace.open();
  const tools = [{ name: 'StructuredOutput', input: { a: 3 } }];
  const answers = [{ when: 'Call the StructuredOutput tool now', tools }];
  await using host = await continued(workspace, [prompt, said('m1', text)], answers);
  expect(await host.result()).toMatchObject({ structured_output: { a: 3 } });
});

test('failures before the crash count', async () => {
  await using workspace = await Workspace.open();
  const failed = ['c1', 'c2', 'c3', 'c4', 'c5'].flatMap((id) => [
    said(`m-${id}`, call(id)),
    result(id, { is_error: true }),
  ]);
  await using host = await continued(workspace, [prompt, ...failed], []);
  expect(await host.result()).toMatchObject({ subtype: 'error_max_structured_output_retries' });
});
