import { expect, test } from 'vitest';
import {
  type OpenAiAgent,
  openaiAgents,
  type OpenAiRunner,
  type OpenAiStream,
} from '../../src/adapters/openai-agents/openai-agent.ts';
import { checkLaws, normalizeAgent } from '../../src/event/index.ts';
import type { Agent } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { all } from '../a2a/support.ts';
import { adapterContract, only, type Scene } from '../adapters/adapter.contract.ts';
import { killEverywhere } from '../adapters/kill-everywhere.ts';
import { contextFor } from '../contracts/agent.contract.ts';
import { turnOf } from '../support/arbitraries.ts';
import { peer } from '../peers.ts';
import { startModelServer } from '../support/model-server.ts';
import { suite } from '../verifies.ts';

const sdk = await peer('openai-agents');

/** The part of the SDK that the tests use. */
interface Lib {
  readonly Agent: new (options: JsonObject) => OpenAiAgent & {
    asTool(options: JsonObject): unknown;
  };
  readonly Runner: new (config: JsonObject) => OpenAiRunner & {
    run(agent: unknown, input: unknown, options: unknown): Promise<OpenAiStream>;
  };
  readonly OpenAIChatCompletionsModel: new (client: unknown, model: string) => unknown;
  readonly tool: (options: JsonObject) => unknown;
  readonly run: (agent: unknown, input: unknown, options: unknown) => Promise<OpenAiStream>;
  readonly setTracingDisabled: (disabled: boolean) => void;
}

async function load(url: string): Promise<{ readonly lib: Lib; readonly model: unknown }> {
  const lib = (await sdk.import('@openai/agents')) as unknown as Lib;
  const { default: OpenAI } = (await sdk.import('openai')) as {
    default: new (options: JsonObject) => unknown;
  };
  lib.setTracingDisabled(true);
  const client = new OpenAI({ apiKey: 'dummy', baseURL: `${url}/v1`, maxRetries: 0 });
  return { lib, model: new lib.OpenAIChatCompletionsModel(client, 'scripted') };
}

const toolsOf = ({ tool }: Lib, { tools }: Scene): readonly unknown[] =>
  tools.map(({ name, description, schema, approval = false, run }) =>
    tool({
      name,
      description,
      parameters: { ...schema, additionalProperties: false },
      strict: true,
      needsApproval: approval,
      execute: (args: JsonObject, _run: unknown, details?: { signal?: AbortSignal }) =>
        run(args, details?.signal),
    }),
  );

async function open(scene: Scene, name?: string) {
  const { lib, model } = await load(scene.url);
  const { output } = scene;
  const agent = new lib.Agent({
    name: 'scene',
    model: name ?? model,
    tools: toolsOf(lib, scene),
    ...(output && {
      outputType: { type: 'json_schema', name: 'answer', strict: true, schema: output },
    }),
  });
  return { lib, agent, model };
}

const build = async (scene: Scene): Promise<Agent> => {
  const { lib, agent } = await open(scene);
  return openaiAgents((input, options) => lib.run(agent, input, options));
};

const durable = async (scene: Scene): Promise<Agent> => {
  const { lib, agent: given } = await open(scene);
  return openaiAgents((input, options, { agent }) => lib.run(agent, input, options), {
    agent: given,
  });
};

/** A durable agent whose model is found by its name. */
const named = async (scene: Scene): Promise<Agent> => {
  const { lib, agent: given, model } = await open(scene, 'scripted');
  const runner = new lib.Runner({ modelProvider: { getModel: () => model } });
  return openaiAgents((input, options, run) => run.runner.run(run.agent, input, options), {
    agent: given,
    runner,
  });
};

/** An agent as a tool of another one; `onStream` gets its events. */
async function asking(scene: Scene): Promise<Agent> {
  const { lib, model } = await load(scene.url);
  const helper = new lib.Agent({ name: 'helper', model, tools: toolsOf(lib, scene) });
  return openaiAgents((input, options, { onStream }) => {
    const tools = [helper.asTool({ toolName: 'helper', toolDescription: 'Helps', onStream })];
    return lib.run(new lib.Agent({ name: 'scene', model, tools }), input, options);
  });
}

async function durableAsking(scene: Scene): Promise<Agent> {
  const { lib, model } = await load(scene.url);
  const helper = new lib.Agent({ name: 'helper', model, tools: toolsOf(lib, scene) });
  return openaiAgents((input, options, { agent }) => lib.run(agent, input, options), {
    agent: ({ onStream }) => {
      const tools = [helper.asTool({ toolName: 'helper', toolDescription: 'Helps', onStream })];
      return new lib.Agent({ name: 'scene', model, tools });
    },
  });
}

suite('openai-agents', sdk.reason, () => {
  adapterContract('the OpenAI Agents SDK', {
    build,
    gaps: { 'mcp error': 'its MCP client drops the mark, and any other result is words' },
    startsOver: true,
    toolError: 'An error occurred while running the tool',
    subAgent: {
      build: asking,
      handOver: { tools: [{ id: 'call_helper', name: 'helper', input: { input: 'Find it.' } }] },
    },
  });

  adapterContract('the OpenAI Agents SDK with durable calls', {
    build: durable,
    gaps: { 'mcp error': 'its MCP client drops the mark, and any other result is words' },
    toolError: 'An error occurred while running the tool',
    subAgent: {
      build: durableAsking,
      handOver: { tools: [{ id: 'call_helper', name: 'helper', input: { input: 'Find it.' } }] },
    },
  });
  killEverywhere('the OpenAI Agents SDK', { build: durable });
  killEverywhere('the OpenAI Agents SDK with a model by name', { build: named });

  test('a handoff is a call that completes, and the next agent continues the text', async () => {
    await using server = await startModelServer([
      { text: 'I ask. ', tools: [{ id: 'call_1', name: 'transfer_to_helper', input: {} }] },
      { text: 'Found it.' },
    ]);
    const { lib, model } = await load(server.url);
    const helper = new lib.Agent({ name: 'helper', model });
    const agent = new lib.Agent({ name: 'scene', model, handoffs: [helper] });
    const served = openaiAgents((input, options) => lib.run(agent, input, options));
    const events = await all(normalizeAgent(served)(turnOf('m1'), contextFor().ctx));
    expect(checkLaws(events)).toEqual([]);
    expect(only(events, 'tool.called')).toMatchObject([{ name: 'transfer_to_helper' }]);
    expect(only(events, 'tool.completed')).toMatchObject([{ name: 'transfer_to_helper' }]);
    expect(only(events, 'tool.failed')).toEqual([]);
    expect(only(events, 'status').map(({ message }) => message)).toContain('Handed over to helper');
    expect(events.at(-1)).toMatchObject({ outcome: 'completed', text: 'I ask. Found it.' });
  });
});
