import { expect, test } from 'vitest';
import { anthropic, type AnthropicClient } from '../../src/adapters/anthropic/anthropic-agent.ts';
import type { Ask } from '../../src/ask.ts';
import { normalizeAgent } from '../../src/event/index.ts';
import type { Agent } from '../../src/event/types.ts';
import { createSdkMcpServer, tool } from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { createRegistry, dialHttp, offerHttp } from '../../src/mcp/index.ts';
import type { ToolContext, ToolResult } from '../../src/mcp/types.ts';
import { all } from '../a2a/support.ts';
import { contextFor, newTask } from '../contracts/agent.contract.ts';
import { turnOf } from '../support/arbitraries.ts';
import { adapterContract, only, type Scene } from './adapter.contract.ts';
import { peer } from '../peers.ts';
import { startModelServer } from '../support/model-server.ts';
import { suite, verifies } from '../verifies.ts';
import { answerEach } from './answer-each.ts';
import { killEverywhere } from './kill-everywhere.ts';

const sdk = await peer('anthropic');

async function client(baseURL: string): Promise<AnthropicClient> {
  const { default: Anthropic } = (await sdk.import('@anthropic-ai/sdk')) as {
    default: new (options: JsonObject) => AnthropicClient;
  };
  return new Anthropic({ apiKey: 'dummy', baseURL });
}

async function build({ url, tools, output }: Scene): Promise<Agent> {
  const { instance } = createSdkMcpServer({
    name: 'scene',
    tools: tools.map(({ name, description, schema, run }) =>
      tool(name, description, schema, async (args: JsonObject, { signal }: ToolContext) => {
        const made = await run(args, signal);
        return typeof made === 'string' ? made : (made as ToolResult);
      }),
    ),
  });
  return anthropic(await client(url), {
    model: 'scripted',
    tools: instance,
    needsApproval: ({ name }) => tools.some((each) => each.name === name && each.approval === true),
    ...(output && {
      params: { output_config: { format: { type: 'json_schema', schema: output } } },
    }),
  });
}

suite('anthropic', sdk.reason, () => {
  adapterContract('the client of the Messages API', { build });
  killEverywhere('the client of the Messages API', { build });

  verifies('S233', 'the tools of an MCP server reach the agent as its toolset', async () => {
    const registry = createRegistry({
      name: 'moon',
      tools: [tool('landing', 'When it landed', {}, async () => '20 July 1969')],
    });
    await using offered = await offerHttp(registry, {});
    await using dialled = await dialHttp({ url: offered.url });
    await using model = await startModelServer([
      { tools: [{ id: 'call_1', name: 'landing' }] },
      { text: 'In 1969.' },
    ]);
    const agent = anthropic(await client(model.url), { model: 'scripted', tools: dialled });
    const events = await all(normalizeAgent(agent)(turnOf('m1'), contextFor().ctx));
    expect(model.calls[0]?.body['tools']).toMatchObject([
      { name: 'landing', description: 'When it landed' },
    ]);
    expect(JSON.stringify(model.calls[1]?.body['messages'])).toContain('20 July 1969');
    expect(events.at(-1)).toMatchObject({ outcome: 'completed', text: 'In 1969.' });
  });

  test('a tool that asks during its call is called again with the answer', async () => {
    const registry = createRegistry({
      name: 'desk',
      tools: [
        tool('book', 'Books', {}, async (_args, { ask }) => {
          const { content } = await ask({ id: 'day', kind: 'question', message: 'When?' });
          return `booked for ${String(content)}`;
        }),
      ],
    });
    await using model = await startModelServer([
      { tools: [{ id: 'call_1', name: 'book' }] },
      { text: 'Done.' },
    ]);
    const agent = anthropic(await client(model.url), { model: 'scripted', tools: registry });
    const answer: Ask = async ({ id }) => ({ id, action: 'accept', content: 'Monday' });
    const events = await all(
      normalizeAgent(agent)(turnOf('m1'), contextFor(newTask(), answer).ctx),
    );
    expect(only(events, 'input.required')).toMatchObject([{ request: { id: 'call_1/day' } }]);
    expect(JSON.stringify(only(events, 'tool.completed'))).toContain('booked for Monday');
  });

  test('after a resume, an answer counts for its own call only, also if the provider repeats its id', async () => {
    const paid: unknown[] = [];
    const registry = createRegistry({
      name: 'desk',
      tools: [
        tool('pay', 'Pays', { type: 'object' }, async ({ amount }: JsonObject, { ask }) => {
          const { action } = await ask({
            id: 'sure',
            kind: 'approval',
            message: `Pay ${String(amount)}?`,
          });
          if (action === 'accept') paid.push(amount);
          return action;
        }),
      ],
    });
    await using model = await startModelServer([
      { tools: [{ id: 'call_0', name: 'pay', input: { amount: 1 } }] },
      { tools: [{ id: 'call_0', name: 'pay', input: { amount: 1000 } }] },
      { text: 'Done.' },
    ]);
    const agent = anthropic(await client(model.url), { model: 'scripted', tools: registry });
    const asked = await answerEach(agent, ['accept', 'decline']);
    expect(asked).toEqual(['Pay 1?', 'Pay 1000?']);
    expect(paid).toEqual([1]);
  });

  test('each of two equal calls with one id needs its own approval', async () => {
    let paid = 0;
    const registry = createRegistry({
      name: 'desk',
      tools: [tool('pay', 'Pays', { type: 'object' }, async () => `paid ${++paid}`)],
    });
    const call = { id: 'call_0', name: 'pay', input: { amount: 1 } };
    await using model = await startModelServer([{ tools: [call, call] }, { text: 'Done.' }]);
    const agent = anthropic(await client(model.url), {
      model: 'scripted',
      tools: registry,
      needsApproval: () => true,
    });
    const options = { suspendAfterMs: 600_000 };
    expect(await answerEach(agent, ['accept', 'decline'], options)).toHaveLength(2);
    expect(paid).toBe(1);
    const ids = /"tool_use_id":"([^"]+)"/g;
    const results = JSON.stringify(model.calls[1]?.body['messages']).matchAll(ids);
    expect(Array.from(results, ([, id]) => id)).toEqual(['call_0', 'call_0_2']);
  });

  test('after a suspension the model gets its text so far, before the open call', async () => {
    const registry = createRegistry({
      name: 'desk',
      tools: [tool('book', 'Books', { type: 'object' }, async () => 'booked')],
    });
    await using model = await startModelServer([
      { text: 'I book it.', tools: [{ id: 'call_1', name: 'book' }] },
      { text: 'Done.' },
    ]);
    const agent = anthropic(await client(model.url), {
      model: 'scripted',
      tools: registry,
      needsApproval: () => true,
    });
    await answerEach(agent, ['accept']);
    const messages = model.calls[1]?.body['messages'] as readonly JsonObject[];
    expect(messages.at(-2)).toMatchObject({
      role: 'assistant',
      content: [
        { type: 'text', text: 'I book it.' },
        { type: 'tool_use', id: 'call_1' },
      ],
    });
  });
});
