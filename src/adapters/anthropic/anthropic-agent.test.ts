import { expect, test } from 'vitest';
import { all } from '../../../test/a2a/support.ts';
import { contextFor } from '../../../test/contracts/agent.contract.ts';
import { turnOf } from '../../../test/support/arbitraries.ts';
import { normalizeAgent } from '../../event/index.ts';
import { tool } from '../../host/index.ts';
import type { JsonObject } from '../../json.ts';
import { createRegistry } from '../../mcp/index.ts';
import { anthropic, type AnthropicClient } from './anthropic-agent.ts';

/** A message with one call, whose arguments are this JSON text. */
const calling = (json: string, stop_reason: string): readonly JsonObject[] => [
  { type: 'message_start', message: { id: 'm', usage: {} } },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  {
    type: 'content_block_start',
    index: 1,
    content_block: { type: 'tool_use', id: 'call', name: 'remove', input: {} },
  },
  {
    type: 'content_block_delta',
    index: 1,
    delta: { type: 'input_json_delta', partial_json: json },
  },
  { type: 'content_block_stop', index: 1 },
  { type: 'message_delta', delta: { stop_reason }, usage: {} },
];

/** Runs the agent with a model that sends this message first, and then a text. */
async function run(first: readonly JsonObject[]) {
  const removed: unknown[] = [];
  const bodies: JsonObject[] = [];
  const client: AnthropicClient = {
    messages: {
      create: async (body: JsonObject) => {
        bodies.push(body);
        const last = [{ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: {} }];
        return (async function* () {
          yield* bodies.length === 1 ? first : last;
        })();
      },
    },
  };
  const remove = tool('remove', 'Removes the files of a folder, or all', {}, async (args) => {
    removed.push(args);
    return '';
  });
  const tools = createRegistry({ name: 'files', tools: [remove] });
  const agent = anthropic(client, { model: 'scripted', tools });
  await all(normalizeAgent(agent)(turnOf('m1'), contextFor().ctx));
  return { removed, messages: bodies[1]?.['messages'] as readonly JsonObject[] };
}

test.each([
  ['cut off', '{"folder": "/tmp/x', 'max_tokens'],
  ['cut off before they began', '', 'max_tokens'],
  ['not an object', '["/tmp/x"]', 'tool_use'],
])('a call whose arguments are %s is not made', async (_, json, reason) => {
  const { removed, messages } = await run(calling(json, reason));
  expect(removed).toEqual([]);
  expect(messages.at(-1)).toMatchObject({
    content: [{ type: 'tool_result', tool_use_id: 'call', is_error: true }],
  });
  // The API accepts only an object.
  expect(messages.at(-2)).toMatchObject({ content: [{ type: 'tool_use', input: {} }] });
});

test('empty texts of the model and of a tool are not sent to the API, which refuses them', async () => {
  const { removed, messages } = await run(calling('', 'tool_use'));
  expect(removed).toEqual([{}]);
  expect(messages.slice(-2)).toMatchObject([
    { content: [{ type: 'tool_use' }] },
    { content: [{ type: 'tool_result', content: '(no text)' }] },
  ]);
});
